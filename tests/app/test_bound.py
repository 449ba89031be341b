"""Where a range begins and ends, in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.bound import Bound, parse_bound, parse_since, resolve
from app.errors import SettingsError

HELD = {0: 5, 1: 7}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Bound(word="earliest")),
        ("17", Bound(offset=17)),
        ("0:100, 1:200", Bound(offsets={0: 100, 1: 200})),
        ("2026-01-01T00:00:00Z", Bound(milliseconds=1_767_225_600_000)),
        ("2026-01-01", Bound(milliseconds=1_767_225_600_000)),
    ],
)
def test_bounds_are_read(text: str, expected: Bound) -> None:
    assert parse_bound(text, "--from") == expected


@pytest.mark.parametrize("text", ["", "-1", "1:", "0:1,", "soon", "0:1;1:2"])
def test_what_is_no_bound_is_refused_with_what_it_may_be(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--to is .*; expected earliest, latest"):
        parse_bound(text, "--to")


def test_a_partition_that_is_not_named_has_the_usual_bound() -> None:
    words = {"earliest": HELD}

    assert resolve(Bound(offsets={1: 9}), HELD, words, dict) == {0: 5, 1: 9}
    assert resolve(Bound(offset=3), HELD, words, dict) == {0: 3, 1: 3}
    assert resolve(Bound(milliseconds=4), HELD, words, lambda at: {0: at, 1: at}) == {0: 4, 1: 4}


def test_times_may_be_told_by_how_long_ago_they_were() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)

    assert parse_since("24h", now) == datetime(2026, 1, 1, tzinfo=UTC)
    assert parse_since("2026-01-01") == datetime(2026, 1, 1, tzinfo=UTC)
