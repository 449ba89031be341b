# livetree, with its kernels compiled: a start takes seconds, also on a read-only file system.
# `make image` builds it; docs/deploy.md says how to run it.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini
WORKDIR /src
# requirements-ray.lock has Ray besides, for workers on a cluster.
ARG LOCK=requirements-run.lock
ENV PIP_CACHE_DIR=/var/cache/pip
COPY requirements-run.lock requirements-ray.lock ./
RUN --mount=type=cache,target=/var/cache/pip \
    python -m venv --without-pip /opt/livetree \
    && python -m pip --python /opt/livetree/bin/python install \
        --require-hashes --only-binary :all: -r ${LOCK}
COPY LICENSE README.md pyproject.toml ./
COPY app app
COPY learner learner
COPY streams streams
RUN --mount=type=cache,target=/var/cache/pip \
    python -m pip --python /opt/livetree/bin/python install --no-deps .
# Machine code fits the processor it was compiled for: a level that all of a cluster have, not this
# machine's own. x86-64-v3 is Haswell (2013) and later; give CPU=generic on ARM.
ARG CPU=x86-64-v3
# The variants to compile for; empty: all. Another one is compiled at each start of a container.
ARG VARIANTS=
ENV NUMBA_CPU_NAME=${CPU} NUMBA_CPU_FEATURES="" NUMBA_CACHE_DIR=/opt/livetree/kernels
# hadolint ignore=SC2086
RUN /opt/livetree/bin/python -m app.warmup ${VARIANTS}

FROM ${BASE}
ARG CPU=x86-64-v3
# The first process of a container is deaf to signals that it has no handler for, and Python, which
# imports for a second, has none yet: a stop in that second would end only by SIGKILL, after the whole
# grace. So an init comes first. It passes signals on to livetree alone, which ends its own workers,
# hands on its exit code, and takes in orphans (-s: also where it is not the first process).
COPY --from=build /usr/bin/tini-static /usr/bin/tini
COPY --from=build /usr/share/doc/tini/copyright /usr/share/doc/tini/copyright
COPY --from=build /opt/livetree /opt/livetree
RUN install -d -o 10001 -g 10001 /data
ENV PATH=/opt/livetree/bin:${PATH} \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CPU_NAME=${CPU} \
    NUMBA_CPU_FEATURES="" \
    NUMBA_CACHE_DIR=/opt/livetree/kernels \
    LIVETREE_HTTP__HOST=0.0.0.0
USER 10001:10001
# Checkpoints are kept here, in the folder `checkpoints`; the only place that is written to.
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-m", "app.healthcheck"]
ENTRYPOINT ["tini", "-s", "--", "livetree"]
CMD ["serve"]
# Last, because they change with every commit.
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="livetree" \
      org.opencontainers.image.description="Kafka events in, a decision tree that never stops learning, predictions and the tree itself out" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
