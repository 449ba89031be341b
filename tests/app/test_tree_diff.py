"""What changed between two snapshots, in both forms."""

from __future__ import annotations

from typing import Any

import pytest

from app.tree_diff import Difference
from learner import Snapshot, set_apart
from tests.app.fake_service import TREE, FakeNode, FakeSnapshot
from tests.learner.test_publication import EVENTS, hasty, teach


def tree(*nodes: FakeNode, name: str = "snap-1", events: int = 120) -> Any:
    made = FakeSnapshot(nodes or TREE)
    made.id, made.events = name, events
    return made


def grown() -> Any:
    """The fake tree after its first leaf has split, its second has changed its mind."""
    root, left, right = TREE
    split = left._replace(kind="nominal", feature="car", test="car", children=(3, 4), share=0.6)
    below = [
        left._replace(id=3 + i, parent=1, depth=2, branch=f"car == c{i}", share=0.3)
        for i in range(2)
    ]
    other = right._replace(prediction=True, share=0.4, active=True)
    return tree(root, split, *below, other, name="snap-2", events=200)


def test_nothing_changed_between_a_snapshot_and_itself() -> None:
    found = Difference(tree(), tree())

    assert found.document()["added"] == []
    assert found.document()["changed"] == []
    assert found.text() == (
        "snap-1 to snap-1: 0 events, 3 to 3 nodes; 0 added, 0 removed, 0 changed\n"
    )


def test_nodes_are_told_that_were_added_and_changed() -> None:
    found = Difference(tree(), grown()).document()

    assert (found["from"], found["to"]) == ("snap-1", "snap-2")
    assert [node["id"] for node in found["added"]] == [3, 4]
    assert found["removed"] == []
    assert [(each["id"], each["changes"]) for each in found["changed"]] == [
        (1, ["split", "share"]),
        (2, ["prediction", "share", "active"]),
    ]
    assert found["changed"][0]["before"]["kind"] == "leaf"
    assert found["changed"][0]["after"]["test"] == "car"
    assert found["changed"][1]["before"]["prediction"] == 7
    assert found["changed"][1]["after"]["prediction"] is True
    assert found["summary"] == {
        "events": 80, "nodes_before": 3, "nodes_after": 5, "added": 2, "removed": 0, "changed": 2,
        "split": 1, "replaced": 0, "collapsed": 0, "prediction": 1, "share": 2, "active": 1,
    }  # fmt: skip


def test_the_same_backwards_is_a_subtree_taken_back() -> None:
    found = Difference(grown(), tree()).document()

    assert [node["id"] for node in found["removed"]] == [3, 4]
    assert found["changed"][0]["changes"] == ["collapsed", "share"]
    assert found["summary"]["events"] == -80


def test_shares_count_when_they_moved_by_more() -> None:
    moved = Difference(tree(), grown(), share=0.2).document()

    assert [each["changes"] for each in moved["changed"]] == [["split"], ["prediction", "active"]]


def test_the_text_has_a_line_for_each_change() -> None:
    assert Difference(tree(), grown()).text().splitlines() == [
        "snap-1 to snap-2: 80 events, 3 to 5 nodes; 2 added, 0 removed, 2 changed",
        "~ #1 age <= 40: a leaf has split on car",
        "~ #1 age <= 40: share 75.0% became 60.0%",
        "+ #3 car == c0: answers yes 66.7% (30.0% of traffic)",
        "+ #4 car == c1: answers yes 66.7% (30.0% of traffic)",
        "~ #2 age > 40: answer 7 became true",
        "~ #2 age > 40: share 25.0% became 40.0%",
        "~ #2 age > 40: gathers statistics again",
    ]
    backwards = Difference(grown(), tree()).text()
    assert "~ #1 age <= 40: split on car became a leaf\n" in backwards
    assert backwards.endswith("- #4 car == c1: answers yes 66.7% (30.0% of traffic)\n")


def test_a_replaced_test_is_told() -> None:
    first = TREE[0]._replace(kind="numeric")
    other = TREE[0]._replace(test="car == 'x'\n", kind="equals", feature="car")

    text = Difference(tree(first, *TREE[1:]), tree(other, *TREE[1:])).text()

    assert "~ #0 root: split on age <= 40 became car == 'x'\\n\n" in text


@pytest.mark.parametrize(("variant", "params"), [
    ("vfdt", {}), ("efdt", {"reevaluate_every": 10.0, "collapse_after": 20.0}),
])  # fmt: skip
def test_the_difference_turns_one_real_tree_into_the_other(
    variant: str, params: dict[str, Any]
) -> None:
    learning, held = hasty(variant, **params), list[Snapshot]()
    for start in range(0, EVENTS, 100):
        teach(learning, start, start + 100)
        held.append(set_apart(learning.snapshot()))
    removed = 0
    for before in held:
        for after in held:
            found = Difference(before, after, share=0.0).document()
            old = {view.id: view for view in before.walk()}
            new = {view.id: view for view in after.walk()}
            added = {node["id"] for node in found["added"]}
            gone = {node["id"] for node in found["removed"]}
            changed = {each["id"]: each for each in found["changed"]}
            assert (old.keys() - gone) | added == new.keys()
            assert not gone & new.keys()
            assert not added & old.keys()
            for node in old.keys() & new.keys() - changed.keys():
                same = ("kind", "test", "values", "prediction", "active", "share")
                assert all(getattr(old[node], f) == getattr(new[node], f) for f in same)
            removed += len(gone) if after.events > before.events else 0
    assert (removed > 0) == (variant == "efdt")
