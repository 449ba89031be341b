"""The loop: what it does with records, when it publishes, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from app.checkpoint import Checkpoint, CheckpointFolder
from app.consumer import Consumer
from app.deadletter import NoDeadLetters, Reason, patiently
from app.errors import (
    CheckpointUnwritable,
    DeadLetterLost,
    RegistryRefused,
    RegistryUnreachable,
    SourceError,
    Unexpected,
)
from app.format import JsonFormat
from app.metrics import Metrics
from app.serving import Serving
from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Record, Start
from app.training import Training, new_tree
from tests.app.conftest import FEATURES, events

Make = Callable[..., Settings]


class Script:
    """A source that plays batches, then sets `done`; an exception in the script is raised.

    A number in the script is so many offsets that no record has.
    """

    topic = "t"
    resets = 0
    connected = True
    topic_id: str | None = "topic-1"

    def __init__(self, batches: Iterable[Sequence[bytes | None] | int | Exception]) -> None:
        self.batches = list(batches)
        self.done = threading.Event()
        self.started_at: Start | None = None
        self.committed: list[dict[int, int]] = []
        self.closed = False
        self.position = 0

    def open(self, start: Start) -> None:
        self.started_at = start
        self.position = start.offsets.get(0, 0)

    def poll(self, limit: int) -> list[Record]:
        if not self.batches:
            self.done.set()
            return []
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        if isinstance(batch, int):
            self.position += batch
            return []
        assert len(batch) <= limit
        first = self.position
        self.position += len(batch)
        return [Record("t", 0, first + i, None, value) for i, value in enumerate(batch)]

    def positions(self) -> dict[int, int]:
        return {0: self.position}

    def identity(self) -> str | None:
        return "script"

    def lag(self) -> dict[int, int]:
        return {0: 0}

    def commit(self, offsets: Mapping[int, int]) -> None:
        self.committed.append(dict(offsets))

    def close(self) -> None:
        self.closed = True


class Letters:
    """Dead letters in a list; `flush` can be told to fail."""

    def __init__(self, fails: bool = False) -> None:
        self.sent: list[tuple[Record, Reason]] = []
        self.flushed = 0
        self.fails = fails

    def send(self, record: Record, reason: Reason) -> None:
        self.sent.append((record, reason))

    def flush(self, may_wait: Callable[[], bool] = patiently) -> None:
        assert may_wait()
        if self.fails:
            raise DeadLetterLost("not delivered")
        self.flushed = len(self.sent)

    def close(self) -> None:
        """Nothing to close."""


class Setup:
    """A consumer with everything round it."""

    def __init__(self, settings: Settings, source: Script, letters: Any = None) -> None:
        self.settings, self.source = settings, source
        self.letters = letters or Letters()
        self.serving, self.metrics = Serving(), Metrics()
        self.folder = CheckpointFolder(settings.checkpoint.folder, settings.checkpoint.keep)
        self.folder.acquire()
        self.consumer = Consumer(
            settings, source, self.letters, self.serving, self.metrics, self.folder
        )
        self.failed = threading.Event()
        self.consumer.on_failure = self.failed.set

    def run(self) -> None:
        """Play the script to its end, then stop."""
        schema = declared_schema(self.settings.schema_)
        tree = new_tree(self.settings, schema) if schema else None
        self.consumer.start(Training(self.settings, tree), Start())
        while not self.source.done.wait(0.01) and self.consumer.running:
            pass
        assert self.consumer.stop(60)
        self.folder.release()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def settings(make_settings: Make) -> Settings:
    return make_settings(schema={"features": FEATURES}, tree={"n_min": 50})


def test_records_are_learned_published_and_checkpointed(settings: Settings) -> None:
    source = Script([events(400), events(300, seed=2)])
    setup = Setup(settings, source)

    setup.run()

    published, kept = setup.serving.current(), setup.folder.load()
    assert setup.consumer.failure is None
    assert published is not None
    assert published.snapshot.events == 700
    assert published.offsets == {"t-0": 700}
    assert published.accuracy is not None
    assert kept is not None
    assert (kept.events, kept.offsets) == (700, {0: 700})
    assert (kept.identity, kept.topic_id) == ("script", "topic-1")
    assert source.committed == [{0: 700}]
    assert source.closed
    assert setup.value("livetree_events_learned_total", model="livetree") == 700
    assert setup.value("livetree_events_consumed_total", topic="t") == 700
    assert setup.value("livetree_checkpoints_total", outcome="written") == 1


def test_rejected_records_count_as_consumed_and_are_put_aside(settings: Settings) -> None:
    setup = Setup(settings, Script([[*events(10), b"broken", None], [b'{"label": null}']]))

    setup.run()

    kept = setup.folder.load()
    assert kept is not None
    assert (kept.events, kept.offsets) == (10, {0: 13})
    assert [(r.offset, why.label) for r, why in setup.letters.sent] == [
        (10, "not_json"),
        (12, "bad_label"),
    ]
    assert setup.letters.flushed == 2
    assert setup.value("livetree_events_rejected_total", reason="not_json") == 1
    assert setup.value("livetree_dead_letters_total", reason="bad_label") == 1
    assert setup.value("livetree_tombstones_skipped_total") == 1


def test_without_dead_letters_rejected_records_are_only_counted(settings: Settings) -> None:
    setup = Setup(settings, Script([[b"broken"]]), NoDeadLetters())

    setup.run()

    assert setup.value("livetree_events_rejected_total", reason="not_json") == 1
    assert setup.value("livetree_dead_letters_total", reason="not_json") == 0


def test_no_checkpoint_passes_a_dead_letter_that_is_not_safe(settings: Settings) -> None:
    setup = Setup(settings, Script([[*events(10), b"broken"]]), Letters(fails=True))

    setup.run()

    assert isinstance(setup.consumer.failure, DeadLetterLost)
    assert setup.folder.load() is None
    assert setup.source.committed == []


def test_checkpoints_come_by_the_number_of_events_too(make_settings: Make) -> None:
    settings = make_settings(
        schema={"features": FEATURES}, checkpoint={"every_events": 100, "keep": 100}
    )
    source = Script([events(100, seed) for seed in range(5)])
    setup = Setup(settings, source)

    setup.run()

    assert source.committed == [{0: n} for n in (100, 200, 300, 400, 500)]
    assert len(setup.folder.files()) == 5


class Slow:
    """A folder whose `save` waits until it may go on."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.saved: list[Checkpoint] = []
        self._save = folder.save

    def save(self, checkpoint: Checkpoint) -> int:
        self.begun.set()
        assert self.may_end.wait(60)
        self.saved.append(checkpoint)
        return self._save(checkpoint)


