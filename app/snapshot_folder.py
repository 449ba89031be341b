"""Snapshots by a folder: one file a model, replaced as a whole, for processes of one machine.

A file is written under another name, synced and renamed, so that a reader finds the old one or the
new one. A reader looks for a change of the file and takes its bytes into memory; or it maps them,
where nobody else can write to the folder: then all processes that map it share one copy.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from app.errors import SnapshotDamaged, SnapshotRefused, SnapshotUnwritable
from learner import Piece

SUFFIX = ".snapshot"
LOOK_SECONDS = 0.02  # between two looks at the file

Stamp = tuple[int, int, int]


def file_of(folder: Path, model: str) -> Path:
    """Return the file of a model's newest snapshot."""
    return folder / f"{model}{SUFFIX}"


class FolderOutlet:
    """Writes the newest snapshot of a model into a folder."""

    name = "folder"

    def __init__(self, folder: Path, model: str, *, durable: bool = True) -> None:
        self._file = file_of(folder, model)
        self._durable = durable

    def send(self, message: Sequence[Piece], publication: str) -> None:  # noqa: ARG002
        """Replace the file; raises SnapshotUnwritable."""
        # By process: a second learner of the same name would write into the first one's file.
        temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}.tmp")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                for piece in message:
                    file.write(piece)
                file.flush()
                if self._durable:
                    os.fsync(file.fileno())
            temporary.rename(self._file)
        except OSError as exc:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise SnapshotUnwritable(
                f"snapshot folder '{self._file.parent}' refuses a file: {exc.strerror}; expected a "
                "writable folder with room (LIVETREE_SNAPSHOTS__FOLDER)"
            ) from exc

    def close(self) -> None:
        """Nothing is held."""


class FolderInlet:
    """Follows the file of one model."""

    def __init__(self, folder: Path, model: str, max_bytes: int, *, mapped: bool = False) -> None:
        self._file, self._max_bytes, self._mapped = file_of(folder, model), max_bytes, mapped
        self._stamp: Stamp | None = None
        self.connected = False

    def poll(self, seconds: float) -> memoryview | None:
        """Return the file's bytes when it is another one than before, or None after a while."""
        deadline = time.monotonic() + seconds
        while True:
            found = self._look()
            if found is not None:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(LOOK_SECONDS, left))

    def take_refused(self) -> list[SnapshotRefused]:
        """Return nothing: whatever is in the file is handed out."""
        return []

    def _look(self) -> memoryview | None:
        try:
            with self._file.open("rb") as file:
                status = os.fstat(file.fileno())
                stamp = status.st_mtime_ns, status.st_ino, status.st_size
                self.connected = True
                if stamp == self._stamp:
                    return None
                self._stamp = stamp
                if status.st_size > self._max_bytes:
                    raise SnapshotDamaged(
                        f"'{self._file}' is {status.st_size} bytes long; expected at most "
                        f"{self._max_bytes} (LIVETREE_SNAPSHOTS__MAX_BYTES)"
                    )
                if self._mapped and status.st_size:
                    # Private: kernels want arrays that they could write, and never do.
                    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
                content = bytearray(status.st_size)
                size = file.readinto(content)
                return memoryview(content)[:size]
        except FileNotFoundError:
            self.connected = self._file.parent.is_dir()
            return None
        except OSError as exc:
            self.connected = False
            raise SnapshotDamaged(f"'{self._file}' cannot be read: {exc.strerror}") from exc

    def close(self) -> None:
        """Nothing is held."""
