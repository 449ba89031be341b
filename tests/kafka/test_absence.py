"""Topics and brokers that are not there yet, or go and come back; the broker is the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.source import Record
from tests.app.conftest import events
from tests.kafka.broker import Kafka
from tests.service import Make, kept, lag, running, settings_for, wait


@pytest.fixture(scope="module")
def own(kafka_there: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Return a broker that may not run yet, and that creates topics when asked for them."""
    folder = tmp_path_factory.mktemp("own") / "broker"
    made = Kafka(folder, properties={"auto.create.topics.enable": "true"})
    yield made
    made.kill()


def test_a_broker_that_starts_later_is_waited_for(
    own: Kafka, make_settings: Make, learned: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    from app import log

    log.configure("info", "json")
    own.stop()
    with running(settings_for(make_settings, own, "first")) as service:
        wait(lambda: "broker unreachable, waiting" in capsys.readouterr().out, service)
        assert service.alive()
        own.start()
        own.create_topic("first")
        own.send("first", *events(30))
        wait(lambda: len(learned) == 30, service)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_topic_is_waited_for_and_never_created_by_waiting(
    own: Kafka,
    make_settings: Make,
    learned: list[Record],
    capsys: pytest.CaptureFixture[str],
    start: str,
) -> None:
    from app import log

    log.configure("info", "json")
    own.start()
    topic = f"later-{start}"
    settings = settings_for(make_settings, own, topic, kafka={"start": start})
    with running(settings) as service:
        wait(lambda: "topic is not there, waiting" in capsys.readouterr().out, service)
        assert {topic, f"{topic}.dlq"}.isdisjoint(own.admin.list_topics(timeout=30).topics)
        own.create_topic(topic, partitions=2)
        own.send(topic, *events(20), partition=0)
        own.send(topic, *events(20, seed=2), partition=1)
        # Also with start=latest: it was all written while the service waited.
        wait(lambda: len(learned) == 40 and lag(service) == {0: 0, 1: 0}, service)
    assert kept(settings).offsets == {0: 20, 1: 20}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_that_restarts_in_the_middle_loses_and_doubles_nothing(
    own: Kafka, make_settings: Make, learned: list[Record], end: str
) -> None:
    topic = own.start().topic(partitions=4, flush_messages="1")
    settings = settings_for(make_settings, own, topic)
    with running(settings) as service:
        for seed in range(2):
            for partition in range(4):
                own.send(topic, *events(200, seed), partition=partition)
            if seed == 0:
                wait(lambda: len(learned) >= 1, service)
                getattr(own, end)()
                own.start()
        wait(lambda: len(learned) >= 1600 and lag(service) == dict.fromkeys(range(4), 0), service)
    for partition in range(4):
        assert [r.offset for r in learned if r.partition == partition] == list(range(400))
    assert kept(settings).offsets == dict.fromkeys(range(4), 400)
