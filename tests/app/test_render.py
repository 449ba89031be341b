"""The tree in three formats."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from app.render import MAX_DRAWN_LEVELS, dot_escape, printable, tree_document, tree_dot, tree_text
from tests.app.fake_service import TREE, FakeNode, FakeSnapshot


def snapshot(nodes: tuple[FakeNode, ...] = TREE) -> Any:
    """Return a snapshot of these nodes."""
    return FakeSnapshot(nodes)


def chain(levels: int) -> tuple[FakeNode, ...]:
    """Return a tree whose every inner node has a leaf and the next inner node."""
    nodes = []
    for level in range(levels):
        inner, leaf = 2 * level, 2 * level + 1
        parent = None if level == 0 else inner - 2
        nodes.append(
            FakeNode(
                inner,
                parent,
                level,
                "x > 1" if level else "",
                "x",
                "x <= 1",
                (leaf, inner + 2),
                1.0,
                1.0,
                {"yes": 1.0},
                "yes",
                True,
                0.0,
            )
        )
        nodes.append(
            FakeNode(
                leaf,
                inner,
                level + 1,
                "x <= 1",
                None,
                None,
                (),
                1.0,
                0.1,
                {"yes": 1.0},
                "yes",
                True,
                1.0,
            )
        )
    last = 2 * levels
    nodes.append(
        FakeNode(
            last,
            last - 2,
            levels,
            "x > 1",
            None,
            None,
            (),
            1.0,
            0.1,
            {"yes": 1.0},
            "yes",
            True,
            1.0,
        )
    )
    return tuple(nodes)


def test_the_document_is_json_and_keeps_the_types_of_labels() -> None:
    found = json.loads(json.dumps(tree_document(snapshot())))

    assert found["root"] == 0
    assert found["snapshot"] == "snap-1"
    assert [node["id"] for node in found["nodes"]] == [0, 1, 2]
    assert found["nodes"][0]["distribution"] == [
        {"label": "yes", "weight": 70.0},
        {"label": 7, "weight": 50.0},
    ]
    assert found["nodes"][2]["prediction"] == 7
    assert found["importance"] == [{"feature": "age", "importance": 1.0}]
    assert (found["nodes"][0]["created_at"], found["nodes"][0]["age_events"]) == (0, 120)
    assert found["nodes"][1]["split"] is None


def test_the_document_starts_at_the_node_that_is_asked_for() -> None:
    assert tree_document(snapshot(), root=2)["root"] == 2


def test_the_text_draws_branches_predictions_and_idle_leaves() -> None:
    lines = tree_text(snapshot()).splitlines()

    assert lines[0] == "vfdt, 120 events, 3 nodes, 2 leaves, depth 1, snapshot snap-1"
    assert lines[1] == "#0 split on age by a tie (100.0% of traffic)"
    assert lines[2] == "├─ age <= 40  #1 → yes 66.7% (75.0% of traffic)"
    assert lines[3] == "└─ age > 40  #2 → 7 100.0% (25.0% of traffic) inactive"


def test_with_details_every_node_says_when_and_why() -> None:
    lines = tree_text(snapshot(), details=True).splitlines()

    assert lines[1] == (
        "#0 split on age (100.0% of traffic), made at event 0; "
        "by tie at event 100, n 100: gain 0.25 against car == small with 0.24, bound 0.04"
    )
    assert lines[2].endswith("(75.0% of traffic), made at event 0")


@pytest.mark.parametrize(
    ("second", "merit", "words"),
    [(None, 0.0, "against not splitting with 0,"), ("car", -math.inf, "against nothing else,")],
)
def test_a_split_without_a_rival_says_so(second: str | None, merit: float, words: str) -> None:
    assert TREE[0].split is not None
    facts = TREE[0].split._replace(reason="bound", second=second, second_merit=merit)
    tree = snapshot((TREE[0]._replace(split=facts), *TREE[1:]))

    assert words in tree_text(tree, details=True)
    assert "by a tie" not in tree_text(tree)
    assert json.loads(json.dumps(tree_document(tree), allow_nan=False))["nodes"][0]["split"] == {
        "reason": "bound", "merit": 0.25, "second_merit": None if merit < 0.0 else 0.0,
        "bound": 0.04, "n": 100.0, "event": 100, "second": second,
    }  # fmt: skip


def test_bars_continue_only_where_siblings_follow() -> None:
    lines = tree_text(snapshot(chain(2))).splitlines()

    assert lines[2].startswith("├─ x <= 1")
    assert lines[3].startswith("└─ x > 1")
    assert lines[4].startswith("   ├─ x <= 1")
    assert lines[5].startswith("   └─ x > 1")


def test_a_tree_of_thousands_of_levels_is_rendered_without_recursion() -> None:
    deep = snapshot(chain(3000))

    text = tree_text(deep)

    assert f"[level {MAX_DRAWN_LEVELS + 1}] " in text
    assert len(text) < 1_000_000
    assert len(tree_document(deep)["nodes"]) == 6001  # type: ignore[arg-type]
    assert tree_dot(deep).count("->") == 6000


def test_a_leaf_without_a_class_says_so() -> None:
    empty = FakeNode(0, None, 0, "", None, None, (), 0.0, 0.0, {}, None, True, 0.0)

    assert "→ no class yet" in tree_text(snapshot((empty,)))


def test_dot_has_every_node_and_an_edge_to_every_child() -> None:
    dot = tree_dot(snapshot())

    assert dot.startswith("digraph livetree {")
    assert dot.rstrip().endswith("}")
    assert 'n0 -> n1 [label="age <= 40"' in dot
    assert 'label="age by a tie\\n100.0%", tooltip="node 0, made at event 0, by tie' in dot
    assert "n2 [shape=box, style=dashed" in dot


def test_dot_strings_cannot_be_broken_out_of() -> None:
    assert dot_escape('say "hi"') == '\\"'.join(["say ", "hi", ""])
    assert dot_escape("back\\slash") == "back\\\\slash"
    assert dot_escape("a & b") == "a &amp; b"
    assert dot_escape("two\nlines") == "two\\\\nlines"


def test_dot_of_a_hostile_value_keeps_one_statement_a_line() -> None:
    hostile = TREE[1]._replace(branch='car == "x"];\n} evil [')

    dot = tree_dot(snapshot((TREE[0], hostile, TREE[2])))

    assert 'label="car == \\"x\\"];\\\\n} evil ["' in dot


def test_control_characters_are_spelled_out() -> None:
    assert printable("red\x1b[31m") == "red\\x1b[31m"
    assert printable("größe → ok") == "größe → ok"

    hostile = TREE[1]._replace(branch="car == '\x1b[2J'")

    assert "\x1b" not in tree_text(snapshot((TREE[0], hostile, TREE[2])))
