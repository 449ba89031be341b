"""The record of changes: numbered, bounded, the same after a restart."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.history import ACTIVITY, ACTIVITY_SHARE, NO_CHANGES, Changes, History, KeptChanges
from learner import SplitRecord

TIME = "2026-01-01T00:00:00.000+00:00"
KINDS = ("bound", "tie", "replace", "move", "collapse", "deactivate", "reactivate")


def record(kind: str = "bound", event: int = 100, **changed: object) -> SplitRecord:
    """Return one change as the learner tells it."""
    activity = kind in ACTIVITY
    merit = math.nan if activity else 0.5
    found = SplitRecord(
        event, 3, 1, kind, "" if activity else "age", "" if activity else "age <= 3", 80.0, merit,
        math.nan if activity else 0.25, math.nan if activity else 0.1, -1.0,
        None if activity or kind == "collapse" else "bound", None, -1.0,
    )  # fmt: skip
    return found._replace(**changed)


def restored(changes: Changes) -> Changes:
    """Return what a checkpoint makes of it."""
    return msgspec.json.decode(msgspec.json.encode(changes.to_dict()), type=KeptChanges).changes()


batches = st.lists(st.lists(st.sampled_from(KINDS), max_size=6), max_size=12)


def grown(lists: list[list[str]], keep: int, history: History | None = None) -> History:
    history = history or History(keep)
    for at, kinds in enumerate(lists):
        found = [record(kind, event=at) for kind in kinds]
        history.add(found, {"t-0": at}, f"{TIME}/{at}", skipped=at % 2)
    return history


def test_a_change_tells_what_the_learner_told_with_its_batch() -> None:
    history = History(10)
    history.add([record("tie", delay=7.0, reason="tie", second="car")], {"t-0": 12, "t-1": 4}, TIME)

    (entry,) = history.changes().kept

    assert entry.document() == {
        "sequence": 1, "action": "split", "node": 3, "feature": "age", "test": "age <= 3",
        "reason": "tie", "merit": 0.5, "second_merit": 0.25, "second": "car", "bound": 0.1,
        "n": 80.0, "delay_events": 7.0, "event": 100, "offsets": {"t-0": 12, "t-1": 4},
        "time": TIME,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "action"),
    [("bound", "split"), ("tie", "split"), ("collapse", "prune"), ("deactivate", "deactivate")],
)
def test_changes_have_the_words_of_the_api(kind: str, action: str) -> None:
    history = History(10)
    history.add([record(kind)], {}, TIME)

    assert history.changes().kept[0].change.action == action


def test_what_is_no_number_is_none() -> None:
    history = History(10)
    history.add([record("deactivate"), record(second_merit=-math.inf)], {}, TIME)

    gone, alone = (entry.change for entry in history.changes().kept)

    assert (gone.feature, gone.test, gone.merit, gone.bound) == (None, None, None, None)
    assert (alone.second_merit, alone.delay_events) == (None, None)


@given(batches, st.integers(1, 20))
def test_the_newest_are_kept_in_order_and_a_flood_pushes_out_no_split(
    lists: list[list[str]], keep: int
) -> None:
    told = [kind for kinds in lists for kind in kinds]
    structural = [at for at, kind in enumerate(told, start=1) if kind not in ACTIVITY]
    activity = [at for at, kind in enumerate(told, start=1) if kind in ACTIVITY]

    changes = grown(lists, keep).changes()

    expected = structural[-keep:] + activity[-max(1, keep // ACTIVITY_SHARE) :]
    assert [entry.change.sequence for entry in changes.kept] == sorted(expected)
    assert (changes.total, changes.skipped) == (len(told), len(lists) // 2)


@given(batches, batches, st.integers(1, 20))
def test_a_restart_neither_loses_nor_repeats_a_change(
    before: list[list[str]], after: list[list[str]], keep: int
) -> None:
    straight = grown(after, keep, grown(before, keep))
    stopped = grown(before, keep).changes()

    again = grown(after, keep, History(keep, restored(stopped)))

    assert restored(stopped) == stopped
    assert again.changes() == straight.changes()


@given(batches, st.integers(1, 7))
def test_pages_one_after_the_other_are_all_there_is(lists: list[list[str]], limit: int) -> None:
    changes = grown(lists, 1000).changes()
    found, after = [], 0
    while page := changes.page(after, limit):
        assert len(page) <= limit
        found += page
        after = page[-1].change.sequence

    assert tuple(found) == changes.kept
    assert changes.page(None, limit) == changes.kept[-limit:]


def test_a_list_that_was_handed_out_does_not_move() -> None:
    history = grown([["bound"]], 10)
    before = history.changes()

    grown([["tie"]], 10, history)

    assert (len(before.kept), before.total) == (1, 1)
    assert history.changes().total == 2
    assert NO_CHANGES.first == 1


def test_numbers_that_do_not_rise_are_refused() -> None:
    kept = grown([["bound", "tie"]], 10).changes().to_dict()

    with pytest.raises(msgspec.ValidationError, match="expected rising numbers"):
        msgspec.convert(kept | {"total": 1}, KeptChanges, from_attributes=True)
