"""Dead letters of a file source: listed, shown, and appended to the file again, each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.deadletter import FileDeadLetters, Reason
from app.errors import BadFeature
from app.source import Record

GOOD = b'{"age": 41, "label": "old"}'
REASON = Reason("decode", BadFeature("feature 'age' is 'abc'; expected a number", "age"))
SCHEMA = '[{"name": "age", "kind": "numeric"}]'


@pytest.fixture(autouse=True)
def in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.jsonl").write_bytes(GOOD + b"\n")


def livetree(*arguments: str) -> Any:
    environment = {
        "COLUMNS": "200",
        "LIVETREE_SOURCE": "file",
        "LIVETREE_FILE__PATH": "events.jsonl",
        "LIVETREE_SCHEMA__FEATURES": SCHEMA,
    }
    return CliRunner().invoke(app, list(arguments), env=environment)


def put_aside(*values: bytes, start: int = 0) -> None:
    letters = FileDeadLetters(Path("events.jsonl.dlq"))
    for place, value in enumerate(values):
        letters.send(Record("events.jsonl", 0, start + place, None, value), REASON)
    letters.flush()
    letters.close()


def test_lines_are_appended_once_and_only_if_they_can_be_learned_now() -> None:
    put_aside(GOOD, b'{"age": "abc", "label": "old"}')

    first = livetree("dlq", "redrive", "--yes")
    second = livetree("dlq", "redrive", "--yes")

    assert "1 would be rejected again and stay" in first.stdout
    assert "1 records sent to events.jsonl" in first.stdout
    assert "nothing was sent" in second.stdout
    assert Path("events.jsonl").read_bytes() == (GOOD + b"\n") * 2


def test_a_line_that_another_program_is_writing_is_not_torn() -> None:
    put_aside(GOOD)
    Path("events.jsonl").write_bytes(GOOD + b'\n{"age": 4')

    result = livetree("dlq", "redrive", "--yes")

    assert result.exit_code == 3
    assert "in the middle of a line" in result.stderr
    assert Path("events.jsonl").read_bytes() == GOOD + b'\n{"age": 4'


def test_letters_are_listed_and_shown_by_their_byte() -> None:
    put_aside(GOOD, b"caf\xe9")

    document = json.loads(livetree("dlq", "list", "--format", "json").stdout)
    place = document["letters"][0]["offset"] or document["letters"][1]["offset"]

    assert document["reasons"] == {"bad_feature": 2}
    assert livetree("dlq", "show", f"{place}", "--raw").stdout_bytes == b"caf\xe9"
    assert livetree("dlq", "show", f"{place + 1}").exit_code == 2


def test_what_a_crash_has_cut_off_costs_only_itself() -> None:
    put_aside(GOOD)
    with Path("events.jsonl.dlq").open("ab") as file:
        file.write(b'{"topic": "events.js')
    put_aside(b"later", start=7)

    result = livetree("dlq", "list", "--format", "json")

    offsets = [letter["original"][2] for letter in json.loads(result.stdout)["letters"]]
    assert sorted(offsets) == [0, 7]
    assert "1 entries of 'events.jsonl.dlq' are damaged" in result.stderr


def test_a_file_that_is_not_there_ends_with_3() -> None:
    result = livetree("dlq", "list")

    assert result.exit_code == 3
    assert "dead letters 'events.jsonl.dlq' cannot be read" in result.stderr


def test_a_file_is_replayed_between_bytes() -> None:
    line = GOOD + b"\n"
    Path("events.jsonl").write_bytes(line * 5 + b'{"age": ')

    whole = livetree("replay", "--format", "json")
    part = livetree("replay", "--from", str(len(line)), "--to", str(3 * len(line)))
    beyond = livetree("replay", "--to", "100000")
    timed = livetree("replay", "--from", "2026-01-01T00:00:00Z")

    assert json.loads(whole.stdout)["runs"][0]["events"] == 5
    assert "2 records" in part.stdout
    assert beyond.exit_code == 4
    assert "it holds 0 to 148" in beyond.stderr
    assert (timed.exit_code, "a file has no timestamps" in timed.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["list", "--reason", "nope"],
            "--reason is 'nope'; expected one of bad_envelope, ",
        ),
        (["list", "--since", "soon"], "--since is 'soon'; expected a time"),
        (["show", "a:b"], "is not a place"),
        (["redrive", "--to-topic", "other"], "--to-topic is for Kafka"),
    ],
)
def test_wrong_words_end_with_2(arguments: list[str], words: str) -> None:
    put_aside(GOOD)

    result = livetree("dlq", *arguments)

    assert result.exit_code == 2
    assert words in result.stderr
