"""Several trees on one stream."""

from __future__ import annotations

from typing import Any

import pytest

from app import comparison
from app.comparison import NO_DELAYS, Contender, Run, StreamFeed, compare, cut, enter, table
from app.errors import SettingsError
from learner import Encoder
from streams import open_stream

REQUIRED = {
    "variant", "accuracy", "kappa", "split_attempts", "attribute_evaluations", "split_delay_mean",
    "nodes", "depth", "memory_bytes", "events_per_second", "tree_hash", "stream", "events",
    "leaves", "splits", "window_accuracy", "candidate_checks", "reevaluations", "splits_replaced",
    "delay_kind", "split_delay_median", "split_delay_tie_mean", "split_delays_unresolved",
}  # fmt: skip


def run_once(batch: int = 500, events: int = 6000) -> list[dict[str, Any]]:
    """Compare two configurations on a short stream."""
    feed = StreamFeed(open_stream("agrawal", seed=3))
    runs = [Run("few", "vfdt", {"n_min": 500.0}), Run("many", "vfdt", {"n_min": 50.0})]
    return compare(feed, enter(runs, feed.encoder), events=events, batch=batch)


def run_one(run: Run, events: int = 6000, **more: Any) -> tuple[Contender, dict[str, Any]]:
    """Run one configuration on a short stream."""
    feed = StreamFeed(open_stream("agrawal", seed=3))
    (contender,) = enter([run], feed.encoder, **more)
    (result,) = compare(feed, [contender], events=events)
    return contender, result


def test_every_run_reports_all_it_must() -> None:
    few, many = run_once()

    assert set(few) >= REQUIRED
    assert (few["name"], few["variant"], few["stream"]) == ("few", "vfdt", "agrawal")
    assert few["events"] == many["events"] == 6000
    assert many["split_attempts"] > few["split_attempts"]


def test_batch_size_does_not_change_the_results() -> None:
    small, large = run_once(batch=17), run_once(batch=4000)

    measured = {"seconds", "events_per_second"}
    for one, other in zip(small, large, strict=True):
        assert {k: v for k, v in one.items() if k not in measured} == {
            k: v for k, v in other.items() if k not in measured
        }


def test_the_delay_is_measured_beside_the_tree_on_the_clock() -> None:
    measured, with_delay = run_one(Run("a", "vfdt", {"n_min": 50.0}))
    plain, without = run_one(Run("a", "vfdt", {"n_min": 50.0}), measure_delay=False)

    assert measured.tree.hash() == plain.tree.hash()
    assert with_delay["delay_kind"] == "reference"
    assert with_delay["split_delays_bound"] > 0
    assert with_delay["split_delay_mean"] >= 0
    assert plain.delays is None
    assert {name: without[name] for name in NO_DELAYS} == NO_DELAYS
    assert NO_DELAYS.keys() <= with_delay.keys()


def test_a_leaf_that_is_asked_seldom_splits_later() -> None:
    few, many = run_once(events=20_000)

    assert few["split_delay_mean"] > many["split_delay_mean"]


@pytest.mark.parametrize(
    ("variant", "params", "kind"),
    [
        ("vfdt", {}, "reference"),
        ("imac", {}, "reference"),
        ("efdt", {}, "audit"),
        ("streamtree", {}, "audit"),
        ("vfdt", {"max_memory_bytes": 1_000_000}, "audit"),
        ("vfdt", {"reference_from": 500}, "reference"),
        ("vfdt", {"reference_from": 0}, "audit"),
    ],
)
def test_where_the_learner_has_no_reference_the_leaves_are_audited(
    variant: str, params: dict[str, Any], kind: str
) -> None:
    contender, result = run_one(Run("a", variant, params), events=1500)

    assert result["delay_kind"] == kind
    assert contender.delays is not None
    used = contender.delays.tree.params
    assert used.reference_from == (params.get("reference_from", 100.0) if kind != "audit" else 0)
    assert kind == "reference" or (used.audit_fraction, used.audit_step) == (1.0, 1)
    assert contender.tree.params.reference_from == 0.0
    assert ("*" in table([result]).splitlines()[2]) == (kind == "audit")


def test_a_reference_that_was_asked_for_is_not_silently_replaced() -> None:
    run = Run("a", "efdt", {"reference_from": 100})

    with pytest.raises(SettingsError, match="the reference commits once"):
        enter([run], Encoder(open_stream("sea").schema))


def test_the_curve_of_a_run_follows_its_events_and_stays_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "LONGEST_CURVE", 10)
    contender, result = run_one(Run("a", "vfdt", {}), events=37_000, measure_delay=False)

    events = [point.events for point in contender.curve]
    assert events == sorted(set(events))
    assert 5 <= len(events) <= 10
    assert events[-1] > 30_000
    assert all(0.0 <= point.accuracy <= 1.0 for point in contender.curve)
    assert contender.curve[-1].split_attempts <= result["split_attempts"]


def test_exactly_so_many_events_are_learned() -> None:
    assert [result["events"] for result in run_once(batch=1000, events=1)] == [1, 1]
    assert [result["events"] for result in run_once(batch=1000, events=2500)] == [2500, 2500]


def test_cutting_keeps_all_batches_without_a_number() -> None:
    stream = open_stream("sea")
    batches = [stream.take(3), stream.take(2)]

    assert [len(labels) for _, labels in cut(batches, 0)] == [3, 2]
    assert [len(labels) for _, labels in cut(batches, 4)] == [3, 1]
    assert [len(labels) for _, labels in cut(batches, 3)] == [3]


def test_all_problems_of_all_runs_are_reported() -> None:
    encoder = Encoder(open_stream("sea").schema)
    runs = [Run("a", "vfdt", {"tau": -1}), Run("b", "nope", {}), Run("c", "vfdt", {"foo": 1})]

    with pytest.raises(SettingsError) as caught:
        enter(runs, encoder)

    assert [problem.split(":")[0] for problem in caught.value.problems] == ["a", "b", "c"]


def test_a_feed_without_events_is_an_error() -> None:
    feed = StreamFeed(open_stream("sea"))
    feed.batches = lambda size: iter(())  # type: ignore[method-assign]  # noqa: ARG005

    with pytest.raises(SettingsError, match="has no events"):
        compare(feed, [], events=0)


def test_the_table_is_aligned_and_shows_undefined_numbers_as_a_dash() -> None:
    results = run_once(events=300)

    lines = table(results).splitlines()

    assert lines[0].split()[:3] == ["run", "accuracy", "kappa"]
    assert lines[2].startswith("few ")
    assert " - " in lines[2]
    assert len({len(line) for line in lines}) == 1


def test_columns_that_few_variants_fill_are_shown_where_one_does() -> None:
    (result, _) = run_once(events=300)

    assert "checks" not in table([result]).splitlines()[0].split()
    followed = {**result, "candidate_checks": 3, "reevaluations": 4, "splits_replaced": 1}
    heading = table([result, followed]).splitlines()[0].split()
    assert {"checks", "revisits", "replaced"} <= set(heading)


def test_shards_take_turns_and_vote() -> None:
    _, whole = run_one(Run("a", "vfdt", {"n_min": 50.0}), measure_delay=False)
    contender, shared = run_one(Run("a x4", "vfdt", {"n_min": 50.0}, shards=4))

    assert set(shared) == set(whole) >= REQUIRED
    assert shared["shards"] == 4
    assert shared["events"] == whole["events"] == 6000
    assert shared["delay_kind"] is None
    assert shared["accuracy"] < whole["accuracy"]  # each tree has a fourth of the events
    assert len(contender.trees()) == 1
