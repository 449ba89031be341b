"""The headers that tell which snapshot answered."""

from __future__ import annotations

from dataclasses import replace

from app.api.snapshot import raw_snapshot_headers, snapshot_headers
from app.serving import Published
from tests.app.fake_service import FakeService


def published(offsets: dict[str, int]) -> Published:
    current = FakeService().serving.current()
    assert current is not None
    return replace(current, offsets=offsets, kept={})


def test_offsets_are_told_of_every_partition() -> None:
    headers = snapshot_headers(published({"clicks-0": 5, "clicks-1": 7}))

    assert headers["livetree-snapshot-offsets"] == "clicks-0=5,clicks-1=7"


def test_a_name_that_no_header_can_carry_is_escaped() -> None:
    raw = dict(raw_snapshot_headers(published({"ereignisse für a\r\nb: x-0": 5})))

    assert raw[b"livetree-snapshot-offsets"] == b"ereignisse%20f%C3%BCr%20a%0D%0Ab%3A%20x-0=5"


def test_more_offsets_than_proxies_let_pass_are_left_out() -> None:
    assert "livetree-snapshot-offsets" not in snapshot_headers(
        published({f"clicks-{p}": 10**9 for p in range(100)})
    )
    assert "livetree-snapshot-offsets" not in snapshot_headers(published({}))
