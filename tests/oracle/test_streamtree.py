"""The queues of the slow twin on streams small enough to follow."""

from __future__ import annotations

import random

import pytest

from tests.oracle.leaf import Leaf, Options
from tests.oracle.streamtree import ACTIVE, ENDED, PURE, QUEUED, StreamTreeOracle
from tests.oracle.vfdt import NOMINAL, NUMERIC, OracleTree, Row, Split

HUGE = 1 << 60
OFF: dict[str, object] = {"stop_purity": 0.0, "stop_depth": 0, "stop_share": 0.0}
QUICK: dict[str, object] = {"n_min": 1.0, "delta": 0.1, "tau": 0.0, "audit_fraction": 0.0}
Event = tuple[Row, int]


def planted(kinds: list[str], **options: object) -> StreamTreeOracle:
    settings = {"queue_bytes": HUGE, **OFF, **QUICK, **options}
    return StreamTreeOracle(kinds, 0, Options(**settings))  # type: ignore[arg-type]


def feed(tree: OracleTree, events: list[Event]) -> None:
    for x, y in events:
        tree.learn(x, y)


def states(tree: StreamTreeOracle) -> dict[int, str]:
    return {leaf.id: tree.places[leaf.id].state for leaf in tree.leaves()}


def leaf(tree: OracleTree, node: int) -> Leaf:
    found = tree.nodes[node]
    assert isinstance(found, Leaf)
    return found


def perfect(count: int, values: int = 2) -> list[Event]:
    """One nominal feature that is the class."""
    return [({0: i % values}, i % values) for i in range(count)]


def mixed(seed: int, count: int) -> list[Event]:
    """Two numeric features and a nominal one that make a small tree, with missing values."""
    rng = random.Random(seed)
    events: list[Event] = []
    for _ in range(count):
        a, b, v = round(rng.random(), 2), round(rng.random(), 2), rng.randrange(4)
        y = int(a > 0.5) if v < 2 else int(b > 0.3)
        x: Row = {0: a, 1: b, 2: v}
        if rng.random() < 0.05:
            del x[rng.randrange(3)]
        events.append((x, y if rng.random() < 0.95 else 1 - y))
    return events


@pytest.mark.parametrize("observer", ["ordered", "intervals"])
def test_with_room_for_all_and_no_end_the_queues_change_nothing(observer: str) -> None:
    options = {
        "numeric_observer": observer, "n_min": 100.0, "n_first": 150.0, "delta": 1e-3,
        "tau": 0.1, "intervals": 20, "nominal_split": "binary", "leaf_predictor": "nb",
    }  # fmt: skip
    kinds = [NUMERIC, NUMERIC, NOMINAL]
    queued = planted(kinds, **options)
    plain = OracleTree(kinds, 0, queued.options)

    for x, y in mixed(5, 3000):
        assert queued.predict(x) == plain.predict(x)
        queued.learn(x, y)
        plain.learn(x, y)

    assert len(queued.splits) > 3
    assert queued.splits == plain.splits
    assert queued.events_counted == queued.events == 3000
    assert set(states(queued).values()) == {ACTIVE}


def test_the_root_learns_at_once_and_its_children_after_it() -> None:
    tree = planted([NOMINAL], queue_bytes=1)
    assert states(tree) == {0: ACTIVE}

    feed(tree, perfect(2))

    assert states(tree) == {1: ACTIVE, 2: QUEUED}
    assert tree.events_counted == 2


def test_an_event_at_a_queued_leaf_is_a_vote_and_nothing_else() -> None:
    tree = planted([NOMINAL], queue_bytes=1)
    feed(tree, perfect(2))

    tree.learn({0: 1}, 0)

    waiting = leaf(tree, 2)
    assert (waiting.active, waiting.n, waiting.observers) == (False, 1.0, {})
    assert waiting.votes() == {0: 1.0, 1: 1.0}
    assert (tree.events_counted, tree.attempts) == (2, 1)