@pytest.fixture
def slow(make_settings: Make, monkeypatch: pytest.MonkeyPatch) -> tuple[Setup, Slow]:
    settings = make_settings(schema={"features": FEATURES}, checkpoint={"every_seconds": 0.001})
    setup = Setup(settings, Script([events(100, seed) for seed in range(5)]))
    slow = Slow(setup.folder)
    monkeypatch.setattr(setup.folder, "save", slow.save)
    return setup, slow


def test_learning_goes_on_while_a_checkpoint_is_written(slow: tuple[Setup, Slow]) -> None:
    setup, disk = slow
    starting(setup, JsonFormat(1_000_000))
    assert disk.begun.wait(60)
    assert setup.source.done.wait(60)
    assert setup.value("livetree_events_learned_total", model="livetree") == 500
    assert setup.source.committed == []

    disk.may_end.set()
    assert setup.consumer.stop(60)
    setup.folder.release()

    # The first is of the moment it was begun, model and offsets; the second of all that came.
    first, *_, last = disk.saved
    assert first.offsets == {0: first.events}
    assert first.events < 500
    assert setup.source.committed == [dict(saved.offsets) for saved in disk.saved]
    kept, tree = setup.folder.load(), setup.consumer.training.tree
    assert kept is not None
    assert tree is not None
    assert (kept.events, kept.offsets, last.events) == (500, {0: 500}, 500)
    assert kept.model_hash == tree.hash()


def test_the_end_waits_for_a_checkpoint_that_is_being_written(slow: tuple[Setup, Slow]) -> None:
    setup, disk = slow
    starting(setup, JsonFormat(1_000_000))
    assert setup.source.done.wait(60)

    assert not setup.consumer.stop(0.2)
    disk.may_end.set()

    assert setup.consumer.stop(60)
    assert setup.source.committed[-1] == {0: 500}
    setup.folder.release()


def test_a_loop_that_fails_lets_a_checkpoint_be_written_to_its_end(
    slow: tuple[Setup, Slow],
) -> None:
    setup, disk = slow
    setup.source.batches.append(SourceError("gone"))
    starting(setup, JsonFormat(1_000_000))
    assert setup.failed.wait(60)
    assert setup.consumer.running

    disk.may_end.set()
    assert setup.consumer.stop(60)
    setup.folder.release()

    kept = setup.folder.load()
    assert kept is not None
    assert kept.offsets == disk.saved[0].offsets


