"""Several trees on one stream."""

from __future__ import annotations

import pytest

from app.comparison import Run, StreamFeed, compare, cut, enter, table
from app.errors import SettingsError
from learner import Encoder
from streams import open_stream

REQUIRED = {
    "variant", "accuracy", "kappa", "split_attempts", "attribute_evaluations", "split_delay_mean",
    "nodes", "depth", "memory_bytes", "events_per_second", "tree_hash", "stream", "events",
    "leaves", "splits", "window_accuracy",
}  # fmt: skip


def run_once(batch: int = 500, events: int = 6000) -> list[dict[str, object]]:
    """Compare two configurations on a short stream."""
    feed = StreamFeed(open_stream("agrawal", seed=3))
    runs = [
        Run("few", "vfdt", {"n_min": 500.0, "audit_fraction": 1.0}),
        Run("many", "vfdt", {"n_min": 50.0, "audit_fraction": 1.0}),
    ]
    return compare(feed, enter(runs, feed.encoder), events=events, batch=batch)


def test_every_run_reports_all_it_must() -> None:
    few, many = run_once()

    assert set(few) >= REQUIRED
    assert (few["name"], few["variant"], few["stream"]) == ("few", "vfdt", "agrawal")
    assert few["events"] == many["events"] == 6000
    assert int(str(many["split_attempts"])) > int(str(few["split_attempts"]))


def test_batch_size_does_not_change_the_results() -> None:
    small, large = run_once(batch=17), run_once(batch=4000)

    measured = {"seconds", "events_per_second"}
    for one, other in zip(small, large, strict=True):
        assert {k: v for k, v in one.items() if k not in measured} == {
            k: v for k, v in other.items() if k not in measured
        }


def test_the_delay_of_every_split_is_measured_beside_the_tree_on_the_clock() -> None:
    feed = StreamFeed(open_stream("agrawal", seed=3))
    runs = [
        Run("plain", "vfdt", {"n_min": 50.0}),
        Run("none", "vfdt", {"n_min": 50.0, "audit_fraction": 0.0}),
        Run("all", "vfdt", {"n_min": 50.0, "audit_fraction": 1.0}),
    ]
    contenders = enter(runs, feed.encoder)
    plain, none, audited = compare(feed, contenders, events=6000)

    assert contenders[0].tree.counters().audit_evaluations < plain["attribute_evaluations"]
    assert plain["split_delay_mean"] == audited["split_delay_mean"]
    assert plain["audited_splits"] == audited["audited_splits"] == plain["splits"] > 0
    assert none["split_delay_mean"] is None
    same = ("accuracy", "split_attempts", "attribute_evaluations", "nodes", "depth")
    assert [plain[key] for key in same] == [none[key] for key in same]
    assert [plain[key] for key in same] == [audited[key] for key in same]


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
