"""Dead letters sent back to where they came from, each record once.

First everything is read and judged: what the filter leaves out, what was redriven before, what is
the same record put aside twice, and what would be rejected again with the settings as they are now.
Then the same letters are read again and sent in batches; each batch is confirmed, then noted. A
crash between the two sends at most that one batch a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.checkpoint import CheckpointFolder, require_fit
from app.errors import CheckpointMismatch, SourceError
from app.letter import REDRIVEN, Letter, LetterFilter, Place
from app.letterbox import BATCH, Letterbox, append_durably
from app.sender import BY_KEY, Sender
from app.settings import Settings
from app.settings_file import declared_schema
from app.training import Training, new_tree
from learner import StreamingTree

BATCH_BYTES = 50_000_000  # a letter may be one that was too large

Progress = Callable[[int], None]


@dataclass
class Plan:
    """What a redrive would do."""

    found: int = 0  # letters that the filter admits
    copies: int = 0  # of a record that was put aside more than once
    redriven: int = 0  # sent back before
    foreign: int = 0  # not ours: nobody knows where they belong
    rejected: Counter[str] = field(default_factory=Counter)  # would be rejected again, by reason
    messages: dict[str, str] = field(default_factory=dict)  # an example for each reason
    loops: int = 0  # of those to send: were sent back before they were put aside
    sending: set[tuple[int, int]] = field(default_factory=set)  # places of letters
    topics: Counter[str] = field(default_factory=Counter)  # where they go


class Target(Protocol):
    """Where letters are sent back to."""

    def send(self, letter: Letter) -> None:
        """Take over a letter."""

    def flush(self) -> None:
        """Return when everything sent is durable."""

    def close(self) -> None:
        """Let go of everything."""


class TopicTarget:
    """The original topic and partition; another topic's partitions are chosen by the key."""

    def __init__(self, settings: Settings, to_topic: str | None) -> None:
        self._to_topic = to_topic
        self._sender = Sender(settings.kafka, settings.dead_letter.timeout_seconds, self._lost)

    def send(self, letter: Letter) -> None:
        """Send key, value, timestamp and headers as they were, and how often that happened."""
        record = letter.record
        headers = [(name, value) for name, value in record.headers or [] if name != REDRIVEN]
        headers.append((REDRIVEN, str(letter.redriven + 1).encode()))
        self._sender.send(
            self._to_topic or record.topic,
            record.value,
            record.key,
            headers,
            record.timestamp_ms,
            BY_KEY if self._to_topic else record.partition,
        )

    def flush(self) -> None:
        """Wait for the broker."""
        self._sender.flush()

    def close(self) -> None:
        """Let go of the broker."""
        self._sender.close()

    def _lost(self, why: str) -> SourceError:
        return SourceError(
            f"records could not be sent back: {why}; expected the topic to exist and to take "
            f"them. Of the last {BATCH} records some may have arrived: they would be sent again"
        )


class FileTarget:
    """The file itself, at its end; a batch of lines is written in one piece."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[bytes] = []

    def send(self, letter: Letter) -> None:
        """Keep a line for the next flush."""
        self._lines.append((letter.record.value or b"") + b"\n")

    def flush(self) -> None:
        """Append the lines, unless another program is in the middle of one."""
        if not self._lines:
            return
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - 1))
                complete = file.read() in (b"\n", b"")
        except FileNotFoundError:
            complete = True
        except OSError as exc:
            raise SourceError(f"file '{self.path}' cannot be read: {exc.strerror}") from exc
        if not complete:
            raise SourceError(
                f"file '{self.path}' does not end with a line end: a program may be in the middle "
                "of a line; expected a whole last line. Try again, or add the line end"
            )
        append_durably(self.path, b"".join(self._lines))
        self._lines = []

    def close(self) -> None:
        """Do nothing: a batch that was not flushed was not sent."""


def open_target(settings: Settings, to_topic: str | None) -> Target:
    """Return where letters of these settings go back to."""
    if settings.source == "file":
        assert settings.file.path is not None  # the letterbox was opened
        return FileTarget(settings.file.path)
    return TopicTarget(settings, to_topic)


def judge_of(settings: Settings) -> Training:
    """Return what tells whether a record can be learned now: by the learner's model, if any.

    The schema is the newest checkpoint's, else the declared one; without either only what every
    event must be is checked.
    """
    folder = settings.checkpoint
    checkpoint = CheckpointFolder(folder.folder).load() if folder.enabled else None
    if checkpoint is not None:
        before = settings.shaping_before(checkpoint.shaping)
        with suppress(CheckpointMismatch):  # a learner of these settings would start without it
            require_fit(checkpoint, settings.tree_shaping(), checkpoint.topic, before)
            return Training(settings, StreamingTree.from_bytes(checkpoint.model))
    schema = declared_schema(settings.schema_)
    return Training(settings, new_tree(settings, schema) if schema is not None else None)


def plan_redrive(
    box: Letterbox,
    wanted: LetterFilter,
    judge: Training | None,
    *,
    again: bool = False,
    to_topic: str | None = None,
    progress: Progress = lambda _done: None,
) -> Plan:
    """Read and judge all letters; without a judge nothing is held to be rejected again."""
    plan = Plan()
    chosen: dict[Place, Letter] = {}  # without the bytes
    places: dict[Place, set[tuple[int, int]]] = {}
    faults: dict[Place, tuple[str, str]] = {}
    for letters in box.read():
        admitted = [letter for letter in letters if wanted.admits(letter)]
        ours = [letter for letter in admitted if letter.ours]
        plan.found += len(admitted)
        plan.foreign += len(admitted) - len(ours)
        for letter in ours:
            places.setdefault(letter.original, set()).add((letter.partition, letter.offset))
        new = [letter for letter in ours if letter.original not in chosen]
        for aside in judge.check([letter.record for letter in new]) if judge else ():
            faults[Place(*aside.record[:3])] = (aside.reason.label, str(aside.reason.error))
        for letter in new:
            chosen.setdefault(letter.original, _light(letter))
        progress(box.done)
    for original, letter in chosen.items():
        plan.copies += len(places[original]) - 1
        if not again and places[original] & box.redriven:
            plan.redriven += 1
        elif original in faults:
            reason, message = faults[original]
            plan.rejected[reason] += 1
            plan.messages.setdefault(reason, message)
        else:
            plan.sending.add((letter.partition, letter.offset))
            plan.topics[to_topic or original.topic] += 1
            plan.loops += letter.redriven > 0
    return plan


def _light(letter: Letter) -> Letter:
    headers = [(name, value) for name, value in letter.record.headers or [] if name == REDRIVEN]
    record = letter.record._replace(key=None, value=None, headers=headers)
    return letter._replace(record=record, message="")


def redrive(
    box: Letterbox,
    target: Target,
    plan: Plan,
    target_name: str,
    progress: Progress = lambda _done: None,
) -> int:
    """Send what was planned; returns how many records that were."""
    sent = 0
    for batch in _batches(box, plan.sending):
        for letter in batch:
            target.send(letter)
        target.flush()
        box.note(batch, target_name)
        sent += len(batch)
        progress(sent)
    return sent


def _batches(box: Letterbox, places: set[tuple[int, int]]) -> Iterator[Sequence[Letter]]:
    batch: list[Letter] = []
    size = 0
    for letters in box.read():
        for letter in letters:
            if (letter.partition, letter.offset) in places:
                batch.append(letter)
                size += len(letter.record.value or b"")
                if len(batch) == BATCH or size >= BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
    if batch:
        yield batch
