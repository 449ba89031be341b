"""Nothing that a user can meet is undocumented, and no page is out of date."""

from __future__ import annotations

import dataclasses
import keyword
import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from app.api import create_app
from app.cli import app as command_line
from app.deadletter import Reason, error_headers
from app.errors import POLICY, BadLabel
from app.metrics import Metrics
from app.settings import Settings
from app.settings_file import setting_paths, variable_of
from app.source import Record
from app.wiring import Service
from docs.generate import FILES, PAGES, current
from learner import VARIANTS, TreeParams
from tests.app.fake_service import FakeService

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
MARKDOWN = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
SOURCES = sorted(
    path for package in ("app", "learner", "streams") for path in (ROOT / package).rglob("*.py")
)
PARAMETERS = [field.name for field in dataclasses.fields(TreeParams)]
CITATION = re.compile(r"\[([A-Z][A-Za-z]*\d\d)\]")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """Table rows by their first cell, backticks taken off; the first of a name counts."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            found.setdefault(cells[0].strip("`"), cells)
    return found


def headings(text: str) -> set[str]:
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return {line.lstrip("#").strip() for line in plain.splitlines() if line.startswith("#")}


def anchors(text: str) -> set[str]:
    words = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings(text))
    return {re.sub(r"\s", "-", heading) for heading in words}


def section_of(text: str, heading: str) -> str:
    """What stands under the heading that begins so."""
    start = text.index(f"## {heading}")
    end = text.find("\n## ", start)
    return text[start : end if end >= 0 else None]


def test_readme_is_short() -> None:
    assert len(read("README.md").splitlines()) <= 150


@pytest.mark.parametrize("name", [*PAGES, *FILES])
def test_what_is_made_from_the_code_is_current(name: str) -> None:
    assert read(name) == current(name), "run: make docs"


def test_every_setting_has_a_row_with_its_variable_and_a_meaning() -> None:
    documented = rows(read("docs/settings.md"))
    for path in setting_paths(Settings):
        _, variable, *_, meaning = documented[".".join(path)]
        assert variable == f"`{variable_of(path)}`"
        assert meaning.endswith("."), path


def test_every_metric_has_a_row() -> None:
    documented = rows(read("docs/metrics.md"))
    families = [
        family
        for metric in vars(Metrics()).values()
        if hasattr(metric, "describe")
        for family in metric.describe()
    ]
    assert len(families) > 25
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert documented[name][-1] == family.documentation


def test_metrics_named_in_the_docs_exist() -> None:
    known = {name.removesuffix("_total") for name in rows(read("docs/metrics.md"))}
    for path in MARKDOWN:
        for name in re.findall(r"\blivetree_[a-z_]+", path.read_text(encoding="utf-8")):
            assert name.removesuffix("_total") in known, f"{path.name}: {name}"


@pytest.mark.parametrize("kind", POLICY, ids=lambda kind: kind.__name__)
def test_every_error_has_a_row_that_says_what_the_policy_does(kind: type[Exception]) -> None:
    policy = POLICY[kind]
    _, status, reason, action, code, meaning = rows(read("docs/errors.md"))[kind.__name__]
    assert (status, reason) == (str(policy.status), f"`{policy.reason}`")
    assert (action, code) == (policy.action.value, str(policy.exit_code))
    assert meaning


def test_every_exit_code_is_explained() -> None:
    explained = rows(read("docs/errors.md"))
    assert {str(policy.exit_code) for policy in POLICY.values()} | {"0"} <= set(explained)


def test_every_command_is_in_the_readme_and_no_other() -> None:
    commands = {
        command.name or cast(Any, command.callback).__name__
        for command in command_line.registered_commands
    } | {group.name for group in command_line.registered_groups}
    named = {name for name in rows(read("README.md")) if name.startswith("livetree ")}
    assert named == {f"livetree {command}" for command in commands}


def test_commands_named_in_the_docs_exist() -> None:
    known = {name for name in rows(read("README.md")) if name.startswith("livetree ")}
    for path in MARKDOWN:
        for name in re.findall(r"`(livetree [a-z]+)", path.read_text(encoding="utf-8")):
            assert name in known, f"{path.name}: {name}"


def test_every_route_has_a_heading_and_no_other() -> None:
    app = create_app(cast(Service, FakeService()))
    routes = {
        f"{method.upper()} {path}"
        for path, operations in app.openapi()["paths"].items()
        for method in operations
    } | {f"GET {app.openapi_url}"}
    named = {name for name in headings(read("docs/api.md")) if re.match(r"[A-Z]+ /", name)}
    assert named == routes


def variant_rows() -> dict[str, list[str]]:
    """The README's table of variants, by name."""
    return {
        match.group(1): cells
        for name, cells in rows(read("README.md")).items()
        if (match := re.match(r"\[?`?(\w+)`?", name)) and cells[-1] in ("available", "planned")
    }