def test_its_turn_restarts_the_counts_of_a_leaf_but_not_its_votes() -> None:
    """Leaf 1 is done with 1000 events of one class; leaf 2 has seen 3 by then."""
    tree = planted([NOMINAL], queue_bytes=1, stop_purity=0.95)
    feed(tree, perfect(2))
    feed(tree, [({0: 1}, 1)] * 3)
    feed(tree, [({0: 0}, 0)] * 1000)

    assert states(tree) == {1: PURE, 2: ACTIVE}
    turned = leaf(tree, 2)
    assert (turned.active, turned.n, turned.votes()) == (True, 0.0, {1: 4.0})
    assert tree.places[2].since == tree.events == 1005


def test_purity_waits_for_a_thousand_and_needs_the_share() -> None:
    tree = planted([NOMINAL], stop_purity=0.95, delta=1e-9)
    first: list[Event] = [({0: 0}, int(i < 51)) for i in range(1000)]
    feed(tree, first)
    assert states(tree) == {0: ACTIVE}

    feed(tree, [({0: 0}, 0)] * 19)
    assert states(tree) == {0: ACTIVE}
    feed(tree, [({0: 0}, 0)])

    assert states(tree) == {0: PURE}
    assert tree.events_until_done == 1020
    assert not leaf(tree, 0).active


def test_a_stopped_leaf_does_not_attempt_any_more() -> None:
    tree = planted([NOMINAL], stop_purity=0.5, n_min=1000.0)

    feed(tree, perfect(2000))

    assert (tree.attempts, tree.splits, tree.events_counted) == (0, [], 1000)
    assert leaf(tree, 0).n == 2000.0


def test_the_share_counts_arrivals_since_the_leaf_became_active() -> None:
    """Half of 200 events is the least: leaf 2 gets 99 of the 200 after the split."""
    tree = planted([NOMINAL], stop_share=0.5)
    feed(tree, perfect(2))

    feed(tree, [({0: 0}, 0)] * 101)
    feed(tree, [({0: 1}, 1)] * 98)
    assert states(tree) == {1: ACTIVE, 2: ACTIVE}
    tree.learn({0: 1}, 1)

    assert states(tree) == {1: ACTIVE, 2: ENDED}


def test_a_leaf_that_gets_nothing_is_found_by_the_sweep() -> None:
    """Both children became active at event 2; sweeps come at 200, too early, and at 400."""
    tree = planted([NOMINAL], stop_share=0.5)
    feed(tree, perfect(2))

    feed(tree, [({0: 0}, 0)] * 397)
    assert states(tree) == {1: ACTIVE, 2: ACTIVE}
    tree.learn({0: 0}, 0)

    assert states(tree) == {1: ACTIVE, 2: ENDED}


def test_children_too_deep_end_at_once() -> None:
    tree = planted([NOMINAL], stop_depth=1)

    feed(tree, perfect(2))

    assert states(tree) == {1: ENDED, 2: ENDED}
    assert tree.events_until_done == 2
    feed(tree, perfect(2))
    assert (tree.events_until_done, tree.events_counted) == (2, 2)
    assert leaf(tree, 1).votes() == {0: 2.0}


def test_first_in_first_out_and_most_errors_first() -> None:
    """Three children; while child 1 learns, child 3 is wrong more often than child 2."""
    for order, chosen in (("fifo", 2), ("promise", 3)):
        tree = planted([NOMINAL], queue_bytes=1, stop_purity=0.95, queue_order=order, delta=0.5)
        feed(tree, perfect(3, values=3))
        assert states(tree) == {1: ACTIVE, 2: QUEUED, 3: QUEUED}
        feed(tree, [({0: 1}, 1)] * 9)
        feed(tree, [({0: 2}, 2), ({0: 2}, 0)])
        feed(tree, [({0: 0}, 0)] * 1000)

        assert tree.places[chosen].state == ACTIVE
        assert len(tree.in_state(QUEUED)) == 1


