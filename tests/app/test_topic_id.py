"""The topic's id: asked for without waiting, and done without where nobody tells it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from app import topic_id
from app.settings import KafkaSettings
from app.topic_id import TopicId


class Described:
    """What a broker tells about a topic."""

    topic_id = "tJ1"


class Admin:
    """An AdminClient whose answers come when the test says so."""

    def __init__(self, _properties: Any) -> None:
        self.questions: list[Future[Any]] = []

    def describe_topics(self, _topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        assert request_timeout > 0
        self.questions.append(Future())
        return {"t": self.questions[-1]}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> TopicId:
    monkeypatch.setattr(topic_id, "AdminClient", Admin)
    made = TopicId(KafkaSettings(topic="t"))
    made.ask("cluster")
    return made


def questions(asked: TopicId) -> list[Future[Any]]:
    admin: Any = asked._admin
    found: list[Future[Any]] = admin.questions
    return found


def test_an_answer_is_taken_when_it_is_there(asked: TopicId) -> None:
    assert not asked.answered
    assert asked.answer() is None

    asked.ask("cluster")  # one question is under way already
    questions(asked)[0].set_result(Described())

    assert asked.answered
    assert asked.answer() == "tJ1"
    assert not asked.answered
    assert len(questions(asked)) == 1


def test_a_broker_that_does_not_answer_is_asked_again(asked: TopicId) -> None:
    with capture_logs() as entries:
        assert asked.answer(0.01) is None
    assert entries[0]["event"] == "topic id not known yet, going on"

    questions(asked)[0].set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    assert asked.answer() is None
    asked.ask("cluster")

    assert len(questions(asked)) == 2


def test_a_broker_that_refuses_is_not_asked_again_and_that_is_said_once(asked: TopicId) -> None:
    refusal = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    questions(asked)[0].set_exception(KafkaException(refusal))

    with capture_logs() as entries:
        assert asked.answer() is None
        asked.ask("cluster")
        assert asked.answer() is None

    assert len(questions(asked)) == 1
    assert len(entries) == 1
    assert "may go unnoticed" in entries[0]["event"]


def test_the_broker_in_memory_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_id, "AdminClient", Admin)
    made = TopicId(KafkaSettings(topic="t"))

    made.ask("mockCluster127.0.0.1:1")

    assert made._admin is None
    assert made.answer(60) is None


def test_client_properties_that_fail_leave_the_id_unknown() -> None:
    made = TopicId(KafkaSettings(topic="t", extra={"no.such.property": "1"}))

    with capture_logs() as entries:
        made.ask("cluster")

    assert made.answer(60) is None
    assert "no.such.property" in entries[0]["error"]
