"""A published snapshot as one message: what is known of it, and its bytes.

    magic            8 bytes   b"LIVETSNP"
    format version   4 bytes   little endian
    header length    4 bytes
    header           JSON: model, publication, events, offsets, scores; blanks at its end
    snapshot         the learner's own bytes, from a multiple of 64 on, with their digest
    digest           32 bytes  SHA-256 of everything before the snapshot, and of its digest

So the header cannot be exchanged, and large bytes are digested once. A message comes from others:
nothing in it is believed before it was checked, and what is wrong is refused as a whole.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Annotated

import msgspec

from app.errors import (
    ForeignSnapshot,
    SnapshotDamaged,
    SnapshotFormat,
)
from app.history import Changes, KeptChanges
from app.serving import Published
from learner import Piece, SnapshotError, SnapshotReader, SnapshotVersion, pack_snapshot

MAGIC = b"LIVETSNP"
FORMAT_VERSION = 1
PREAMBLE = struct.Struct("<8sII")
DIGEST_BYTES = 32
ALIGNMENT = 64
LONGEST_HEADER = 1 << 24
MOST_CHANGES = 100

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Share = Annotated[float, msgspec.Meta(ge=-1, le=1)] | None


class About(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a replica knows of a snapshot besides the tree; types are strict."""

    model: str
    publication: str  # a name that is never used twice
    snapshot: str  # its id
    events: Count
    published_at: Seconds  # since 1970, by the learner's clock
    offsets: dict[str, Count] = {}
    accuracy: Share = None
    kappa: Share = None
    window_accuracy: Share = None
    window_kappa: Share = None
    window_events: Count | None = None
    nodes: Count = 0
    leaves: Count = 0
    depth: Count = 0
    changes: KeptChanges = msgspec.field(default_factory=KeptChanges)  # of the tree, the newest


DECODER = msgspec.json.Decoder(About)


def about(published: Published, model: str, publication: str) -> About:
    """Return what goes with a snapshot."""
    snapshot, shape = published.snapshot, published.snapshot.shape
    return About(
        model=model,
        publication=publication,
        snapshot=snapshot.id,
        events=snapshot.events,
        published_at=published.published_at,
        offsets=dict(published.offsets),
        accuracy=published.accuracy,
        kappa=published.kappa,
        window_accuracy=published.window_accuracy,
        window_kappa=published.window_kappa,
        window_events=published.window_events,
        nodes=shape.nodes,
        leaves=shape.leaves,
        depth=shape.depth,
        changes=_newest(published.changes),
    )


def _newest(changes: Changes) -> KeptChanges:
    """Return as many changes as travel: the record of a learner may be longer than its tree."""
    newest = changes._replace(kept=changes.kept[-MOST_CHANGES:]).to_dict()
    return msgspec.convert(msgspec.to_builtins(newest), KeptChanges)


def message_pieces(published: Published, header: About) -> list[Piece]:
    """Return the message, not joined yet."""
    text = msgspec.json.encode(header)
    text += b" " * (-(PREAMBLE.size + len(text)) % ALIGNMENT)
    head = PREAMBLE.pack(MAGIC, FORMAT_VERSION, len(text)) + text
    body = pack_snapshot(published.snapshot)
    return [head, *body, _digest(head, body[-1])]


def _digest(head: Piece, of_snapshot: Piece) -> bytes:
    return hashlib.sha256(bytes(head) + bytes(of_snapshot)).digest()


class MessageReader:
    """Reads messages of one model, one after the other; used by one thread."""

    def __init__(self, model: str, *, trusted: bool = False) -> None:
        self._model, self._trusted = model, trusted
        self._reader = SnapshotReader()

    def read(self, message: memoryview) -> Published:
        """Return what a message holds, whose bytes must never change; raises SnapshotRefused."""
        header, end = self._header(message)
        if header.model != self._model:
            raise ForeignSnapshot(
                f"the snapshot is of the model '{header.model:.64}'; expected '{self._model}'"
            )
        try:
            snapshot = self._reader.read(message[end:-DIGEST_BYTES], trusted=self._trusted)
        except SnapshotVersion as exc:
            raise SnapshotFormat(str(exc)) from exc
        except SnapshotError as exc:
            raise SnapshotDamaged(str(exc)) from exc
        if (snapshot.id, snapshot.events) != (header.snapshot, header.events):
            raise SnapshotDamaged(
                f"the snapshot is '{snapshot.id}', in its header '{header.snapshot:.80}'; "
                "expected the same"
            )
        return Published(
            snapshot,
            header.published_at,
            header.offsets,
            header.accuracy,
            header.kappa,
            header.window_accuracy,
            header.window_kappa,
            changes=header.changes.changes(),
            window_events=header.window_events,
        )

    def _header(self, message: memoryview) -> tuple[About, int]:
        """Return the header and where the snapshot begins."""
        if len(message) < PREAMBLE.size + 2 * DIGEST_BYTES or message[: len(MAGIC)] != MAGIC:
            raise SnapshotDamaged("it is not a snapshot, or was cut off")
        _, version, length = PREAMBLE.unpack_from(message)
        if version != FORMAT_VERSION:
            raise SnapshotFormat(
                f"the format version of the snapshot is {version}; expected {FORMAT_VERSION}"
            )
        end = PREAMBLE.size + length
        if length > LONGEST_HEADER or end + 2 * DIGEST_BYTES > len(message):
            raise SnapshotDamaged(f"its header is {length} bytes long; expected it to fit")
        told, inner = message[-DIGEST_BYTES:], message[-2 * DIGEST_BYTES : -DIGEST_BYTES]
        if _digest(message[:end], inner) != told:
            raise SnapshotDamaged("its checksum does not fit: it is damaged")
        try:
            return DECODER.decode(message[PREAMBLE.size : end]), end
        except (ValueError, RecursionError) as exc:
            raise SnapshotDamaged(f"its header cannot be read: {exc}") from exc
