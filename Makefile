# Bare `make` prints this list. Everything happens in .venv; nothing is installed elsewhere.
.DEFAULT_GOAL := help
.PHONY: help setup tools run test test-kafka test-faults test-image test-peers check lint types contracts format docs bench bench-full bench-setup image chart version sbom lock clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv and install what is locked

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "livetree needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)"; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing the locked dependencies (first time: about a minute)"
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock \
		&& uv pip install -q --python $(BIN)/python --no-deps -e .; \
	else \
		$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock \
		&& $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .; \
	fi
	@touch $(STAMP)

# What the tests use where it is there, and skip where it is not.
TOOLS := strace chromium prometheus buildah podman runc catatonit debootstrap

tools: ## install what only tests need, from Debian's packages: browser, Prometheus, containers (as root)
	@missing=""; for tool in $(TOOLS); do dpkg -s $$tool >/dev/null 2>&1 || missing="$$missing $$tool"; done; \
	test -z "$$missing" || { echo "installing$$missing"; apt-get update -qq \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; }

run: setup ## start the demo: broker, generator, learner and API on http://127.0.0.1:8000
	@$(BIN)/livetree demo

test: setup check ## lint, types, import contracts and all tests
	@$(BIN)/python -m pytest -m 'not image'
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q tests/learner/test_small_cases.py

test-kafka: setup ## tests on Apache Kafka itself, which they fetch (needs Java 17 and Maven)
	@REQUIRE_KAFKA=1 $(BIN)/python -m pytest -m kafka

test-faults: setup ## crashes and faults only: kill -9, damaged and refused checkpoints, lost brokers
	@REQUIRE_KAFKA=1 $(BIN)/python -m pytest tests/faults

test-image: setup ## build the image and run it, and the chart's pod (needs root, podman, buildah)
	@REQUIRE_PODMAN=1 $(BIN)/python -m pytest -n 0 -m image tests/image tests/chart

test-peers: bench-setup ## accuracy beside river and MOA
	@$(BIN)/python -m pytest -n 0 tests/test_peers.py

check: setup lint types contracts ## lint, types and import contracts only

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy

contracts: setup
	@$(BIN)/lint-imports --no-cache

format: setup ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: setup ## write anew what is made from the code: tables of docs/, files of the chart
	@$(BIN)/python -m docs.generate

bench: setup ## all benchmarks, on little data: some minutes; peers where they are installed
	@$(BIN)/python -m benchmarks.report --quick

bench-full: bench-setup ## all benchmarks in full, with all peers; writes docs/benchmarks.md
	@$(BIN)/python -m benchmarks.report --write

bench-setup: setup ## install the peers: river, scikit-learn, MOA inside capymoa (needs Java 17)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[peers]'

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
REVISION = $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
IMAGE ?= livetree
BUILD_ARGS ?=

image: ## build the container image livetree:VERSION with docker, podman or buildah, whichever works
	@for tool in docker podman buildah; do \
		$$tool info >/dev/null 2>&1 || continue; \
		test $$tool = docker && how="build" || how="build --format docker"; \
		echo "building $(IMAGE):$(VERSION) with $$tool"; \
		exec $$tool $$how --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
			$(BUILD_ARGS) -t $(IMAGE):$(VERSION) .; \
	done; echo "make image needs docker, podman or buildah that works; found none" >&2; exit 1

version: ## print the version
	@echo $(VERSION)

chart: setup ## check the chart, and pack it: dist/livetree-VERSION.tgz
	@$(BIN)/helm lint --strict --quiet helm/livetree
	@$(BIN)/helm package helm/livetree --destination dist

sbom: setup ## list the Python packages of the image, with versions and hashes: dist/livetree.cdx.json (CycloneDX)
	@mkdir -p dist
	@$(BIN)/cyclonedx-py requirements requirements-run.lock --pyproject pyproject.toml \
		--output-reproducible --of JSON -o dist/livetree.cdx.json
	@echo dist/livetree.cdx.json

lock: setup ## resolve the dependencies anew into requirements*.lock (needs uv)
	@uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-annotate -q -o requirements.lock
	@uv pip compile pyproject.toml --extra avro --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-annotate -q -c requirements.lock -o requirements-run.lock
	@uv pip compile pyproject.toml --extra avro --extra ray --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-annotate -q -c requirements.lock -o requirements-ray.lock

clean: ## remove .venv, caches and compiled kernels
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@rm -rf $(HOME)/.cache/livetree
