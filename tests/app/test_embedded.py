"""The broker inside the process."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.embedded import EmbeddedBroker
from app.errors import SourceError


def test_a_topic_has_the_partitions_asked_for() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("one")
        broker.create_topic("three", 3)
        broker.create_topic("three", 3)
        client = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

        topics = client.list_topics(timeout=20).topics

    assert {name: len(topic.partitions) for name, topic in topics.items()} == {"one": 1, "three": 3}


def test_two_brokers_do_not_know_each_other() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers


def test_a_broker_that_does_not_run_says_so() -> None:
    broker = EmbeddedBroker()
    with pytest.raises(SourceError, match="not running"):
        _ = broker.bootstrap_servers
    broker.start().start().close()
    broker.close()

    with pytest.raises(SourceError, match="expected start"):
        broker.create_topic("late")


def test_a_signal_does_not_end_it() -> None:
    broker = EmbeddedBroker().start()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce("signals", b"before")
    assert producer.flush(20) == 0
    # The handler stays: a thread that does not run for a while gets its signal after the test, and
    # without a handler that would end the process.
    signal.signal(signal.SIGUSR1, lambda *_: None)
    for thread in Path("/proc/self/task").iterdir():  # to its own one too
        ctypes.CDLL(None).tgkill(os.getpid(), int(thread.name), signal.SIGUSR1)
    producer.produce("signals", b"after")
    assert producer.flush(20) == 0
    broker.close()  # would wait for ever for one that has ended
