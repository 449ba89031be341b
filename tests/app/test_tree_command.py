"""`livetree tree`: formats, earlier snapshots, differences, and what a terminal shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.commands.tree import TreeFormat, screenful
from app.timeline import Timeline
from app.tree_format import FORMATS
from tests.app.fake_service import FakeService
from tests.app.listening import listening
from tests.app.test_cli import livetree
from tests.learner.test_publication import hasty, teach


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the address of a service that has published two snapshots."""
    service = FakeService(published=False, timeline=Timeline(5, every_seconds=0))
    tree = hasty("vfdt")
    for step in range(2):
        teach(tree, 400 * step, 400 * step + 400)
        service.publish(tree.snapshot(), 1_700_000_000.0 + step)
    with listening(service) as address:
        yield f"http://{address}"


def test_the_command_knows_every_format() -> None:
    assert {each.value for each in TreeFormat} == {"json", *FORMATS}


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("text", "vfdt, 800 events"),
        ("json", '{"snapshot":"vfdt-800"'),
        ("dot", "digraph"),
        ("mermaid", "%% vfdt, 800 events"),
        ("svg", "<svg "),
        ("html", "<!doctype html>"),
    ],
)
def test_the_tree_is_printed_in_every_format(url: str, form: str, begins: str) -> None:
    result = livetree("tree", "--url", url, "--format", form)

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(begins)
    assert result.stdout.endswith("\n")


def test_an_earlier_tree_is_printed(url: str) -> None:
    assert livetree("tree", "--url", url, "--at", "events:1").stdout.startswith("vfdt, 400 events")


def test_an_unknown_snapshot_is_an_error_in_words(url: str) -> None:
    result = livetree("tree", "--url", url, "--at", "vfdt-1")

    assert result.exit_code == 3
    assert "answered 404: at is 'vfdt-1'; no snapshot is that: held are 2" in result.stderr


def test_the_difference_of_two_snapshots_is_printed(url: str) -> None:
    text = livetree("tree", "--url", url, "--diff", "vfdt-400", "vfdt-800").stdout
    document = livetree(
        "tree", "--url", url, "--diff", "vfdt-400", "vfdt-800", "--format", "json"
    ).stdout

    assert text.startswith("vfdt-400 to vfdt-800: 400 events, ")
    assert document.startswith('{"from":"vfdt-400","to":"vfdt-800","added":[')


@pytest.mark.parametrize("option", [("--at", "vfdt-1"), ("--diff", "a", "b")])
def test_a_checkpoint_has_no_past(tmp_path: Path, option: tuple[str, ...]) -> None:
    result = livetree("tree", "--checkpoint", str(tmp_path), *option)

    assert result.exit_code == 2
    assert "a checkpoint holds one moment only" in result.stderr


def test_a_terminal_shows_as_much_as_it_has_room_for() -> None:
    drawing = "".join(f"line {i} {'x' * 50}\n" for i in range(30))

    shown = screenful(drawing, columns=20, rows=10).split("\n")

    assert shown[0] == f"\x1b[Hline 0 {'x' * 12}…\x1b[K"
    assert len(shown) == 10
    assert shown[-1] == "\x1b[J"
    assert shown[8] == "... 22 more lines; …\x1b[K"
    assert "\x1b[J" in screenful("short\n", 80, 24)
    assert "more lines" not in screenful("short\n", 80, 24)
