"""A growing file as a source."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import OffsetOutOfRange, SourceChanged, SourceError
from app.file_source import FileSource
from app.settings import FileSettings
from app.source import Records, Start


def opened(path: Path, start: Start = Start()) -> FileSource:  # noqa: B008
    source = FileSource(FileSettings(path=path, poll_timeout_seconds=0.001))
    source.open(start)
    return source


def test_offsets_are_byte_positions_of_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a": 1}\r\n\n{"a": 2}\n')
    source = opened(path)

    records = source.poll(10)

    assert [(record.offset, record.value) for record in records] == [
        (0, b'{"a": 1}'),
        (10, None),
        (11, b'{"a": 2}'),
    ]
    assert source.positions() == {0: 20}
    assert source.lag() == {0: 0}
    source.close()


def test_a_line_without_an_end_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntw")
    source = opened(path)
    assert [record.value for record in source.poll(10)] == [b"one"]
    assert source.poll(10) == []

    with path.open("ab") as file:
        file.write(b"o\nthree\n")

    assert [record.value for record in source.poll(10)] == [b"two", b"three"]
    source.close()


def test_a_restart_goes_on_after_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    first = opened(path)
    first.poll(2)
    start = Start(first.positions(), first.identity())
    first.close()

    second = opened(path, start)

    assert [record.value for record in second.poll(10)] == [b"three"]
    second.close()


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntwo\n")
    source = opened(path)
    source.poll(10)

    path.write_bytes(b"one\n")

    with pytest.raises(OffsetOutOfRange, match=r"is 4 bytes long; expected at least 8"):
        source.poll(10)
    source.close()


def test_a_file_that_is_not_the_checkpoints_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntwo\n")
    first = opened(path)
    first.poll(10)
    start = Start(first.positions(), first.identity())
    first.close()
    path.write_bytes(b"another file\nthat is long enough\n")

    second = opened(path, start)
    with pytest.raises(SourceChanged, match="another file"):
        second.poll(10)
    second.close()


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    source = opened(path)
    assert source.poll(10) == []
    assert source.identity() is None

    path.write_bytes(b"one\n")

    assert [record.value for record in source.poll(10)] == [b"one"]
    source.close()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        opened(tmp_path).poll(1)


@given(st.binary(max_size=300), st.integers(1, 5), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_lines_in_blocks_are_the_lines_one_by_one(text: bytes, limit: int, block: int) -> None:
    """However long blocks are, and wherever they end."""
    with tempfile.TemporaryDirectory() as folder, mock.patch("app.file_source.BLOCK_BYTES", block):
        path = Path(folder) / "events.jsonl"
        path.write_bytes(text)
        source = opened(path)
        found: list[tuple[int, bytes | None]] = []
        joined = b""
        while records := source.poll(limit):
            assert len(records) <= limit
            assert isinstance(records, Records)
            found += [(record.offset, record.value) for record in records]
            assert list(records.values()) == [record.value for record in records]
            text_of_all = records.values().joined(1, 3).tobytes()
            assert text_of_all.endswith(bytes(4))
            joined += text_of_all[:-3]
        source.close()

    whole = text[: text.rfind(b"\n") + 1]
    lines = [line + b"\n" for line in whole.split(b"\n")[:-1]]
    starts = [sum(map(len, lines[:i])) for i in range(len(lines))]
    assert found == [
        (start, line.strip() or None) for start, line in zip(starts, lines, strict=True)
    ]
    assert joined == whole.replace(b"\n", b"\0")
    assert source.positions() == {}


def test_a_line_that_is_written_anew_before_its_end_is_read_as_it_is_then(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntw")
    source = opened(path)
    assert [record.value for record in source.poll(10)] == [b"one"]

    path.write_bytes(b"one\nthree\n")

    assert [record.value for record in source.poll(10)] == [b"three"]
    source.close()
