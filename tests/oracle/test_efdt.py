"""The anytime tree by hand: with delta = e^-2 and two classes the radius is n^-1/2."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from tests.oracle import criterion as crit
from tests.oracle.efdt import AgainstInstalled, EfdtOracle
from tests.oracle.leaf import Leaf, Options, Verdict, judge_against_null
from tests.oracle.vfdt import NOMINAL, NUMERIC, OracleTree, Row, Split

PLAIN = Options(
    policy="anytime", n_min=4.0, reevaluate_every=8.0, delta=math.exp(-2.0), tau=0.0,
    audit_fraction=0.0,
)  # fmt: skip
TWO = [NOMINAL, NOMINAL]
FIRST: list[tuple[Row, int]] = [
    ({0: 0, 1: 0}, 0), ({0: 1, 1: 0}, 1), ({0: 0, 1: 1}, 0), ({0: 1, 1: 1}, 1)
]  # fmt: skip
SECOND: list[tuple[Row, int]] = [
    ({0: 0, 1: 0}, 0), ({0: 1, 1: 0}, 0), ({0: 0, 1: 1}, 1), ({0: 1, 1: 1}, 1)
]  # fmt: skip
CHANGE = FIRST + 4 * SECOND  # feature 0 is the class for 4 events, feature 1 from then on


def grown(
    kinds: list[str], events: list[tuple[Row, int]], o: Options = PLAIN, **changed: object
) -> EfdtOracle:
    tree = EfdtOracle(kinds, 0, replace(o, **changed))  # type: ignore[arg-type]
    for x, y in events:
        tree.learn(x, y)
    return tree


def split_at(tree: OracleTree, node: int) -> Split:
    found = tree.nodes[node]
    assert isinstance(found, Split)
    return found


def leaf_at(tree: OracleTree, node: int) -> Leaf:
    found = tree.nodes[node]
    assert isinstance(found, Leaf)
    return found


def random_events(seed: int, size: int) -> list[tuple[Row, int]]:
    """Two nominal and two numeric features; which of them matter changes after a quarter."""
    chance = random.Random(seed)
    found: list[tuple[Row, int]] = []
    for place in range(size):
        nominal = [chance.randrange(3), chance.randrange(2)]
        numeric = [chance.gauss(0.0, 1.0), chance.gauss(0.0, 1.0)]
        if place < size // 4:
            y = int(nominal[0] == 1) + int(numeric[0] > 1.0)
        else:
            y = nominal[1] + int(numeric[1] > 1.0)
        y = y if chance.random() > 0.1 else chance.randrange(3)
        found.append((dict(enumerate([*nominal, *numeric])), y))
    return found


MIXED = [NOMINAL, NOMINAL, NUMERIC, NUMERIC]


def test_a_leaf_needs_to_beat_the_null_split_only() -> None:
    """Two equal features: one bit beats the radius 1/2 at the first check."""
    events: list[tuple[Row, int]] = [({0: i % 2, 1: i % 2}, i % 2) for i in range(4)]

    tree = grown(TWO, events)

    assert (tree.splits[0].n, tree.splits[0].kind) == (4.0, "bound")
    assert (tree.splits[0].merit, tree.splits[0].second_merit) == (1.0, 0.0)
    assert (tree.attempts, tree.attribute_evaluations) == (1, 2)


def test_the_event_that_splits_a_leaf_is_not_learned_by_the_children() -> None:
    tree = grown(TWO, FIRST)

    assert [leaf_at(tree, child).n for child in (1, 2)] == [0.0, 0.0]
    assert tree.statistics[0].n == 4.0
    assert tree.statistics[0].n_last == 4.0


def test_a_better_attribute_replaces_the_subtree() -> None:
    """At n = 20 feature 0 is right 12 times, feature 1 18 times; the radius is 0.224."""
    tree = grown(TWO, CHANGE)

    last = tree.splits[-1]
    assert (last.kind, last.feature, last.n, last.delay) == ("replace", 1, 20.0, -1.0)
    assert last.merit == pytest.approx(1.0 + 0.1 * math.log2(0.1) + 0.9 * math.log2(0.9))
    assert last.second_merit == pytest.approx(1.0 + 0.4 * math.log2(0.4) + 0.6 * math.log2(0.6))
    assert last.bound == pytest.approx(20.0**-0.5)
    assert (tree.reevaluations, tree.splits_replaced) == (2, 1)


def test_a_replacement_keeps_the_statistics_and_makes_new_leaves_that_learn_the_event() -> None:
    before = grown(TWO, CHANGE[:-1])
    tree = grown(TWO, CHANGE)

    old = set(before.nodes) - {0}
    assert len(old) > 2
    assert not old & set(tree.nodes)
    assert sorted(split_at(tree, 0).children.values()) == sorted(set(tree.nodes) - {0})
    assert min(set(tree.nodes) - {0}) > max(old)
    children = {key: leaf_at(tree, child) for key, child in split_at(tree, 0).children.items()}
    assert (children[0].n, children[1].n, children[1].seen) == (0.0, 1.0, {1: 1.0})
    assert children[0].prior == {0: 9.0, 1: 1.0}
    assert tree.statistics[0].n == 20.0
    assert set(tree.statistics) == {0}


def test_no_second_look_before_its_time() -> None:
    assert grown(TWO, CHANGE[:-9]).reevaluations == 0
    assert grown(TWO, CHANGE[:-8]).reevaluations == 1


def test_once_the_radius_is_below_tau_half_of_it_suffices_to_replace() -> None:
    """At n = 12 the gap is 0.268 and the radius 0.289."""
    tied = grown(TWO, CHANGE, tau=0.5)
    wide = grown(TWO, CHANGE, tau=0.6)

    assert [split.n for split in tied.splits if split.kind == "replace"] == [12.0]
    assert [split.n for split in wide.splits if split.kind == "replace"] == [20.0]


def test_a_replacement_needs_merit() -> None:
    tree = grown(TWO, CHANGE, min_merit=0.6)

    assert tree.reevaluations > 0
    assert tree.splits_replaced == 0


def test_every_node_on_the_way_counts_and_votes() -> None:
    tree = grown(TWO, CHANGE[:10])

    assert tree.statistics[0].votes() == {0: 6.0, 1: 4.0}
    assert split_at(tree, 0).votes == {0: 2.0, 1: 2.0}
    assert tree.effective_votes(tree.nodes[0]) == {0: 6.0, 1: 4.0}


def test_a_cut_moves_between_the_same_children_only_if_allowed() -> None:
    """Cut at 1 after 4 events; after 12 the cut at 2 is perfect and leads by 0.81."""
    events: list[tuple[Row, int]] = [({0: 1.0}, 0), ({0: 4.0}, 1)] * 2
    events += [({0: 2.0}, 0), ({0: 4.0}, 1)] * 4

    fixed = grown([NUMERIC], events, numeric_observer="ordered")
    moved = grown([NUMERIC], events, numeric_observer="ordered", refine_threshold=True)

    assert (split_at(fixed, 0).threshold, fixed.thresholds_moved) == (1.0, 0)
    assert (split_at(moved, 0).threshold, moved.thresholds_moved) == (2.0, 1)
    assert split_at(fixed, 0).children == split_at(moved, 0).children
    assert (moved.splits[-1].kind, moved.splits[-1].merit) == ("move", 1.0)
    assert moved.splits[-1].second_merit == pytest.approx(crit.gain(
        {0: 6.0, 1: 6.0}, [{0: 2.0}, {0: 4.0, 1: 6.0}], criterion="info_gain"
    ))  # fmt: skip


def test_a_split_that_no_attribute_supports_for_long_collapses() -> None:
    """Gains 0.08 and 0.03 at n = 12 and 20 are within the radii 0.29 and 0.22."""
    events = [({0: x[0]}, y) for x, y in CHANGE]

    kept = grown([NOMINAL], events)
    collapsed = grown([NOMINAL], events, collapse_after=8.0)

    assert set(kept.nodes) == {0, 1, 2}
    assert set(collapsed.nodes) == {0}
    root = leaf_at(collapsed, 0)
    assert (root.n, root.n_last, collapsed.waits[0].length) == (20.0, 20.0, 4.0)
    assert collapsed.subtrees_collapsed == 1
    assert (collapsed.splits[-1].kind, collapsed.splits[-1].feature) == ("collapse", 0)
    assert not collapsed.statistics


def test_a_useful_attribute_in_between_starts_the_quiet_time_anew() -> None:
    events = [({0: x[0]}, y) for x, y in CHANGE[:12]]
    useful: list[tuple[Row, int]] = [({0: i % 2}, i % 2) for i in range(24)]

    tree = grown([NOMINAL], events + useful, collapse_after=8.0)

    assert not tree.subtrees_collapsed
    assert not tree.quiet_since


def test_eager_leaves_split_at_their_first_check() -> None:
    """One error in 4 events: 0.31 bit do not beat the radius 1/2."""
    events: list[tuple[Row, int]] = [({0: 0}, 0), ({0: 1}, 1), ({0: 0}, 0), ({0: 1}, 0)]

    assert not grown([NOMINAL], events).splits
    assert grown([NOMINAL], events, policy="anytime_eager").splits[0].n == 4.0


@pytest.mark.parametrize("timing", ["cgd", "osm"])
def test_predicted_times_hold_for_leaves_only(timing: str) -> None:
    """A useless feature with tau 1/4: the leaf waits for the tie at 16, from then on n_min."""
    events: list[tuple[Row, int]] = [({0: i % 2}, (i // 2) % 2) for i in range(30)]

    tree = grown([NOMINAL], events, timing=timing, tau=0.24)

    assert [tree.attempts, tree.no_split, tree.pure_checks] == [5, 5, 0]
    assert grown(TWO, CHANGE, timing=timing).splits[-1].kind == "replace"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("timing", ["periodic", "imac"])
def test_inner_statistics_equal_those_of_a_leaf_with_the_same_events(
    seed: int, timing: str
) -> None:
    """Invariants 22 and 23 while subtrees come and go."""
    o = replace(PLAIN, timing=timing, n_min=20.0, mu=20.0, reevaluate_every=30.0, tau=0.1)
    tree = EfdtOracle(MIXED, 0, o)
    alone = Leaf(0, 0, None, {}, frozenset())

    for x, y in random_events(seed, 400):
        tree.learn(x, y)
        alone.add(x, y, 1.0, MIXED, o)

    state = tree.statistics[0]
    assert (state.seen, state.n, state.observers) == (alone.seen, alone.n, alone.observers)
    below = [child for node in tree.nodes.values() if isinstance(node, Split)
             for child in node.children.values()]  # fmt: skip
    assert sorted(below) == sorted(set(tree.nodes) - {0})
    assert set(tree.routed) == set(tree.nodes)
    assert set(tree.statistics) == {i for i, n in tree.nodes.items() if isinstance(n, Split)}
    assert tree.splits_replaced


class AgainstNullOnce(OracleTree):
    """A commit-once tree whose leaves compete with the null split."""

    def _judge(self, leaf: Leaf, *, settle: bool = True) -> Verdict:
        return judge_against_null(leaf, self._classes(), self.options, settle=settle)


@pytest.mark.parametrize("timing", ["periodic", "cgd", "osm"])
def test_without_second_looks_the_tree_is_a_commit_once_tree(timing: str) -> None:
    """Invariant 24."""
    o = replace(PLAIN, timing=timing, n_min=15.0, reevaluate_every=1e9, tau=0.2)
    once = AgainstNullOnce(MIXED, 0, o)
    anytime = EfdtOracle(MIXED, 0, o)

    for x, y in random_events(3, 400):
        once.learn(x, y)
        anytime.learn(x, y)

    assert once.splits == anytime.splits
    assert len(once.splits) > 3
    assert once.attempts == anytime.attempts


@pytest.mark.parametrize("seed", range(6))
def test_when_vfdt_splits_its_root_the_anytime_root_tests_the_same_attribute(seed: int) -> None:
    """Invariant 21 (lemma 3.1), where every installed cut stays a candidate."""
    o = Options(
        n_min=10.0, reevaluate_every=10.0, delta=0.1, tau=0.0, numeric_observer="ordered",
        min_branch_fraction=0.0, audit_fraction=0.0,
    )  # fmt: skip
    vfdt = OracleTree(MIXED, 0, o)
    anytime = EfdtOracle(MIXED, 0, replace(o, policy="anytime"))

    for x, y in random_events(seed, 1200):
        vfdt.learn(x, y)
        anytime.learn(x, y)
        if vfdt.splits:
            break

    assert split_at(anytime, 0).feature == split_at(vfdt, 0).feature


def first_significant(events: list[tuple[Row, int]]) -> float:
    """The n at which feature 1 leads feature 0 by more than the radius."""
    tables: list[dict[int, dict[int, float]]] = [{}, {}]
    for n, (x, y) in enumerate(events, start=1):
        for i, table in enumerate(tables):
            branch = table.setdefault(int(str(x[i])), {})
            branch[y] = branch.get(y, 0.0) + 1.0
        gains = [
            crit.gain(crit.merged(t.values()), list(t.values()), criterion="info_gain")
            for t in tables
        ]
        if n > 4 and gains[1] - gains[0] > n**-0.5:
            return float(n)
    raise AssertionError


def test_followed_candidates_replace_a_split_as_soon_as_it_is_significant() -> None:
    tree = grown(TWO, CHANGE, timing="imac", reevaluate_every=1e9)

    replaced = [split for split in tree.splits if split.kind == "replace"]
    assert [split.n for split in replaced] == [first_significant(CHANGE)]
    assert (tree.reevaluations, tree.splits_replaced) == (1, 1)


def test_an_inner_node_follows_its_installed_test_and_never_refits_it() -> None:
    events: list[tuple[Row, int]] = [({0: 1.0, 1: 5.0}, 0), ({0: 4.0, 1: 5.5}, 1)] * 2
    events += [({0: 2.0, 1: 5.0}, 0), ({0: 4.0, 1: 5.0}, 1)] * 4

    tree = grown([NUMERIC] * 2, events, timing="imac", mu=1.0, numeric_observer="ordered")

    followed = tree.followed[0]
    assert isinstance(followed, AgainstInstalled)
    assert followed.current == (0, -1)
    assert set(followed.candidates) == {(0, -1), (1, -1)}
    installed = followed.now((0, -1))
    assert installed.threshold == 1.0
    assert installed.branches == ({0: 2.0}, {0: 4.0, 1: 6.0})
    assert tree.candidate_checks > 0


def test_the_installed_attribute_stays_a_candidate_among_better_ones() -> None:
    """Three features agree with the class in the end; the installed one does no longer."""
    events: list[tuple[Row, int]] = [
        ({i: (n + i // 2) % 2 for i in range(4)}, n % 2) for n in range(4)
    ]
    tree = grown([NOMINAL] * 4, events, timing="imac", candidates=2, delta=0.5)

    followed = tree.followed[0]
    assert isinstance(followed, AgainstInstalled)
    assert followed.current == (0, -1)
    assert set(followed.candidates) == {(0, -1), (1, -1)}
    assert set(followed.potential) | followed.illegal == {(2, -1), (3, -1)}
