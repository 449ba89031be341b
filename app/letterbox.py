"""The dead letters of a service, read once from their beginning to where they end now.

What was redriven is noted where the letters are, so that nothing is sent back twice by accident: in
the topic as records of their own with the header `__livetree.redriven.note`, and for a file in a
second one beside it (the learner may be writing the first).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from app.errors import SourceError
from app.letter import NOTE, Letter, letter_of, letter_of_line
from app.log_range import LogRange, Span
from app.sender import Sender
from app.settings import Settings

BATCH = 500


class Letterbox(Protocol):
    """Where dead letters are."""

    name: str
    total: int  # how much there is to read
    damaged: int  # lines that nobody can read
    redriven: set[tuple[int, int]]  # places of letters sent back; whole once all is read

    @property
    def done(self) -> int:
        """How much of it was read."""

    def read(self) -> Iterator[list[Letter]]:
        """Yield all letters up to the end at the start, in batches."""

    def letter_at(self, partition: int, offset: int) -> Letter | None:
        """Return one letter; None where there is none."""

    def note(self, letters: Sequence[Letter], target: str) -> None:
        """Remember durably that these were sent back."""

    def close(self) -> None:
        """Let go of everything."""


def open_letterbox(settings: Settings) -> Letterbox:
    """Return the dead letters of these settings; raises SourceError where there is no place."""
    if settings.source == "file":
        if settings.file.path is None:
            raise SourceError("file.path is missing; expected the path of a file")
        return FileLetterbox(Path(f"{settings.file.path}.dlq"))
    return TopicLetterbox(settings)


class TopicLetterbox:
    """The dead letters' topic."""

    def __init__(self, settings: Settings) -> None:
        self.name = settings.dead_letter_topic()
        self.damaged = 0
        self.redriven: set[tuple[int, int]] = set()
        self._settings = settings
        self._log = LogRange(settings.kafka, self.name)
        self._sender: Sender | None = None
        self.total = sum(span.length for span in self._log.held.values())

    @property
    def done(self) -> int:
        """How many offsets were passed."""
        return sum(at - self._log.held[p].start for p, at in self._log.reached.items())

    def read(self) -> Iterator[list[Letter]]:
        """Yield all letters; notes among them are taken in."""
        for records in self._log.read(self._log.held):
            letters = []
            for record in records:
                if any(name == NOTE for name, _ in record.headers or ()):
                    self._take_in(record.partition, record.value)
                else:
                    letters.append(letter_of(record))
            yield letters

    def _take_in(self, partition: int, note: bytes | None) -> None:
        try:
            offsets = json.loads(note or b"")["offsets"]
            self.redriven |= {(partition, int(offset)) for offset in offsets}
        except (ValueError, KeyError, TypeError):
            self.damaged += 1

    def letter_at(self, partition: int, offset: int) -> Letter | None:
        """Return the letter at an offset; raises OffsetOutOfRange with what is there."""
        for records in self._log.read({partition: Span(offset, offset + 1)}):
            for record in records:
                return letter_of(record)
        return None

    def note(self, letters: Sequence[Letter], target: str) -> None:
        """Write one note for each partition, into that partition: it outlives its letters."""
        if self._sender is None:
            timeout = self._settings.dead_letter.timeout_seconds
            self._sender = Sender(self._settings.kafka, timeout, self._lost)
        for partition in {letter.partition for letter in letters}:
            offsets = [letter.offset for letter in letters if letter.partition == partition]
            note = json.dumps({"redriven_to": target, "offsets": offsets}).encode()
            key = f"redriven {partition}:{offsets[0]}".encode()  # a compacted topic wants one
            self._sender.send(self.name, note, key, [(NOTE, b"1")], partition=partition)
        self._sender.flush()
        self.redriven |= {(letter.partition, letter.offset) for letter in letters}

    def _lost(self, why: str) -> SourceError:
        return SourceError(
            f"topic '{self.name}' does not take the note of what was redriven: {why}; the last "
            f"{BATCH} records at most were sent and are not noted: they would be sent again"
        )

    def close(self) -> None:
        """Let go of the broker."""
        self._log.close()
        if self._sender is not None:
            self._sender.close()


class FileLetterbox:
    """The dead letters of a file source: JSON lines; a letter's offset is where its line begins."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.path = path
        self.damaged = 0
        self._done = 0
        self._notes = Path(f"{path}.redriven")
        try:
            self.total = path.stat().st_size
            noted = self._notes.read_bytes().split() if self._notes.exists() else []
        except OSError as exc:
            raise SourceError(
                f"dead letters '{path}' cannot be read: {exc.strerror}; expected a file, which "
                "appears with the first rejected line"
            ) from exc
        self.redriven = {(0, int(offset)) for offset in noted if offset.isdigit()}

    @property
    def done(self) -> int:
        """How many bytes were passed."""
        return self._done

    def read(self) -> Iterator[list[Letter]]:
        """Yield all letters; damaged lines are counted and passed over."""
        letters: list[Letter] = []
        self._done = self.damaged = 0
        with self._open() as file:
            while self._done < self.total:
                line = file.readline()
                if not line.endswith(b"\n"):
                    break  # being written, or cut off by a crash
                letter = letter_of_line(line, self._done) if line.strip() else None
                self._done += len(line)
                if letter is not None:
                    letters.append(letter)
                elif line.strip():
                    self.damaged += 1
                if len(letters) >= BATCH:
                    yield letters
                    letters = []
        yield letters

    def letter_at(self, partition: int, offset: int) -> Letter | None:
        """Return the letter whose line begins at this byte."""
        if partition != 0 or offset >= self.total:
            return None
        with self._open() as file:
            if offset:
                file.seek(offset - 1)
                if file.read(1) != b"\n":
                    return None
            return letter_of_line(file.readline(), offset)

    def _open(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as exc:
            raise SourceError(f"dead letters '{self.path}' cannot be read: {exc.strerror}") from exc

    def note(self, letters: Sequence[Letter], target: str) -> None:  # noqa: ARG002
        """Append the letters' offsets to the notes."""
        append_durably(self._notes, b"".join(b"%d\n" % letter.offset for letter in letters))
        self.redriven |= {(0, letter.offset) for letter in letters}

    def close(self) -> None:
        """Do nothing: files are closed where they are read."""


def append_durably(path: Path, content: bytes) -> None:
    """Append to a file in one piece and wait for the disk; raises SourceError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise SourceError(f"file '{path}' cannot be written: {exc.strerror}") from exc
