"""Dead letters that cannot be delivered stop the learner; none of them is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from app import wiring
from tests.app.conftest import events
from tests.app.test_crash import letter_offset
from tests.app.test_wiring import learn_to, model_of
from tests.faults.conftest import given, settings_on
from tests.faults.served import Served
from tests.kafka.broker import Kafka

SOON = {"every_seconds": 1}
POISON = b'{"age": "' + b"x" * 5000 + b'", "label": "old"}'


def events_with_poison() -> list[bytes]:
    """Return 301 records; the one at offset 200 cannot be learned."""
    return [*events(200), POISON, *events(100, seed=2)]


def check_nothing_is_lost(broker: Kafka, topic: str, folder: Path, straight: Path) -> None:
    """Learn to the end, now that dead letters can be delivered, and compare."""
    learn_to(wiring.build(settings_on(broker, topic, folder)), 301)
    letters = broker.read(f"{topic}.dlq", broker.end(f"{topic}.dlq"))
    assert {letter_offset(letter) for letter in letters} == {200}
    assert all(letter.value() == POISON for letter in letters)
    learn_to(wiring.build(settings_on(broker, topic, straight)), 301)
    assert model_of(folder) == model_of(straight)


@pytest.mark.parametrize(
    ("letters_topic", "said"),
    [(None, "could not be delivered"), ({"max_message_bytes": "2000"}, "Message size too large")],
    ids=["missing", "too small"],
)
def test_a_dead_letter_topic_that_refuses_ends_the_process_and_loses_nothing(
    kafka: Kafka,
    serve: Callable[..., Served],
    tmp_path: Path,
    letters_topic: dict[str, str] | None,
    said: str,
) -> None:
    topic, folder = f"{kafka.topic()}-poisoned", tmp_path / "checkpoints"
    kafka.create_topic(topic)
    if letters_topic is not None:
        kafka.create_topic(f"{topic}.dlq", **letters_topic)
    settings = given(kafka, topic, folder, checkpoint=SOON, dead_letter={"timeout_seconds": 3})
    kafka.send(topic, *events_with_poison())

    served = serve(settings)

    assert served.ended() == 3, served.log
    (end,) = served.said("the learner failed")
    assert end["kind"] == "DeadLetterLost"
    assert said in end["error"]
    assert f"topic '{topic}.dlq'" in end["error"]
    assert not list(folder.glob("*.checkpoint"))  # none passes the record
    again = serve(settings)
    assert again.ended() == 3, again.log  # as long as nothing changes

    if letters_topic is not None:
        kafka.delete_topic(f"{topic}.dlq")
    kafka.create_topic(f"{topic}.dlq")
    check_nothing_is_lost(kafka, topic, folder, tmp_path / "straight")


def test_waiting_for_dead_letters_is_life_and_ends_with_the_process(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, folder = f"{kafka.topic()}-waiting", tmp_path / "checkpoints"
    kafka.create_topic(topic)
    kafka.send(topic, *events_with_poison())
    settings = given(
        kafka,
        topic,
        folder,
        checkpoint=SOON,
        # librdkafka gives a missing topic half a minute by itself.
        dead_letter={"timeout_seconds": 600},
        http={"stalled_after_seconds": 10, "shutdown_seconds": 5},
    )
    served = serve(settings)
    served.wait_until_ready()
    served.wait(lambda: served.metric("livetree_dead_letters_total", reason="bad_feature") == 1)

    began = time.monotonic()
    while time.monotonic() < began + 14:  # longer than a loop may stand still
        assert served.get("/livez")[0] == 200, served.log
        assert served.predicts()
        time.sleep(0.5)

    assert served.terminate() == 3, served.log
    assert served.said("the learner failed")[0]["kind"] == "DeadLetterLost"
    assert not list(folder.glob("*.checkpoint"))
    kafka.create_topic(f"{topic}.dlq")
    check_nothing_is_lost(kafka, topic, folder, tmp_path / "straight")


@pytest.fixture
def guarded(kafka_there: Path, tmp_path: Path) -> Iterator[Kafka]:
    """Return a broker that asks who somebody is at one of its doors, and what he may do."""
    properties: dict[str, Any] = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.guarded.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Kafka(
        tmp_path / "guarded",
        listeners={"GUARDED": "SASL_PLAINTEXT"},
        properties=properties,
        scram_users={"reader": "secret"},
    ) as running:
        yield running


def allow(broker: Kafka, kind: ResourceType, name: str, operation: AclOperation) -> None:
    rule = AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        "User:reader",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for future in broker.admin.create_acls([rule]).values():
        future.result(30)


def test_a_dead_letter_topic_that_may_not_be_written_ends_the_process(
    guarded: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, folder = guarded.topic(), tmp_path / "checkpoints"
    guarded.send(topic, *events_with_poison())
    allow(guarded, ResourceType.TOPIC, topic, AclOperation.READ)
    allow(guarded, ResourceType.GROUP, "livetree", AclOperation.READ)
    settings = given(
        guarded,
        topic,
        folder,
        kafka={
            "bootstrap_servers": guarded.addresses["GUARDED"],
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "username": "reader",
            "password": "secret",
        },
        checkpoint=SOON,
        dead_letter={"timeout_seconds": 5},
    )

    served = serve(settings)
    assert served.ended() == 3, served.log
    (end,) = served.said("the learner failed")
    assert end["kind"] == "DeadLetterLost"
    assert "uthorization failed" in end["error"]

    allow(guarded, ResourceType.TOPIC, f"{topic}.dlq", AclOperation.WRITE)
    permitted = serve(settings)
    permitted.wait_for("checkpoint written")
    permitted.wait_until_learned(300)
    assert permitted.terminate() == 0, permitted.log
    assert "topic id not to be had" not in permitted.log  # who may read may ask for it
    check_nothing_is_lost(guarded, topic, folder, tmp_path / "straight")
