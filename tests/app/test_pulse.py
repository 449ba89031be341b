"""What the page is told once a second, and the past that is kept of it."""

from __future__ import annotations

from typing import Any

from app.api.pulse import KEPT, Beat, Pulse
from app.history import History
from app.serving import Published
from tests.app.fake_service import FakeCounters, FakeService, FakeSnapshot
from tests.app.test_history import record


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def snapshot_with(events: int) -> FakeSnapshot:
    found = FakeSnapshot()
    found.events = events
    found.counters = FakeCounters(events=events)
    return found


def publish(service: FakeService, history: History) -> None:
    snapshot: Any = FakeSnapshot()
    service.serving.publish(Published(snapshot, 1000.0, changes=history.changes()))


def pulse_of(service: Any) -> tuple[Pulse, Clock]:
    clock = Clock()
    return Pulse(service, clock, clock), clock


def test_a_beat_tells_what_was_published() -> None:
    pulse, _ = pulse_of(FakeService())

    beat = pulse.beat()

    assert beat.snapshot == "snap-1"
    assert (beat.events, beat.attempts, beat.splits) == (120, 4, 3)
    assert (beat.accuracy, beat.window_accuracy, beat.kappa) == (0.9, 0.95, 0.8)
    assert (beat.nodes, beat.leaves, beat.depth, beat.memory_bytes) == (3, 2, 1, 4096)


def test_nothing_is_known_before_the_first_snapshot() -> None:
    pulse, _ = pulse_of(FakeService(published=False))

    beat = pulse.beat()

    assert beat == Beat(1000.0, None, 0, 0.0, *[None] * 4, 0, 0, 0, None, 0, 0, None, 0)


def test_a_second_passes_between_two_beats_however_often_it_is_asked() -> None:
    pulse, clock = pulse_of(FakeService())
    taken = []
    for _ in range(50):
        taken.append(pulse.beat().time)
        clock.now += 0.1

    assert len(set(taken)) == 5


def test_after_a_long_pause_there_is_one_beat_and_not_all_that_were_missed() -> None:
    pulse, clock = pulse_of(FakeService())
    pulse.beat()
    clock.now += 3600

    pulse.beat()
    clock.now += 0.1
    pulse.beat()

    assert pulse.history()["time"] == [1000.0, 4600.0]


def test_the_past_is_bounded_and_oldest_first() -> None:
    pulse, clock = pulse_of(FakeService())
    for _ in range(KEPT + 10):
        pulse.beat()
        clock.now += 1

    past = pulse.history()

    assert set(past) == set(Beat._fields)
    assert len(past["time"]) == KEPT
    assert past["time"] == sorted(past["time"])
    assert past["time"][-1] == clock.now - 1


def test_the_rate_is_that_of_the_last_seconds() -> None:
    service = FakeService()
    pulse, clock = pulse_of(service)
    for second in range(20):
        service.publish(snapshot_with(1000 * second), published_at=clock.now)
        rate = pulse.beat().events_per_second
        clock.now += 1
    assert rate == 1000
    for _ in range(10):
        rate = pulse.beat().events_per_second
        clock.now += 1
    assert rate == 0


def test_a_model_that_begins_anew_has_no_negative_rate() -> None:
    service = FakeService()
    pulse, clock = pulse_of(service)
    for events in (5000, 10):
        service.publish(snapshot_with(events), published_at=clock.now)
        rate = pulse.beat().events_per_second
        clock.now += 1

    assert rate == 0


def test_lag_and_delay_come_from_the_metrics() -> None:
    service = FakeService()
    pulse, clock = pulse_of(service)
    assert (pulse.beat().lag, pulse.beat().delay_mean) == (None, None)
    service.metrics.consumer_lag_records.labels("events", "0").set(40)
    service.metrics.consumer_lag_records.labels("events", "1").set(2)
    service.metrics.split_delay.labels("fake", "bound").observe(100)
    service.metrics.split_delay.labels("fake", "bound").observe(50)
    service.metrics.split_delay.labels("fake", "tie").observe(1e6)
    clock.now += 1

    assert (pulse.beat().lag, pulse.beat().delay_mean) == (42, 75)


def test_changes_of_the_tree_are_told_for_some_seconds() -> None:
    service = FakeService()
    pulse, clock = pulse_of(service)
    history = History(keep=100)
    told = []
    for second in range(8):
        if second == 2:
            history.add([record(node=7)], {"events-0": 3}, "2026-01-01T00:00:00.000+00:00")
        publish(service, history)
        pulse.beat()
        told.append([change["node"] for change in pulse.changes()])
        clock.now += 1

    assert told == [[], [], [7], [7], [7], [], [], []]


def test_changes_before_the_first_beat_are_not_told() -> None:
    service = FakeService()
    pulse, _ = pulse_of(service)
    assert pulse.changes() == []
    history = History(keep=100)
    history.add([record(node=node) for node in range(9)], {}, "2026-01-01T00:00:00.000+00:00")
    publish(service, history)

    pulse.beat()

    assert pulse.changes() == []
