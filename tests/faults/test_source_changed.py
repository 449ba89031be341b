"""The log is no longer the one that was learned from: it was cut, created anew, or is another's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from structlog.testing import capture_logs

from app import wiring
from app.checkpoint import CheckpointFolder
from app.errors import AppError, SourceChanged, policy_of
from app.settings import Settings
from app.wiring import Service
from learner import LearnerError
from tests.app.conftest import events
from tests.app.test_wiring import learn_to
from tests.faults.conftest import given, settings_on
from tests.faults.served import Served, wait
from tests.kafka.broker import Kafka

REFRESH = {"partition_refresh_seconds": 1}


def failure_of(service: Service) -> AppError | LearnerError:
    """Return what ends a service that was started."""
    found: AppError | LearnerError = wait(lambda: service.failure)
    service.stop()
    return found


def started(settings: Settings) -> Service:
    service = wiring.build(settings)
    service.start()
    return service


def learned(service: Service) -> int:
    published = service.serving.current()
    return published.snapshot.events if published is not None else 0


def position(service: Service) -> int:
    return service.consumer.source.positions().get(0, 0)


def entries_of(entries: list[Any], event: str) -> list[Any]:
    return [entry for entry in entries if entry["event"] == event]


def kept_offsets(folder: Path) -> dict[int, int]:
    found = CheckpointFolder(folder).load()
    assert found is not None
    return dict(found.offsets)


@pytest.fixture
def overtaken(kafka: Kafka, tmp_path: Path) -> str:
    """Return a topic that holds 450 to 600, beside a checkpoint that stands at 300."""
    topic = kafka.topic()
    kafka.send(topic, *events(300))
    learn_to(wiring.build(settings_on(kafka, topic, tmp_path / "checkpoints")), 300)
    kafka.send(topic, *events(300, seed=2))
    for future in kafka.admin.delete_records([TopicPartition(topic, 0, 450)]).values():
        future.result(30)
    return topic


def test_retention_that_overtook_the_checkpoint_ends_the_process_with_all_the_numbers(
    kafka: Kafka, overtaken: str, serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(given(kafka, overtaken, tmp_path / "checkpoints"))

    assert served.ended() == 4, served.log
    (end,) = served.said("the learner failed")
    assert end["kind"] == "OffsetOutOfRange"
    assert (
        f"topic '{overtaken}' partition 0: the next offset to learn is 300, the broker holds 450 "
        "to 600: up to 150 events were lost" in end["error"]
    )
    assert "LIVETREE_KAFKA__OFFSET_RESET" in end["error"]
    assert kept_offsets(tmp_path / "checkpoints") == {0: 300}


@pytest.mark.parametrize(("policy", "jump", "lost"), [("earliest", 450, 150), ("latest", 600, 300)])
def test_a_policy_goes_on_behind_what_retention_took(
    kafka: Kafka, overtaken: str, tmp_path: Path, policy: str, jump: int, lost: int
) -> None:
    settings = settings_on(
        kafka, overtaken, tmp_path / "checkpoints", kafka={"offset_reset": policy}
    )
    service = wiring.build(settings)
    with capture_logs() as entries:
        service.start()
        wait(lambda: service.consumer.source.resets)
        kafka.send(overtaken, *events(50, seed=3))
        wait(lambda: learned(service) >= 300 + 650 - jump)
        wait(lambda: resets(service, overtaken) == 1)
        service.stop()

    assert service.failure is None
    (jumped,) = entries_of(entries, "offset out of range, position reset")
    assert f"up to {lost} events were lost" in jumped["reason"]
    assert jumped["policy"] == policy
    assert learned(service) == 300 + 650 - jump
    assert kept_offsets(tmp_path / "checkpoints") == {0: 650}


def resets(service: Service, topic: str) -> float | None:
    return service.metrics.registry.get_sample_value(
        "livetree_offset_resets_total", {"topic": topic}
    )


@pytest.fixture(scope="module")
def other(kafka_there: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Return a second cluster."""
    with Kafka(tmp_path_factory.mktemp("other") / "broker") as running:
        yield running


@pytest.fixture
def moved(kafka: Kafka, other: Kafka, tmp_path: Path) -> str:
    """Return a topic that was learned from one cluster, and is there on the other as well."""
    topic = kafka.topic()
    kafka.send(topic, *events(300))
    learn_to(wiring.build(settings_on(kafka, topic, tmp_path / "checkpoints")), 300)
    other.create_topic(topic)
    other.create_topic(f"{topic}.dlq")
    other.send(topic, *events(400, seed=2))
    return topic


