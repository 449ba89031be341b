"""Model and offsets in one file, so that they can never disagree.

    magic            8 bytes   b"LIVETREE"
    format version   4 bytes   little endian
    header length    4 bytes
    header           JSON: offsets, topic, cluster, evaluation, changes of the tree, ...
    model            the tree's own bytes, with its encoder; without their digest since version 2
    digest           32 bytes  SHA-256 of everything before

Written under a temporary name, synced, renamed, and the folder synced: a crash leaves the old
file or the new one. The newest whole file wins; a damaged one is passed over, and said so. Magic,
version and digest stand at the same places in every format, so that a file of another version of
the program is told from a damaged one: it is refused, because passing over it would give up what
it has learned.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec

from app.errors import (
    CheckpointLocked,
    CheckpointMismatch,
    CheckpointUnreadable,
    CheckpointUnwritable,
    CheckpointVersion,
)
from app.handover import Handover
from app.history import NO_CHANGES, Changes, KeptChanges
from app.log import get_logger
from learner import Piece, SnapshotError, SnapshotVersion, seal

T = TypeVar("T")

log = get_logger(__name__)

MAGIC = b"LIVETREE"
FORMAT_VERSION = 3
PREAMBLE = struct.Struct("<8sII")
DIGEST_BYTES = 32
WITH_MODEL_DIGEST = 1  # the version that had one digest in the other; still read
WITHOUT_CHANGES = 2  # likewise
SUFFIX = ".checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """Everything a restart needs; the model stays outside the JSON header."""

    model: bytes
    offsets: Mapping[int, int]  # partition -> next offset
    topic: str
    identity: str | None  # cluster id, or a file's digest
    events: int
    created_at: str  # RFC 3339
    shaping: Mapping[str, Any] = field(default_factory=dict)  # settings that shape the tree
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes = NO_CHANGES  # of the tree
    topic_id: str | None = None  # which topic of this name; None: not known when it was written
    unsealed: Iterable[Piece] | None = None  # a model to be written once, with no digest yet

    @classmethod
    def taken(cls, model: Iterable[Piece], **rest: Any) -> Checkpoint:
        """Return the checkpoint of a model as of now."""
        return cls(
            model=b"",
            unsealed=model,
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            **rest,
        )

    @cached_property
    def model_hash(self) -> str:
        """Return the name of the model's exact state, as its tree has it."""
        return hashlib.sha256(self.model).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        pieces = list(self.pieces())
        return b"".join([*pieces, digest_of(pieces)])

    def pieces(self) -> Iterator[Piece]:
        """Yield the file's content up to its digest."""
        header = {name: getattr(self, name) for name in HEADER_FIELDS}
        header |= {"offsets": {str(p): o for p, o in self.offsets.items()}}
        header |= {"changes": self.changes.to_dict()}
        text = msgspec.json.encode(header, order="sorted")
        yield PREAMBLE.pack(MAGIC, FORMAT_VERSION, len(text)) + text
        yield from [self.model[:-DIGEST_BYTES]] if self.unsealed is None else self.unsealed

    @classmethod
    def from_bytes(cls, content: bytes) -> Checkpoint:
        """Read a file's content; raises CheckpointUnreadable, CheckpointVersion."""
        if len(content) < PREAMBLE.size + DIGEST_BYTES or not content.startswith(MAGIC):
            raise CheckpointUnreadable("it is not a checkpoint, or was cut off")
        body, digest = memoryview(content)[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
        if digest_of([body]) != digest:
            raise CheckpointUnreadable("its checksum does not fit: it is damaged")
        _, version, header_bytes = PREAMBLE.unpack_from(content)
        if version not in (WITH_MODEL_DIGEST, WITHOUT_CHANGES, FORMAT_VERSION):
            raise CheckpointVersion(f"format version is {version}; expected {FORMAT_VERSION}")
        end = PREAMBLE.size + header_bytes
        if end > len(body):
            raise CheckpointUnreadable(
                f"its header is {header_bytes} bytes long; expected at most {len(body)}"
            )
        try:
            header = HEADER_DECODER.decode(body[PREAMBLE.size : end])
        except (ValueError, RecursionError) as exc:
            raise CheckpointUnreadable(f"its header cannot be read: {exc}") from exc
        if _is_deep(header.shaping):
            raise CheckpointUnreadable("its header is nested too deeply; expected settings")
        rest = {name: getattr(header, name) for name in HEADER_FIELDS}
        rest |= {"changes": header.changes.changes()}
        model: list[Piece] = [body[end:]]
        if version != WITH_MODEL_DIGEST:
            model.append(seal(model)[0])
        return cls(model=b"".join(model), **rest)


def digest_of(pieces: Iterable[Piece]) -> bytes:
    """Return the SHA-256 of all pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Header(msgspec.Struct, forbid_unknown_fields=True):
    """What the JSON of a checkpoint holds; types are strict."""

    offsets: dict[Count, Count]
    topic: str
    identity: str | None
    events: Count
    created_at: str
    shaping: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    changes: KeptChanges = msgspec.field(default_factory=KeptChanges)
    topic_id: str | None = None
    model_hash: str = ""  # before version 2


HEADER_FIELDS = tuple(name for name in Header.__struct_fields__ if name != "model_hash")
HEADER_DECODER = msgspec.json.Decoder(Header)
MOST_LEVELS = 20


def _is_deep(value: object) -> bool:
    """Whether plain data has more levels than settings ever have."""
    level = [value]
    for _ in range(MOST_LEVELS):
        inside = [found for found in level if isinstance(found, list | dict)]
        level = [
            inner
            for found in inside
            for inner in (found.values() if isinstance(found, dict) else found)
        ]
        if not level:
            return False
    return True


def require_fit(
    checkpoint: Checkpoint, shaping: Mapping[str, Any], topic: str, defaults: Mapping[str, Any]
) -> None:
    """Raise CheckpointMismatch unless these settings shape the tree of the checkpoint.

    A setting that the checkpoint does not know yet had its default when it was made, so that a new
    version with more settings goes on with the checkpoints of an old one.
    """
    plain = json.loads(json.dumps([shaping, defaults]))
    now, before = _flat(plain[0]), _flat(plain[1]) | _flat(checkpoint.shaping)
    differing = [
        f"{name} is {now.get(name)!r:.100}, in the checkpoint {before.get(name)!r:.100}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if checkpoint.topic != topic:
        differing.append(f"the topic is '{topic}', in the checkpoint '{checkpoint.topic}'")
    if differing:
        raise CheckpointMismatch(
            f"the checkpoint was made with other settings: {'; '.join(differing)}. Expected the "
            "same; set them back, or name another LIVETREE_CHECKPOINT__FOLDER to start anew"
        )


class CheckpointFolder:
    """The checkpoints of one learner, and the lease that keeps a second one out."""

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self.folder = Path(folder)
        self.keep = keep
        self.unreadable = 0  # files passed over
        self._lock: BinaryIO | None = None

    def acquire(self) -> None:
        """Take the folder for this process; raises CheckpointLocked, CheckpointUnwritable."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("ab")
        except OSError as exc:
            raise CheckpointUnwritable(self._refused(exc)) from exc
        try:
            # The system drops the lock with the process, however that ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            lock.close()
            if not isinstance(exc, BlockingIOError):  # a file system without locks
                raise CheckpointUnwritable(self._refused(exc, "a lock")) from exc
            raise CheckpointLocked(
                f"checkpoint folder '{self.folder}' is in use by another learner; expected one "
                "at a time. Stop it, or name another LIVETREE_CHECKPOINT__FOLDER"
            ) from exc
        self._lock = lock
        for leftover in self.folder.glob("*.tmp"):
            self._remove(leftover)

    def release(self) -> None:
        """Let others use the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def files(self) -> list[Path]:
        """Return the checkpoint files, the newest first."""
        found = self.folder.glob(f"*{SUFFIX}")
        return sorted((path for path in found if path.stem.isdigit()), reverse=True)

    def load(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, None in an empty folder."""
        return self.restore(lambda checkpoint: checkpoint)

    def restore(self, build: Callable[[Checkpoint], T]) -> T | None:
        """Return what can be built from the newest checkpoint, None in an empty folder.

        One that is damaged, or whose model is, is passed over for the one before; one that
        another version of the program wrote is refused.
        """
        faults: list[str] = []
        files = self.files()
        for path in files:
            try:
                found = Checkpoint.from_bytes(path.read_bytes())
                built = build(found)
            except (CheckpointVersion, SnapshotVersion) as exc:
                raise CheckpointVersion(
                    f"checkpoint '{path}' was written by another version of this program: {exc}. "
                    "Start that version; or move the file away, and what was learned since the "
                    "checkpoint before is learned again from the log"
                ) from exc
            except (CheckpointUnreadable, SnapshotError, OSError) as exc:
                if not isinstance(exc, SnapshotError) and self.files() != files:
                    return self.restore(build)  # a learner at work dropped it for a newer one
                self.unreadable += 1
                faults.append(f"{path.name}: {exc}")
                log.error(
                    "checkpoint unreadable, trying the one before",
                    path=str(path),
                    reason=str(exc),
                )
                continue
            log.info("checkpoint loaded", path=str(path), events=found.events)
            return built
        if faults:
            raise CheckpointUnreadable(
                f"no checkpoint in '{self.folder}' can be read: {'; '.join(faults)}. Expected at "
                "least one; restore it, or move these files away to start anew"
            )
        return None

    def save(self, checkpoint: Checkpoint) -> int:
        """Write a checkpoint durably, drop the oldest; returns its size in bytes."""
        newest = self.files()[:1]
        number = int(newest[0].stem) + 1 if newest else 1
        path = self.folder / f"{number:012d}{SUFFIX}"
        temporary = path.with_suffix(".tmp")
        try:
            with suppress(FileNotFoundError):
                self._spare.rename(temporary)
            size = _write(temporary, checkpoint)
            temporary.rename(path)
            self._sync_folder()
        except OSError as exc:
            # After a failed sync the system may take the file for clean: it is written anew from
            # the first byte next time, never only synced again.
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise CheckpointUnwritable(self._refused(exc)) from exc
        self._drop_old()
        return size

    @property
    def _spare(self) -> Path:
        """The file that was dropped last: the next one is written over it.

        Its room on the disk need not be freed and found again, which takes a third of the time.
        """
        return self.folder / "spare"

    def _drop_old(self) -> None:
        old = self.files()[self.keep :]
        for path in old[1:]:
            self._remove(path)
        if old and old[0].is_file():
            self._make_spare(old[0])
        elif old:
            self._remove(old[0])

    def _make_spare(self, path: Path) -> None:
        try:
            path.replace(self._spare)
            # Before it is written over: a checkpoint must not come back with other content.
            self._sync_folder()
        except OSError as exc:
            log.warning("file not removed", path=str(path), reason=exc.strerror)

    def _remove(self, path: Path) -> None:
        """Remove what is not needed; that it stays costs room, not safety."""
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            log.warning("file not removed", path=str(path), reason=exc.strerror)

    def _sync_folder(self) -> None:
        """Without this the new name itself can be lost with the power."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _refused(self, exc: OSError, what: str = "a file") -> str:
        return (
            f"checkpoint folder '{self.folder}' refuses {what}: {exc.strerror}; expected a "
            "writable folder with room (LIVETREE_CHECKPOINT__FOLDER)"
        )


def _write(path: Path, checkpoint: Checkpoint) -> int:
    """Write the file, and sync it; returns its size in bytes."""
    written = Handover()
    with ThreadPoolExecutor(1) as beside, path.open("r+b" if path.exists() else "wb") as file:
        digest = beside.submit(digest_of, written)  # while the disk is busy
        written.fill(_written(file, checkpoint.pieces()))
        file.flush()
        os.fdatasync(file.fileno())
        file.write(digest.result())
        file.truncate()  # what is left of the one before
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _written(file: BinaryIO, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield pieces as they are written."""
    for piece in pieces:
        file.write(piece)
        yield piece


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and name != "declared":
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[above + name] = value
    return flat
