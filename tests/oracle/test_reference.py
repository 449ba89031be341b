"""Delays behind a reference that tests at every event."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.oracle.leaf import Leaf, Options
from tests.oracle.reference import ReferenceOracle
from tests.oracle.vfdt import NOMINAL, NUMERIC, OracleTree, Row, Split

PLAIN = Options(n_min=10.0, delta=0.1, tau=0.0, audit_fraction=0.0, reference_from=2.0)
PERFECT: list[tuple[Row, int]] = [({0: i % 2}, i % 2) for i in range(30)]


def grown(kinds: list[str], events: list[tuple[Row, int]], o: Options) -> ReferenceOracle:
    tree = ReferenceOracle(kinds, 0, o)
    for x, y in events:
        tree.learn(x, y)
    return tree


def random_events(seed: int, size: int, numeric: int) -> list[tuple[Row, int]]:
    chance = random.Random(seed)
    found: list[tuple[Row, int]] = []
    for _ in range(size):
        y = chance.randrange(2)
        x: Row = {i: y ^ int(chance.random() < 0.1 + 0.1 * i) for i in range(3)}
        x.update({3 + i: chance.gauss(y, 1.0) for i in range(numeric)})
        found.append((x, y))
    return found


def test_the_ghost_resolves_at_its_own_check() -> None:
    """One bit beats the radius at n = 2; the periodic check comes at n = 10."""
    waiting = grown([NOMINAL], PERFECT[:9], PLAIN)
    resolved = grown([NOMINAL], PERFECT[:10], PLAIN)

    assert (waiting.splits, waiting.unresolved, len(waiting.nodes)) == ([], 1, 3)
    assert (resolved.unresolved, resolved.attempts, resolved.no_split) == (0, 1, 0)
    record = resolved.splits[0]
    assert (record.event, record.n, record.delay, record.kind) == (10, 10.0, 8.0, "bound")
    assert (record.feature, record.merit) == (0, pytest.approx(1.0))
    assert resolved.audited_splits == 1


def test_the_children_learn_while_the_ghost_is_open() -> None:
    tree = grown([NOMINAL], PERFECT[:9], PLAIN)

    children = [tree.nodes[1], tree.nodes[2]]
    assert all(isinstance(child, Leaf) for child in children)
    assert sum(child.n for child in children if isinstance(child, Leaf)) == 7.0
    assert tree.ghosts[0].leaf.n == 9.0


def test_a_check_at_the_same_event_has_no_delay() -> None:
    tree = grown([NOMINAL], PERFECT[:2], replace(PLAIN, n_min=2.0))

    assert (tree.splits[0].event, tree.splits[0].delay, tree.attempts) == (2, 0.0, 1)


def test_the_reference_begins_at_its_n_and_is_no_attempt() -> None:
    tree = grown([NOMINAL], PERFECT, replace(PLAIN, reference_from=7.0, n_min=1000.0))

    assert tree.ghosts[0].n == 7.0
    assert tree.attempts == 0


def test_a_leaf_ahead_of_the_reference_waits_for_it() -> None:
    """Its checks at n = 2, 4 and 6 pass too early, the one at 8 is too late by one."""
    tree = grown([NOMINAL], PERFECT[:8], replace(PLAIN, reference_from=7.0, n_min=2.0))

    assert (tree.attempts, tree.no_split, tree.splits[0].delay) == (4, 3, 1.0)


@pytest.mark.parametrize("timing", ["periodic", "cgd", "osm", "imac"])
def test_the_reference_tree_does_not_depend_on_the_timing(timing: str) -> None:
    kinds = [NOMINAL] * 3 + [NUMERIC] * 2
    events = random_events(1, 300, numeric=2)
    o = Options(n_min=25.0, delta=0.05, tau=0.2, mu=25.0, audit_fraction=0.0)
    every = OracleTree(kinds, 0, replace(o, n_first=20.0, n_min=1.0))
    for x, y in events:
        every.learn(x, y)

    tree = grown(kinds, events, replace(o, timing=timing, reference_from=20.0))

    assert {i: node.children for i, node in tree.nodes.items() if isinstance(node, Split)} == {
        i: node.children for i, node in every.nodes.items() if isinstance(node, Split)
    }
    by_node = {split.node: split for split in every.splits}
    assert len(tree.splits) + tree.unresolved == len(every.splits) > 3
    for split in tree.splits:
        first = by_node[split.node]
        assert (split.kind, split.depth) == (first.kind, first.depth)
        assert split.delay == split.n - first.n >= 0.0


@pytest.mark.parametrize("seed", range(4))
def test_followed_nominal_candidates_have_no_delay(seed: int) -> None:
    """Invariant 16."""
    o = Options(
        timing="imac", n_min=20.0, candidates=3, mu=1e9, delta=0.05, tau=0.1,
        min_branch_fraction=0.0, audit_fraction=0.0, reference_from=20.0,
    )  # fmt: skip

    tree = grown([NOMINAL] * 3, random_events(seed, 500, numeric=0), o)

    assert tree.splits
    assert {split.delay for split in tree.splits} == {0.0}
    assert tree.unresolved == 0
