"""livetree explain: readable in a terminal, exact in JSON, one line for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.commands.explain import explained_text
from learner import Encoder, StreamingTree
from streams import open_stream
from tests.app.answering_server import serving

ROW = {"salary": 114436.23, "age": 32, "elevel": "e2", "car": "c10"}


def livetree(*arguments: str, given: str | None = None) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}, input=given)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve a tree with a few splits on age."""
    stream = open_stream("agrawal", seed=5)
    tree = StreamingTree(Encoder(stream.schema), n_min=200.0)
    tree.learn(*stream.take(20_000))
    with serving(tree.snapshot()) as address:
        yield address


def test_the_path_and_the_counterfactual_are_readable(url: str) -> None:
    given = [f"--set={name}={value}" for name, value in ROW.items()]

    result = livetree("explain", "--url", url, *given)

    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("A 100.0%, by leaf #")
    assert lines[1] == "because"
    assert lines[2].startswith("  age is 32: <= ")
    assert lines[2].endswith("% of the events")
    assert lines[-2].startswith("it would be B, by leaf #")
    assert lines[-1].startswith("  age: ")
    assert lines[-1].endswith(" instead of 32")


def test_a_record_is_read_from_a_file_and_from_standard_input(url: str, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text(json.dumps(ROW), encoding="utf-8")

    named = livetree("explain", str(file), "--url", url, "--format", "json")
    piped = livetree("explain", "-", "--url", url, "--format", "json", given=json.dumps(ROW))

    assert named.exit_code == piped.exit_code == 0
    assert json.loads(named.output) == json.loads(piped.output)
    assert json.loads(named.output)["label"] == "A"


def test_options_come_after_the_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text(json.dumps(ROW), encoding="utf-8")
    arguments = ["explain", str(file), "--url", url, "--set", "age=50", "--frozen", "age"]

    result = livetree(*arguments, "--target", "A", "--format", "json")

    found = json.loads(result.output)
    assert found["path"][0]["observed"] == 50.0
    other = found["counterfactual"]
    assert other is None or other["features"]["age"] == 50


def test_what_the_service_refuses_ends_with_3_and_its_words(url: str) -> None:
    result = livetree("explain", "--url", url, "--set", "age=old")

    assert result.exit_code == 3
    assert "answered 422: feature 'age' is 'old'; expected a number" in result.output


@pytest.mark.parametrize("text", ["[1]", "{", None])
def test_a_file_that_is_no_record_ends_with_2(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")

    result = livetree("explain", str(file))

    assert result.exit_code == 2
    assert "expected one JSON object" in result.output


def test_values_from_the_stream_cannot_drive_a_terminal() -> None:
    step = {"node": 0, "feature": "c", "observed": "\x1b[2J", "branch": 1, "support": 1, "share": 1}
    answer = {
        "snapshot": "vfdt-1", "label": "\x1b[2J", "leaf": 1, "prior": None, "bayes": None,
        "probabilities": [{"label": "\x1b[2J", "probability": 1.0}],
        "path": [{**step, "operator": "==", "value": "\x1b[2J"}],
        "counterfactual": {
            "label": "\x1b[2J", "leaf": 2, "exact": True,
            "changes": [{"feature": "c", "from": "\x1b[2J", "to": None}],
        },
    }  # fmt: skip

    assert all(line.isprintable() for line in explained_text(answer))


def test_evidence_tokens_and_other_branches_are_told() -> None:
    step = {"node": 0, "branch": 1, "support": 9.0, "share": 0.5}
    of_class = [{"label": True, "value": -1.0}, {"label": 2, "value": None}]
    answer = {
        "snapshot": "vfdt-1", "label": True, "leaf": 1, "reason": "no way",
        "probabilities": [{"label": True, "probability": 1.0}, {"label": 2, "probability": 0.0}],
        "path": [
            {**step, "feature": "w", "observed": False, "operator": "not contains", "value": "t"},
            {**step, "feature": "c", "observed": None, "operator": "other", "value": None},
            {**step, "feature": "d", "observed": "x", "operator": "in", "value": ["x", "y"]},
        ],
        "prior": of_class,
        "bayes": [{"feature": "x", "observed": 1.5, "log_likelihoods": of_class}],
        "counterfactual": {
            "label": 2, "leaf": 2, "exact": False,
            "changes": [{"feature": "w", "from": [], "to": ["t"], "added": ["t"], "removed": []}],
        },
    }  # fmt: skip

    lines = list(explained_text(answer))

    assert lines[0] == "true 100.0%, by leaf #1 of vfdt-1"
    assert [line.split("  ")[1] for line in lines[2:5]] == [
        "w does not hold: t", "c is missing: other", "d is x: in x, y",
    ]  # fmt: skip
    assert "  x      -1.000  never" in lines
    assert "  sum    -2.000  never" in lines
    assert lines[-2] == "  w: +t"
    assert "perhaps not the nearest" in lines[-1]
    nothing = list(explained_text({**answer, "counterfactual": None}))
    assert nothing[-1] == "no counterfactual: no way"
