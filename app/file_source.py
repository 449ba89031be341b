"""A growing file of JSON lines as a source: `tail -f` with a memory.

One partition, 0. An offset is a byte position: a record's is where its line begins, the next one
is after its line end. A last line without a line end is not complete yet and is waited for; an
empty line is a record without a value.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from app.errors import OffsetOutOfRange, SourceChanged, SourceError
from app.line import Lines, whole_lines
from app.log import Seldom, get_logger
from app.settings import FileSettings
from app.source import Record, Start

log = get_logger(__name__)

NO_LINES = np.zeros(0, np.int64)
BLOCK_BYTES = 1 << 18  # to be read at a time; twice as many while no line ends


class FileSource:
    """Lines of one file, also of one that another program is still writing."""

    def __init__(self, settings: FileSettings) -> None:
        if settings.path is None:
            raise SourceError("file.path is missing; expected the path of a file")
        self.path = Path(settings.path)
        self.topic = self.path.name
        self.resets = 0
        self.topic_id: str | None = None  # files have none
        self._wait_seconds = settings.poll_timeout_seconds
        self._start = Start()
        self._file: BinaryIO | None = None
        self._position = 0
        self._block = b""  # the lines that were read last
        self._ends = NO_LINES  # of each of them
        self._polled = 0  # how many of them were
        self._seldom = Seldom()

    def open(self, start: Start) -> None:
        """Remember where to begin; the file is opened once it is there."""
        self._start = start

    def poll(self, limit: int) -> Sequence[Record]:
        """Return up to ``limit`` complete lines; waits a moment when there are none."""
        lines = self._read(limit) if self._opened() else None
        if lines is None:
            time.sleep(self._wait_seconds)
            return []
        return lines

    def _opened(self) -> bool:
        if self._file is not None:
            return True
        try:
            self._file = self.path.open("rb")
        except FileNotFoundError:
            if self._seldom.due("missing"):
                log.warning("file is not there, waiting", path=str(self.path))
            return False
        except OSError as exc:
            raise SourceError(f"file '{self.path}' cannot be read: {exc.strerror}") from exc
        identity = self.identity()
        if self._start.identity and identity and self._start.identity != identity:
            raise SourceChanged(
                f"file '{self.path}' begins otherwise than the one in the checkpoint: the model "
                "was fed from another file; expected that one, or an empty checkpoint folder"
            )
        self._position = self._start.offsets.get(0, 0)
        self._file.seek(self._position)
        return True

    def _read(self, limit: int) -> Lines | None:
        if len(self._ends) - self._polled < limit:
            self._read_on(limit)
        ends = self._ends[self._polled : self._polled + limit]
        if not len(ends):
            self._check_size()
            return None
        start, stop = self._polled_bytes(), int(ends[-1])
        lines = Lines(self.topic, self._position, self._block[start:stop], ends - start)
        self._polled += len(ends)
        self._position += stop - start
        return lines

    def _polled_bytes(self) -> int:
        return int(self._ends[self._polled - 1]) if self._polled else 0

    def _read_on(self, limit: int) -> None:
        """Let go of what was polled, and read more lines if there are."""
        start = self._polled_bytes()
        self._block, self._ends = self._block[start:], self._ends[self._polled :] - start
        self._polled = 0
        while len(self._ends) < limit and (more := self._more()):
            self._ends = np.concatenate([self._ends, whole_lines(more) + len(self._block)])
            self._block += more

    def _more(self) -> bytes:
        """Read the next complete lines; a last one without an end may still be written anew."""
        file = self._file
        assert file is not None
        file.seek(self._position + len(self._block))
        block = more = file.read(BLOCK_BYTES)
        while more and b"\n" not in more:
            more = file.read(len(block))
            block += more
        return block[: block.rfind(b"\n") + 1]

    def _check_size(self) -> None:
        """Refuse a file that became shorter: it lost learned lines, or is another one."""
        try:
            size = self.path.stat().st_size
        except OSError:
            size = 0
        if size < self._position:
            raise OffsetOutOfRange(
                f"file '{self.path}' is {size} bytes long; expected at least {self._position}, "
                "which were read already. It was cut or replaced: append to it only, or remove "
                "the checkpoints to start anew"
            )

    def positions(self) -> dict[int, int]:
        """Return the byte after the last line that was polled."""
        return {0: self._position} if self._file is not None else dict(self._start.offsets)

    @property
    def connected(self) -> bool:
        """Whether the file is there."""
        return self._file is not None

    def identity(self) -> str | None:
        """Return a digest of the first line, which appending does not change."""
        try:
            with self.path.open("rb") as file:
                line = file.readline(65_536)
        except OSError:
            return None
        complete = line.endswith(b"\n") or len(line) == 65_536
        return f"sha256:{hashlib.sha256(line).hexdigest()}" if complete else None

    def lag(self) -> dict[int, int]:
        """Return how many bytes wait."""
        try:
            return {0: max(0, self.path.stat().st_size - self._position)}
        except OSError:
            return {}

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Do nothing: nobody else reads our progress in a file."""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
