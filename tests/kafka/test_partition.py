"""Several partitions, and partitions that appear while nobody or somebody reads."""

from __future__ import annotations

import pytest

from app.source import Record
from tests.app.conftest import events
from tests.brokers import Broker
from tests.kafka.broker import Kafka
from tests.service import Make, kept, lag, running, settings_for, wait

Values = dict[int, list[bytes]]


def spread(kafka: Kafka, topic: str, sent: Values, values: list[bytes]) -> None:
    """Send each partition its share, and note it; the last of several gets the least."""
    writer = Broker(kafka.bootstrap_servers)  # knows all partitions there are by now
    for place, partition in enumerate(sent):
        share = values[place :: len(sent)]
        share = share[:3] if 0 < partition == max(sent) else share
        writer.send(topic, *share, partition=partition)
        sent[partition] += share


def by_partition(records: list[Record]) -> Values:
    found: Values = {}
    for record in records:
        assert record.value is not None
        found.setdefault(record.partition, []).append(record.value)
    return dict(sorted(found.items()))


def ends(sent: Values) -> dict[int, int]:
    return {partition: len(values) for partition, values in sent.items()}


@pytest.mark.parametrize("partitions", [1, 4, 16])
def test_every_event_of_every_partition_is_learned_once_and_in_order(
    kafka: Kafka, make_settings: Make, learned: list[Record], partitions: int
) -> None:
    topic = kafka.topic(partitions)
    sent: Values = {partition: [] for partition in range(partitions)}
    settings = settings_for(make_settings, kafka, topic)
    for start in range(2):
        spread(kafka, topic, sent, events(600, seed=start))
        total = sum(ends(sent).values())
        with running(settings) as service:
            wait(lambda total=total: len(learned) >= total, service)  # type: ignore[misc]
            wait(lambda service=service: lag(service) == dict.fromkeys(sent, 0), service)  # type: ignore[misc]
        assert by_partition(learned) == sent
        assert kept(settings).offsets == ends(sent)
        published = service.serving.current()
        assert published is not None
        assert published.offsets == {f"{topic}-{p}": end for p, end in ends(sent).items()}
        assert published.snapshot.events == total


def test_a_partition_without_records_has_an_offset_and_no_lag(
    kafka: Kafka, make_settings: Make, learned: list[Record]
) -> None:
    topic = kafka.topic(partitions=2)
    settings = settings_for(make_settings, kafka, topic)
    with running(settings) as service:
        kafka.send(topic, *events(20), partition=1)
        wait(lambda: len(learned) == 20 and lag(service) == {0: 0, 1: 0}, service)

    assert kept(settings).offsets == {0: 0, 1: 20}


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_partitions_added_while_running_are_learned_from_their_beginning(
    kafka: Kafka, make_settings: Make, learned: list[Record], start: str
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(30, seed=9))
    before = [] if start == "latest" else events(30, seed=9)
    settings = settings_for(
        make_settings, kafka, topic, kafka={"start": start, "partition_refresh_seconds": 1}
    )
    sent: Values = {0: before}
    with running(settings) as service:
        wait(lambda: service.consumer.source.positions() == {0: 30}, service)
        for more in range(2, 4):
            kafka.add_partitions(topic, more)
            sent |= {partition: [] for partition in range(more) if partition not in sent}
            spread(kafka, topic, sent, events(90, seed=more))
            total = sum(ends(sent).values())
            wait(lambda total=total: len(learned) >= total, service)  # type: ignore[misc]
    assert by_partition(learned) == sent

    with running(settings) as service:
        spread(kafka, topic, sent, events(90, seed=10))
        total = sum(ends(sent).values())
        wait(lambda: len(learned) >= total, service)
        wait(lambda: lag(service) == {0: 0, 1: 0, 2: 0}, service)
    assert by_partition(learned) == sent


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_partitions_added_while_the_service_is_down_are_learned_from_their_beginning(
    kafka: Kafka, make_settings: Make, learned: list[Record], start: str
) -> None:
    topic = kafka.topic()
    settings = settings_for(make_settings, kafka, topic, kafka={"start": start})
    sent: Values = {0: []}
    with running(settings) as service:
        wait(lambda: service.consumer.source.positions() == {0: 0}, service)
        spread(kafka, topic, sent, events(40))
        wait(lambda: len(learned) == 40, service)

    kafka.add_partitions(topic, 3)
    sent |= {1: [], 2: []}
    spread(kafka, topic, sent, events(90, seed=2))
    total = sum(ends(sent).values())
    with running(settings) as service:
        wait(lambda: len(learned) >= total, service)
        wait(lambda: lag(service) == {0: 0, 1: 0, 2: 0}, service)

    assert by_partition(learned) == sent
    assert kept(settings).offsets == ends(sent)