def test_another_cluster_ends_the_process(
    kafka: Kafka, other: Kafka, moved: str, serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(given(other, moved, tmp_path / "checkpoints"))

    assert served.ended() == 4, served.log
    (end,) = served.said("the learner failed")
    assert end["kind"] == "SourceChanged"
    assert f"cluster id is '{other.cluster_id}'; expected '{kafka.cluster_id}'" in end["error"]
    assert kept_offsets(tmp_path / "checkpoints") == {0: 300}


@pytest.mark.parametrize(("policy", "more"), [("earliest", 450), ("latest", 50)])
def test_a_policy_goes_on_with_another_cluster(
    other: Kafka, moved: str, tmp_path: Path, policy: str, more: int
) -> None:
    folder = tmp_path / "checkpoints"
    with capture_logs() as entries:
        service = started(settings_on(other, moved, folder, kafka={"offset_reset": policy}))
        wait(lambda: service.consumer.source.resets and service.consumer.source.lag() == {0: 0})
        other.send(moved, *events(50, seed=3))
        wait(lambda: learned(service) >= 300 + more)
        wait(lambda: resets(service, moved) == 1)
        service.stop()

    (given_up,) = entries_of(entries, "source changed, offsets given up")
    assert given_up["given_up"] == {0: 300}
    assert learned(service) == 300 + more
    found = CheckpointFolder(folder).load()
    assert found is not None
    assert (found.offsets, found.identity) == ({0: 450}, other.cluster_id)
    learn_to(wiring.build(settings_on(other, moved, folder)), 450)  # at home from now on


# With 100 records the old position is beyond the end; with 500 only the topic's id tells.
NEW_LENGTHS = (100, 500)


def create_anew(kafka: Kafka, topic: str, length: int) -> None:
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.send(topic, *events(length, seed=2))


@pytest.mark.parametrize("length", NEW_LENGTHS)
def test_a_topic_that_was_created_anew_while_nobody_looked_is_refused(
    kafka: Kafka, tmp_path: Path, length: int
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    kafka.send(topic, *events(300))
    settings = settings_on(kafka, topic, folder)
    learn_to(wiring.build(settings), 300)
    create_anew(kafka, topic, length)

    failure = failure_of(started(settings))

    assert isinstance(failure, SourceChanged)
    assert policy_of(failure).exit_code == 4
    assert f"topic '{topic}' has the id" in str(failure)
    assert "deleted and created anew" in str(failure)
    assert kept_offsets(folder) == {0: 300}


@pytest.mark.parametrize("length", NEW_LENGTHS)
@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_policy_goes_on_with_a_topic_that_was_created_anew(
    kafka: Kafka, tmp_path: Path, length: int, policy: str
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    kafka.send(topic, *events(300))
    learn_to(wiring.build(settings_on(kafka, topic, folder)), 300)
    create_anew(kafka, topic, length)

    service = started(settings_on(kafka, topic, folder, kafka={"offset_reset": policy}))
    wait(lambda: service.consumer.source.resets and service.consumer.source.lag() == {0: 0})
    kafka.send(topic, *events(50, seed=3))
    wait(lambda: position(service) >= length + 50)
    service.stop()

    assert service.failure is None
    assert service.consumer.source.resets == 1
    assert learned(service) == 300 + 50 + (length if policy == "earliest" else 0)
    learn_to(wiring.build(settings_on(kafka, topic, folder)), length + 50)  # its id is known now


@pytest.mark.parametrize("length", NEW_LENGTHS)
def test_a_topic_that_is_created_anew_under_a_running_service_is_refused(
    kafka: Kafka, tmp_path: Path, length: int
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    kafka.send(topic, *events(300))
    service = started(settings_on(kafka, topic, folder, kafka=REFRESH))
    wait(lambda: learned(service) >= 300)
    create_anew(kafka, topic, length)

    failure = failure_of(service)

    assert isinstance(failure, SourceChanged)
    assert policy_of(failure).exit_code == 4
    assert "deleted and created anew" in str(failure)


@pytest.mark.parametrize("length", NEW_LENGTHS)
@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_policy_goes_on_while_running(
    kafka: Kafka, tmp_path: Path, length: int, policy: str
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    kafka.send(topic, *events(300))
    service = started(settings_on(kafka, topic, folder, kafka={**REFRESH, "offset_reset": policy}))
    wait(lambda: learned(service) >= 300)
    create_anew(kafka, topic, length)
    wait(lambda: service.consumer.source.resets and service.consumer.source.lag() == {0: 0})
    kafka.send(topic, *events(50, seed=3))

    wait(lambda: position(service) == length + 50)
    service.stop()

    assert service.failure is None
    fresh = 50 + (length if policy == "earliest" else 0)
    assert learned(service) >= 300 + fresh  # and what came before the change was noticed
    assert kept_offsets(folder) == {0: length + 50}


def test_a_topic_that_is_deleted_is_waited_for_while_predictions_go_on(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    kafka.send(topic, *events(300))
    served = serve(given(kafka, topic, folder, kafka=REFRESH))
    served.wait_until_ready()
    served.wait_until_learned(300)

    kafka.delete_topic(topic)
    served.wait_for("topic is not there, waiting")

    assert served.wait(lambda: served.metric("livetree_source_connected", topic=topic) == 0)
    assert served.predicts()
    assert served.get("/readyz")[0] == 200
    assert served.terminate() == 0, served.log
    assert kept_offsets(folder) == {0: 300}