def test_an_error_that_nobody_expects_while_writing_ends_the_loop(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(settings, Script([events(10)]))

    def fail(*_: object) -> int:
        raise KeyError("bug")

    monkeypatch.setattr(setup.folder, "save", fail)
    setup.run()

    assert isinstance(setup.consumer.failure, Unexpected)


def test_offsets_that_no_record_has_reach_a_checkpoint(make_settings: Make) -> None:
    settings = make_settings(schema={"features": FEATURES}, checkpoint={"every_events": 10})
    source = Script([5, events(10), 7])
    setup = Setup(settings, source)

    setup.run()

    assert source.committed == [{0: 15}, {0: 22}]


def test_offsets_before_the_first_event_are_not_kept(settings: Settings) -> None:
    setup = Setup(settings, Script([5]))

    setup.run()

    assert setup.folder.load() is None


def test_a_checkpoint_that_failed_is_written_at_the_end_without_new_events(
    make_settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(schema={"features": FEATURES}, checkpoint={"every_events": 10})
    setup = Setup(settings, Script([events(10)]))
    save, full = setup.folder.save, [True]

    def save_later(checkpoint: Checkpoint) -> int:
        if full:
            full.clear()
            raise CheckpointUnwritable("disk full")
        return save(checkpoint)

    monkeypatch.setattr(setup.folder, "save", save_later)
    setup.run()

    assert setup.consumer.failure is None
    assert setup.value("livetree_checkpoints_total", outcome="failed") == 1
    assert setup.source.committed == [{0: 10}]


def test_snapshots_come_by_the_number_of_events_too(make_settings: Make) -> None:
    settings = make_settings(
        schema={"features": FEATURES}, publish={"every_seconds": 3600, "every_events": 100}
    )
    setup = Setup(settings, Script([events(100, seed) for seed in range(5)]))

    setup.run()

    # One for each hundred, and the last one at the end.
    assert setup.value("livetree_snapshots_published_total", model="livetree") == 6


def test_nothing_is_published_before_the_first_event(settings: Settings) -> None:
    setup = Setup(settings, Script([]))

    setup.run()

    assert setup.serving.current() is None
    assert setup.folder.load() is None


def test_events_that_wait_for_the_schema_are_read_again_after_a_restart(
    make_settings: Make,
) -> None:
    setup = Setup(make_settings(), Script([events(100)]))

    setup.run()

    assert setup.consumer.failure is None
    assert setup.folder.load() is None
    assert setup.source.committed == []


@pytest.mark.parametrize(
    ("fault", "expected"), [(SourceError("gone"), SourceError), (KeyError("bug"), Unexpected)]
)
def test_a_loop_that_dies_says_so_and_calls_for_the_end(
    settings: Settings, fault: Exception, expected: type[Exception]
) -> None:
    setup = Setup(settings, Script([events(10), fault, events(10)]))

    setup.run()

    assert setup.failed.is_set()
    assert isinstance(setup.consumer.failure, expected)
    assert not setup.consumer.running
    assert setup.source.closed


def test_a_disk_that_refuses_does_not_stop_learning_but_a_clean_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(settings, Script([events(10)]))

    def refuse(*_: object) -> int:
        raise CheckpointUnwritable("disk full")

    monkeypatch.setattr(setup.folder, "save", refuse)
    setup.run()

    assert isinstance(setup.consumer.failure, CheckpointUnwritable)
    assert setup.value("livetree_events_learned_total", model="livetree") == 10
    assert setup.value("livetree_checkpoints_total", outcome="failed") == 1
    assert setup.source.committed == []


class Away(JsonFormat):
    """A form whose schemas cannot be had until it is told otherwise."""

    def __init__(self, error: Exception) -> None:
        super().__init__(1_000_000)
        self.error: Exception | None = error
        self.tried = threading.Event()

    def prepare(self, values: Sequence[bytes | None]) -> None:
        if len(values) == 7 and self.error is not None:  # the second batch of the tests below
            self.tried.set()
            raise self.error


def starting(setup: Setup, form: JsonFormat) -> None:
    schema = declared_schema(setup.settings.schema_)
    assert schema is not None
    setup.consumer.start(
        Training(setup.settings, new_tree(setup.settings, schema), form=form), Start()
    )


def test_events_wait_for_the_registry_and_none_is_passed_over(make_settings: Make) -> None:
    source = Script([events(5), events(7), events(3)])
    setup = Setup(make_settings(schema={"features": FEATURES}), source)
    form = Away(RegistryUnreachable("schema registry http://r: gone", 0.01))
    starting(setup, form)
    assert form.tried.wait(60)
    assert setup.consumer.running
    assert setup.consumer.waiting_for() == "waiting for the schema registry"
    assert not source.done.is_set()

    form.error = None
    assert source.done.wait(60)
    assert setup.consumer.stop(60)
    setup.folder.release()

    checkpoint = setup.folder.load()
    assert checkpoint is not None
    assert (checkpoint.events, dict(checkpoint.offsets)) == (15, {0: 15})
    assert setup.letters.sent == []
    assert setup.consumer.waiting_for() == ""


def test_a_checkpoint_ends_before_the_events_that_wait(make_settings: Make) -> None:
    setup = Setup(make_settings(schema={"features": FEATURES}), Script([events(5), events(7)]))
    form = Away(RegistryUnreachable("gone", 60.0))
    starting(setup, form)
    assert form.tried.wait(60)

    assert setup.consumer.stop(60)  # also in the middle of a long pause
    setup.folder.release()

    checkpoint = setup.folder.load()
    assert checkpoint is not None
    assert (checkpoint.events, dict(checkpoint.offsets)) == (5, {0: 5})
    assert setup.consumer.failure is None


def test_a_registry_that_refuses_ends_the_loop(make_settings: Make) -> None:
    setup = Setup(make_settings(schema={"features": FEATURES}), Script([events(5), events(7)]))
    starting(setup, Away(RegistryRefused("401")))

    assert setup.failed.wait(60)

    assert isinstance(setup.consumer.failure, RegistryRefused)
    assert setup.letters.sent == []
    assert setup.consumer.stop(60)
    setup.folder.release()