def test_variants_are_marked_available_or_planned() -> None:
    table = variant_rows()
    assert {name for name, cells in table.items() if cells[-1] == "available"} == set(VARIANTS)
    assert {name for name, cells in table.items() if cells[-1] == "planned"} == set()
    assert {path.stem for path in (DOCS / "variants").glob("*.md")} == set(VARIANTS)
    assert all(f"docs/variants/{name}.md" in read("README.md") for name in VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_readme_says_of_a_variant_whose_it_is_when_to_choose_it_and_what_it_costs(
    name: str,
) -> None:
    _, paper, choose, cost, _ = variant_rows()[name]
    assert paper.endswith(str(VARIANTS[name].year))
    assert choose
    assert cost


def test_every_parameter_has_one_row_and_no_other() -> None:
    text = read("docs/parameters.md")
    documented = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(documented) == sorted(PARAMETERS)
    assert len(documented) == len(set(documented))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_page_of_a_variant_has_its_parts_in_order(name: str) -> None:
    text = read(f"docs/variants/{name}.md")
    parts = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    expected = ["From the paper to the code", "Departures from the paper", "Defaults", "Measured"]
    found = [next((part for part in parts if part.startswith(wanted)), "") for wanted in expected]
    assert all(found), found
    assert [part for part in parts if part in found] == found
    assert text.startswith(f"# {name}: ")
    assert f"`learner/variants/{name}.py`" in text
    assert "](../parameters.md)" in text
    assert "\nChoose it " in text
    assert name == "vfdt" or "\nCost: " in text


@pytest.mark.parametrize("name", VARIANTS)
def test_the_page_of_a_variant_names_the_defaults_that_differ(name: str) -> None:
    section = section_of(read(f"docs/variants/{name}.md"), "Defaults")
    plain, own = TreeParams(), VARIANTS[name].params_from({})
    for field in PARAMETERS:
        if getattr(plain, field) != getattr(own, field):
            assert re.search(rf"`{field}\b", section), field


@pytest.mark.parametrize("name", VARIANTS)
def test_the_measured_results_of_a_variant_come_with_their_command(name: str) -> None:
    section = section_of(read(f"docs/variants/{name}.md"), "Measured")
    assert "livetree evaluate " in section
    assert re.search(r"^\| .*\d", section, re.MULTILINE)


def test_every_variant_has_its_paper() -> None:
    papers = {cells[-1]: cells[1] for cells in rows(read("docs/papers.md")).values()}
    for name in VARIANTS:
        assert any(f"`{name}`" in marked and "planned" not in marked for marked in papers), name


def test_every_citation_is_in_the_list_of_papers() -> None:
    known = {name.strip("[]") for name in rows(read("docs/papers.md"))}
    for path in [*SOURCES, *MARKDOWN]:
        cited = set(CITATION.findall(path.read_text(encoding="utf-8")))
        assert cited <= known, path.name


def test_headers_of_dead_letters_are_documented() -> None:
    record = Record("events", 0, 0, None, b"", timestamp_ms=1)
    documented = rows(read("docs/events.md"))
    assert set(error_headers(record, Reason("decode", BadLabel("none")))) <= set(documented)


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_internal_links_resolve(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), target
        assert file.is_relative_to(ROOT), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_named_in_the_docs_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for file in re.findall(r"`((?:app|docs|learner|streams|tests)/[\w/.]+)`", text):
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("name", VARIANTS)
def test_functions_in_the_procedure_of_a_paper_exist(name: str) -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    procedure = section_of(read(f"docs/variants/{name}.md"), "From the paper")
    named = [
        function
        for line in procedure.splitlines()
        for function in re.findall(r"`(?:\w+\.)?([a-z_0-9]+)`", line.rpartition(" | ")[2])
    ]
    assert named
    for function in named:
        known = keyword.iskeyword(function) or function in PARAMETERS
        assert known or re.search(rf"\bdef {function}\(", code), function


def test_the_tests_that_guard_a_divergence_exist() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    table = [line for line in read("docs/peers.md").splitlines() if line.startswith("| ")][1:]
    assert len(table) >= 14
    for line in table:
        guards = re.findall(r"`(test_\w+)`", line.rpartition(" | ")[2])
        assert guards, line
        for guard in guards:
            assert f"def {guard}(" in tests, guard


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_every_decision_has_its_parts_and_is_listed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^Date: \d{4}-\d\d-\d\d\. Status: \w+", text, re.MULTILINE)
    for part in ("Context.", "Decision.", "Consequences.", "The number."):
        assert f"**{part}**" in text, part
    assert f"({path.name})" in read("docs/decisions/README.md")


def test_decisions_are_numbered_without_a_gap() -> None:
    assert [int(path.stem[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_every_alert_has_a_runbook_and_asks_for_metrics_that_exist() -> None:
    rules = yaml.safe_load(read("helm/livetree/prometheus/alerts.yaml"))["groups"][0]["rules"]
    metrics = Metrics()
    known = set(re.findall(r"^# TYPE (\w+) ", metrics.render()[0].decode(), re.MULTILINE))
    for rule in rules:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert anchor == rule["alert"].lower()
        assert anchor in anchors(read(page)), rule["alert"]
        asked = set(re.findall(r"\b((?:livetree|http)_\w+)", rule["expr"]))
        assert asked <= known, rule["alert"]
    written = re.findall(r"^### (Livetree\w+)", read("docs/operations.md"), re.MULTILINE)
    assert written == [rule["alert"] for rule in rules]