def test_a_pure_leaf_that_is_no_longer_pure_queues_again_if_it_may() -> None:
    for reopen, state in ((False, PURE), (True, ACTIVE)):
        tree = planted([NOMINAL], stop_purity=0.95, reopen=reopen)
        feed(tree, [({0: 0}, 0)] * 1000)
        feed(tree, [({0: 0}, 1)] * 52)
        assert states(tree) == {0: PURE}

        tree.learn({0: 0}, 1)

        assert states(tree) == {0: state}
        assert leaf(tree, 0).n == (0.0 if reopen else 1053.0)
        assert leaf(tree, 0).votes() == {0: 1000.0, 1: 53.0}
        assert tree.events_until_done == 1000


def test_too_large_statistics_send_the_youngest_back_to_the_queue() -> None:
    """Ten bytes an event and an empty leaf for nothing: 20 bytes hold two events."""
    tree = planted([NOMINAL], queue_bytes=20)
    tree.bytes_of = lambda _, node: 10.0 * node.count
    tree.reserve_of = lambda _: 0.0
    feed(tree, perfect(2))
    assert states(tree) == {1: ACTIVE, 2: ACTIVE}

    feed(tree, [({0: 0}, 0), ({0: 1}, 1)])
    assert states(tree) == {1: ACTIVE, 2: ACTIVE}
    feed(tree, [({0: 0}, 0)])

    assert states(tree) == {1: ACTIVE, 2: QUEUED}
    assert tree.given_back == [20.0, 10.0]
    back = leaf(tree, 2)
    assert (back.n, back.seen, back.votes()) == (0.0, {}, {1: 2.0})


def test_the_reserve_is_the_mean_of_what_others_needed() -> None:
    """The root held 20 bytes: 25 are enough for one child, 40 for two."""
    for budget, second in ((39, QUEUED), (40, ACTIVE)):
        tree = planted([NOMINAL], queue_bytes=budget)
        tree.bytes_of = lambda _, node: 10.0 * node.count if node.id == 0 else 20.0
        feed(tree, perfect(2))

        assert tree.reserve_of(tree) == 20.0
        assert states(tree) == {1: ACTIVE, 2: second}


def test_the_only_active_leaf_stays_whatever_it_needs() -> None:
    tree = planted([NOMINAL], queue_bytes=1)

    constant: list[Event] = [({0: 0}, i % 2) for i in range(50)]
    feed(tree, constant)

    assert states(tree) == {0: ACTIVE}
    assert tree.memory() > 1


def test_a_branch_made_on_first_use_takes_its_turn_at_once() -> None:
    tree = planted([NOMINAL])
    feed(tree, perfect(2))

    tree.learn({}, 1)

    assert states(tree) == {1: ACTIVE, 2: ACTIVE, 3: ACTIVE}
    assert (leaf(tree, 3).n, tree.events_counted, tree.places[3].arrivals) == (1.0, 3, 1)


@pytest.mark.parametrize("budget", [1, 4000, HUGE])
def test_every_leaf_is_in_one_state_and_memory_keeps_its_bound(budget: int) -> None:
    tree = planted(
        [NUMERIC, NUMERIC, NOMINAL], queue_bytes=budget, n_min=50.0, delta=1e-2, tau=0.2,
        numeric_observer="intervals", intervals=10, nominal_split="subset", stop_share=0.05,
        stop_depth=4, split_test="normal_min",
    )  # fmt: skip
    for x, y in mixed(9, 3000):
        tree.learn(x, y)
        assert tree.places.keys() == {node.id for node in tree.leaves()}
        assert all(node.active == (states(tree)[node.id] == ACTIVE) for node in tree.leaves())
        assert tree.memory() <= budget or len(tree.in_state(ACTIVE)) == 1
        assert not tree.in_state(QUEUED) or tree.in_state(ACTIVE)

    assert any(isinstance(node, Split) for node in tree.nodes.values())
    assert tree.events_counted <= tree.events
    assert (tree.events_counted == tree.events) == (budget == HUGE and not tree.in_state(ENDED))
