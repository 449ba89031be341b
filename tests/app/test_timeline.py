"""Which snapshots are held to look back at, and which of them a word means."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import UnknownSnapshot
from app.moment import find, seconds_of, time_text
from app.published import Published
from app.serving import Serving
from app.timeline import Timeline
from learner import Snapshot, StreamingTree, held_bytes, set_apart
from tests.learner.test_publication import hasty, teach

START = 1_700_000_000.0


@cache
def snapshots(count: int = 40) -> list[Snapshot]:
    """Snapshots of one tree, each ten events later."""
    tree: StreamingTree = hasty("vfdt")
    found = []
    for at in range(0, 10 * count, 10):
        teach(tree, at, at + 10)
        found.append(set_apart(tree.snapshot()))
    return found


def published(place: int, seconds: float) -> Published:
    offsets = {"clicks-0": 10 * place + 10, "clicks-1": place}
    return Published(snapshots()[place % 40], START + seconds, offsets, accuracy=0.5)


def filled(timeline: Timeline, seconds: list[float]) -> Timeline:
    for place, each in enumerate(seconds):
        timeline.add(published(place, each))
    return timeline


def ages(timeline: Timeline) -> list[float]:
    return [each.published_at - START for each in timeline.held]


def test_nothing_is_held_where_nothing_is_wanted() -> None:
    assert not filled(Timeline(keep=0), [0, 10, 20]).held


def test_snapshots_that_come_too_soon_are_passed_over() -> None:
    assert ages(filled(Timeline(9, every_seconds=10), [0, 1, 9.9, 10, 15, 25])) == [25, 10, 0]


def test_the_same_snapshot_is_held_once() -> None:
    timeline = Timeline(9, every_seconds=1)
    timeline.add(published(3, 0))
    timeline.add(published(3, 60))

    assert ages(timeline) == [0]


def test_a_clock_that_was_set_back_does_not_stop_the_timeline() -> None:
    assert ages(filled(Timeline(9, every_seconds=10), [1000, 0, 5, 10])) == [10, 0, 1000]


def test_older_ones_are_further_apart_and_the_first_stays() -> None:
    timeline = filled(Timeline(12, every_seconds=10), [10.0 * i for i in range(5000)])

    found = ages(timeline)
    gaps = [later - earlier for later, earlier in pairwise(found)]
    assert len(found) == 12
    assert found[0] == 49_990
    assert found[-1] == 0
    assert gaps[0] <= 40
    assert gaps[-1] > 10_000
    # No gap is a much larger share of the way back than the others.
    now = found[0] + 10
    assert all(gap <= 0.8 * (now - earlier) for gap, earlier in zip(gaps, found[1:], strict=True))


@given(steps=st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60), keep=st.integers(1, 8))
def test_never_more_than_so_many_and_always_the_newest(steps: list[float], keep: int) -> None:
    seconds = [sum(steps[: i + 1]) for i in range(len(steps))]
    timeline = filled(Timeline(keep, every_seconds=0), seconds)

    assert len(timeline.held) <= keep
    assert timeline.held[0].published_at == START + seconds[-1]
    assert ages(timeline) == sorted(ages(timeline), reverse=True)


def test_the_bound_on_bytes_goes_before_the_number() -> None:
    size = held_bytes(snapshots()[39])
    timeline = filled(Timeline(30, 0, max_bytes=3 * size), [float(i) for i in range(40)])

    assert 0 < timeline.held_bytes <= 3 * size
    assert len(timeline.held) < 30
    assert timeline.held[0].published_at == START + 39


def test_snapshots_that_are_larger_than_the_bound_are_not_held_at_all() -> None:
    assert not filled(Timeline(9, 0, max_bytes=10), [0, 1, 2]).held


def test_the_current_one_is_listed_first_and_once() -> None:
    serving = Serving(Timeline(9, every_seconds=10))
    assert serving.held() == []
    for place, seconds in enumerate([0.0, 4.0, 12.0, 15.0]):
        serving.publish(published(place, seconds))

    assert [each.published_at - START for each in serving.held()] == [15, 12, 0]
    assert serving.held()[0] is serving.current()
    assert serving.held_bytes == sum(held_bytes(each.snapshot) for each in serving.held()[1:])


@pytest.fixture(scope="module")
def held() -> list[Published]:
    """Return three snapshots, the newest first: after 50, 40 and 10 events."""
    return [published(4, 60), published(3, 30), published(0, 0)]


@pytest.mark.parametrize(
    ("at", "place"),
    [
        ("vfdt-40", 1),
        ("events:0", 2),
        ("events:10", 2),
        ("events:11", 1),
        ("events:50", 0),
        ("clicks-0:9", 2),
        ("clicks-0:10", 1),
        ("clicks-0:49", 0),
        ("clicks-1:3", 0),
        (str(START), 2),
        (str(START + 30), 1),
        (f"{START + 29.9}", 2),
        ("99999999999", 0),
        ("2023-11-14T22:13:50Z", 1),
        ("2023-11-14t22:13:50.5z", 1),
        ("2023-11-15T00:13:50+02:00", 1),
        ("2023-11-15T00:13:50 02:00", 1),
    ],
)
def test_a_snapshot_is_meant_by_id_events_offset_or_time(
    held: list[Published], at: str, place: int
) -> None:
    assert find(at, held) is held[place]


@pytest.mark.parametrize(
    "at",
    [
        "vfdt-41", "", "events:51", "clicks-0:50", "clicks-7:0", "other-0:1", str(START - 1),
        "2020-01-01T00:00:00Z", "events:", "x" * 5000, "9" * 5000, "clicks-0:-1", "\n", "1e3",
    ],
)  # fmt: skip
def test_what_is_not_held_is_named_with_what_is(held: list[Published], at: str) -> None:
    with pytest.raises(UnknownSnapshot) as caught:
        find(at, held)

    message = str(caught.value)
    assert message.endswith(
        "held are 3, from vfdt-10 (2023-11-14T22:13:20.000Z) to vfdt-50 (2023-11-14T22:14:20.000Z)"
    )
    assert at[:80] in message
    assert len(message) < 300


@pytest.mark.parametrize(
    "at", ["2023-11-14", "2023-11-14T22:13:50", "2023-13-14T22:13:50Z", "2023-11-14T25:00:00Z"]
)
def test_a_time_that_cannot_be_read_is_refused(held: list[Published], at: str) -> None:
    with pytest.raises(ValueError, match="a time"):
        find(at, held)


@given(st.integers(0, 4_000_000_000_000))
def test_times_are_read_as_they_are_written(milliseconds: int) -> None:
    assert seconds_of(time_text(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000, abs=1e-3
    )


@given(st.text())
def test_any_text_is_a_snapshot_or_refused(text: str) -> None:
    known: Any = [published(4, 60)]
    with suppress(UnknownSnapshot, ValueError):
        assert find(text, known) is known[0]
