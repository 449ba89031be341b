"""The whole service: learn, put aside, stop, go on; on the broker in memory and on Kafka."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from app import wiring
from app.checkpoint import CheckpointFolder
from app.errors import (
    CheckpointLocked,
    CheckpointMismatch,
    CheckpointUnreadable,
    OffsetOutOfRange,
    policy_of,
)
from tests.app.conftest import FEATURES, events
from tests.brokers import Broker
from tests.service import Make, learn_to, model_of, settings_for, wait


def test_a_run_with_a_restart_learns_what_a_run_without_one_learns(
    make_settings: Make, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    poison = b'{"age": "abc", "label": "old"}'
    first, second = [*events(700), poison, None], [*events(500, seed=2), b"\xff", poison]
    settings = settings_for(make_settings, broker, topic)

    broker.send(topic, *first)
    learn_to(wiring.build(settings), 702)
    broker.send(topic, *second)
    resumed = wiring.build(settings)
    learn_to(resumed, 1204)

    straight = settings_for(
        make_settings, broker, topic, checkpoint={"folder": tmp_path / "straight"}
    )
    whole = wiring.build(straight)
    learn_to(whole, 1204)

    assert model_of(settings.checkpoint.folder) == model_of(straight.checkpoint.folder)
    one, other = resumed.serving.current(), whole.serving.current()
    assert one is not None
    assert other is not None
    assert one.snapshot.events == 1200
    assert (one.accuracy, one.kappa, one.window_accuracy, one.window_kappa) == (
        other.accuracy,
        other.kappa,
        other.window_accuracy,
        other.window_kappa,
    )
    assert [entry.change for entry in one.changes.kept] == [e.change for e in other.changes.kept]
    assert one.changes.total == other.changes.total > 0
    assert broker.committed(topic, "livetree") == 1204


def test_poison_arrives_at_the_dead_letters_with_bytes_and_headers_intact(
    make_settings: Make, broker: Broker
) -> None:
    topic = broker.topic()
    settings = settings_for(make_settings, broker, topic)
    broker.send(topic, *events(20))
    broker.send(topic, b"\xff\x00", key=b"k", headers=[("trace", b"\x01")], timestamp=1_700_000)
    broker.send(topic, b'{"age": "abc", "label": 1}')

    learn_to(wiring.build(settings), 22)

    one, two = broker.read(f"{topic}.dlq", 2)
    said = dict(one.headers() or [])
    assert (one.key(), one.value()) == (b"k", b"\xff\x00")
    assert said["__livetree.errors.record_timestamp"] == b"1700000"
    assert said["trace"] == b"\x01"
    assert said["__livetree.errors.offset"] == b"20"
    assert dict(two.headers() or [])["__livetree.errors.message"] == (
        b"feature 'age' is 'abc'; expected a number"
    )


def test_ready_means_that_a_snapshot_is_there(make_settings: Make, broker: Broker) -> None:
    topic = broker.topic()
    service = wiring.build(settings_for(make_settings, broker, topic, schema={"infer_from": 10}))
    assert service.ready() == (False, "starting")
    assert service.alive()

    service.start()
    broker.send(topic, *events(4))
    wait(lambda: "4 of 10" in service.ready()[1], service)
    broker.send(topic, *events(40))
    wait(lambda: service.ready()[0], service)
    assert service.alive()
    service.begin_shutdown()

    assert service.ready() == (False, "shutting down")
    service.stop()


def test_a_restart_is_ready_before_any_new_event(make_settings: Make, broker: Broker) -> None:
    topic = broker.topic()
    settings = settings_for(make_settings, broker, topic)
    broker.send(topic, *events(50))
    learn_to(wiring.build(settings), 50)

    service = wiring.build(settings)
    service.start()
    wait(lambda: service.ready()[0], service)
    published = service.serving.current()
    service.stop()

    assert published is not None
    assert published.snapshot.events == 50


def test_a_lost_offset_ends_the_service_with_exit_code_4(
    make_settings: Make, broker: Broker
) -> None:
    topic = broker.topic()
    settings = settings_for(make_settings, broker, topic)
    broker.send(topic, *events(50))
    learn_to(wiring.build(settings), 50)
    folder = CheckpointFolder(settings.checkpoint.folder)
    kept = folder.load()
    assert kept is not None
    folder.save(dataclasses.replace(kept, offsets={0: 5000}))

    service = wiring.build(settings)
    service.start()
    while service.consumer.running:
        time.sleep(0.01)

    assert isinstance(service.failure, OffsetOutOfRange)
    assert policy_of(service.failure).exit_code == 4
    assert not service.alive()
    assert not service.ready()[0]
    service.stop()


def test_a_checkpoint_of_another_tree_is_refused(make_settings: Make, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *events(50))
    learn_to(wiring.build(settings_for(make_settings, broker, topic)), 50)

    service = wiring.build(settings_for(make_settings, broker, topic, tree={"n_min": 60}))

    with pytest.raises(CheckpointMismatch, match=r"tree\.n_min is 60\.0, in the checkpoint 50\.0"):
        service.start()
    service.stop()


def test_a_damaged_newest_checkpoint_costs_only_the_events_since_the_one_before(
    make_settings: Make, broker: Broker
) -> None:
    topic = broker.topic()
    settings = settings_for(make_settings, broker, topic)
    broker.send(topic, *events(300))
    learn_to(wiring.build(settings), 300)
    broker.send(topic, *events(300, seed=2))
    learn_to(wiring.build(settings), 600)
    folder = CheckpointFolder(settings.checkpoint.folder)
    before = model_of(settings.checkpoint.folder)

    folder.files()[0].write_bytes(folder.files()[0].read_bytes()[:-1])
    learn_to(wiring.build(settings), 600)

    assert model_of(settings.checkpoint.folder) == before


def test_checkpoints_that_are_all_damaged_stop_the_start(make_settings: Make) -> None:
    settings = make_settings()
    settings.checkpoint.folder.mkdir()
    (settings.checkpoint.folder / "000000000001.checkpoint").write_bytes(b"broken")
    service = wiring.build(settings)

    with pytest.raises(CheckpointUnreadable):
        service.start()
    service.stop()


def test_two_learners_cannot_share_a_folder(make_settings: Make, broker: Broker) -> None:
    settings = settings_for(make_settings, broker, broker.topic())
    first, second = wiring.build(settings), wiring.build(settings)
    first.start()

    with pytest.raises(CheckpointLocked):
        second.start()

    second.stop()
    first.stop()


def test_a_file_is_learned_and_continued(make_settings: Make, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join([*events(100), b"broken", b""]))
    settings = make_settings(
        source="file",
        file={"path": path, "poll_timeout_seconds": 0.01},
        schema={"features": FEATURES},
    )
    learn_to(wiring.build(settings), path.stat().st_size)
    with path.open("ab") as file:
        file.write(b"\n".join([*events(50, seed=2), b""]))

    service = wiring.build(settings)
    learn_to(service, path.stat().st_size)

    published = service.serving.current()
    assert published is not None
    assert published.snapshot.events == 150
    assert len((tmp_path / "events.jsonl.dlq").read_text().splitlines()) == 1


def test_without_checkpoints_nothing_touches_the_disk(
    make_settings: Make, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    broker.send(topic, *events(50))
    settings = settings_for(make_settings, broker, topic, checkpoint={"enabled": False})

    learn_to(wiring.build(settings), 50)

    assert list(tmp_path.iterdir()) == []


def test_a_schema_file_is_read_at_start_only(
    make_settings: Make, broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"features": FEATURES, "classes": ["young", "old"]}))
    topic = broker.topic()
    broker.send(topic, *events(50))
    service = wiring.build(settings_for(make_settings, broker, topic, schema={"file": file}))

    service.start()
    file.unlink()
    wait(lambda: service.consumer.source.positions() == {0: 50}, service)
    service.stop()

    assert service.failure is None
    published = service.serving.current()
    assert published is not None
    assert published.snapshot.classes == ("young", "old")


def test_settings_are_logged_at_start_with_secrets_masked(
    make_settings: Make, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    from app import log

    settings = settings_for(make_settings, broker, broker.topic(), kafka={"password": "hush-hush"})
    log.configure("info", "json")
    service = wiring.build(settings)
    service.start()
    service.stop()

    said = capsys.readouterr().out
    assert '"event": "starting"' in said
    assert "hush-hush" not in said
