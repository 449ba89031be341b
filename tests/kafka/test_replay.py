"""Replay on Apache Kafka: the learner's own range gives the learner's own model, byte for byte."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import TopicPartition
from typer.testing import CliRunner

from app.checkpoint import CheckpointFolder
from app.cli import app
from app.log_range import LogRange, Span
from app.settings import KafkaSettings, Settings
from tests.app.conftest import FEATURES, events
from tests.kafka.broker import Kafka
from tests.kafka.running import passed, running, wait_until

POISON = (b"{", b'{"age": "x", "label": "old"}', b"\xff")


@pytest.fixture(autouse=True)
def away_from_any_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def livetree(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.fixture
def make_config(tmp_path: Path, kafka: Kafka) -> Callable[..., Path]:
    """Return a factory of settings files."""

    def make(topic: str, **more: Any) -> Path:
        settings = {
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "topic": topic},
            "checkpoint": {"folder": str(tmp_path / f"checkpoints-{topic}")},
            "tree": {"n_min": 50},
            **more,
        }
        path = tmp_path / f"{topic}.yaml"
        path.write_text(yaml.safe_dump(settings))
        return path

    return make


def send_with_gaps(kafka: Kafka, topic: str) -> None:
    """Send events with poison, tombstones, and transactions, one of them aborted, between them."""
    good = events(3000)
    kafka.send(topic, *good[:100], POISON[0], None, *good[100:400], POISON[1], *good[400:900])
    producer = kafka.transactional(f"{topic}-writer")
    for start, commit in ((900, True), (900, False), (1400, True)):
        producer.begin_transaction()
        for value in good[start : start + 500]:
            producer.produce(topic, value)
        producer.flush(30)  # what is aborted unsent would leave no trace in the log
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    kafka.send(topic, None, POISON[2], *good[1900:])


def learn_all(topic: str, config: Path) -> str:
    """Let a service learn the whole topic; returns its model's hash, as in its checkpoint."""
    settings = Settings.load(config, environ={})
    with LogRange(settings.kafka, topic) as log:
        # Not the end of the log: the last word there may be a transaction's, which is no record.
        records = [record for batch in log.read(log.held) for record in batch]
    ends = {record.partition: record.offset + 1 for record in records}
    with running(settings) as service:
        wait_until(lambda: passed(service, ends), service)
    found = CheckpointFolder(settings.checkpoint.folder).load()
    assert found is not None
    return found.model_hash


@pytest.mark.parametrize("schema", [{"infer_from": 200}, {"features": FEATURES}], ids=str)
@pytest.mark.parametrize("variant", ["vfdt", "efdt", "imac"])
def test_a_replay_to_the_checkpoint_gives_the_learners_model(
    variant: str, schema: dict[str, Any], kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    send_with_gaps(kafka, topic)
    config = make_config(topic, variant=variant, schema=schema)
    model_hash = learn_all(topic, config)
    kafka.send(topic, *events(500, seed=2))  # what comes later is not part of it

    result = livetree("replay", "--to", "checkpoint", "--config", str(config), "--format", "json")

    assert result.exit_code == 0, result.output
    (run,) = json.loads(result.stdout)["runs"]
    assert run["tree_hash"] == model_hash
    assert run["equals_checkpoint"] is True
    assert run["events"] == 3000
    assert run["rejected"] == {"not_json": 1, "bad_feature": 1, "not_utf8": 1}
    assert run["tombstones"] == 2
    assert run["splits"] > 0


def test_a_replay_neither_joins_the_group_nor_moves_its_offsets(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(300))
    config = make_config(topic, schema={"features": FEATURES}, variant="vfdt")
    consumer = kafka.consumer("livetree")
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()

    assert livetree("replay", "--config", str(config)).exit_code == 0

    assert kafka.committed(topic, "livetree") == 7
    for group in ("livetree.reader", "livetree.dlq"):
        assert kafka.committed(topic, group) < 0
    assert kafka.end(f"{topic}.dlq") == 0


def test_offsets_times_and_several_variants(kafka: Kafka, make_config: Callable[..., Path]) -> None:
    topic = kafka.topic()
    now = int(time.time() * 1000)
    for place, value in enumerate(events(1000)):
        kafka.producer.produce(topic, value, timestamp=now - 1_000_000 + place * 1000)
    kafka.producer.flush(60)
    config = make_config(topic, schema={"features": FEATURES})
    moment = datetime.fromtimestamp((now - 1_000_000 + 400_000) / 1000, UTC).isoformat()

    by_time = livetree(
        "replay", "--config", str(config), "--from", moment, "--to", "0:900", "--format", "json",
        "--variant", "vfdt,efdt", "--set", "n_min=40", "--set", "efdt.tau=0.01",
    )  # fmt: skip

    document = json.loads(by_time.stdout)
    assert document["partitions"] == {"0": {"from": 400, "to": 900}}
    assert [run["variant"] for run in document["runs"]] == ["vfdt", "efdt"]
    assert [run["events"] for run in document["runs"]] == [500, 500]
    table = livetree("replay", "--config", str(config), "--from", "400", "--to", "900")
    assert f"{topic}, partition 0: 400 to 900; 500 records" in table.stdout


def test_several_partitions_are_read_by_time_then_partition_each_time_alike(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic(partitions=3)
    now = int(time.time() * 1000)
    good = events(1500)
    for place, value in enumerate(good):
        kafka.producer.produce(topic, value, partition=place % 3, timestamp=now + place // 3)
    kafka.producer.flush(60)
    config = make_config(topic, schema={"features": FEATURES})
    model_hash = learn_all(topic, config)

    with LogRange(KafkaSettings(bootstrap_servers=kafka.bootstrap_servers), topic) as log:
        spans = dict(log.held)
        read = [record.value for batch in log.read(spans) for record in batch]
    result = livetree("replay", "--to", "checkpoint", "--config", str(config))

    assert read == good
    assert result.exit_code == 0
    assert "by timestamp, then partition" in result.stdout
    assert "1,500" in result.stdout
    assert len(model_hash) == 64


def test_a_range_that_retention_has_taken_is_named(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(300))
    config = make_config(topic, schema={"features": FEATURES})
    for future in kafka.admin.delete_records([TopicPartition(topic, 0, 120)]).values():
        future.result(30)

    result = livetree("replay", "--from", "50", "--config", str(config))

    assert result.exit_code == 4
    assert "offsets 50 to 300 are asked for, the broker holds 120 to 300" in result.stderr
    assert livetree("replay", "--config", str(config)).exit_code == 0


def test_an_open_transaction_does_not_hang_a_replay(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(300))
    producer = kafka.transactional(f"{topic}-open")
    producer.begin_transaction()
    producer.produce(topic, events(1)[0])
    producer.flush(30)
    config = make_config(topic, schema={"features": FEATURES})

    result = livetree("replay", "--config", str(config), "--format", "json")

    assert json.loads(result.stdout)["runs"][0]["events"] == 300
    assert json.loads(result.stdout)["partitions"] == {"0": {"from": 0, "to": 300}}
    producer.abort_transaction(30)


def test_a_learner_goes_on_from_a_replayed_model(
    kafka: Kafka, make_config: Callable[..., Path], tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(2000))
    schema = {"features": FEATURES}
    config = make_config(topic, schema=schema, variant="vfdt")
    out = tmp_path / "retrained"
    options = ("--config", str(config), "--variant", "efdt", "--out", str(out))

    assert livetree("replay", *options, "--to", "1500").exit_code == 0
    again = livetree("replay", *options)
    continuing = make_config(topic, schema=schema, variant="efdt", checkpoint={"folder": str(out)})
    model_hash = learn_all(topic, continuing)
    whole = livetree("replay", "--config", str(config), "--variant", "efdt", "--format", "json")

    assert again.exit_code == 4
    assert "expected an empty one for --out" in again.stderr
    assert json.loads(whole.stdout)["runs"][0]["tree_hash"] == model_hash


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--from", "yesterday"], 2, "--from is 'yesterday'; expected earliest"),
        (["--partitions", "a"], 2, "is not a list of partitions"),
        (["--partitions", "7"], 2, "--partitions names 7"),
        (["--from", "5", "--to", "3"], 2, "ends before it begins"),
        (["--variant", "nope"], 2, "variant"),
        (["--set", "n_min=-1"], 2, "n_min"),
        (["--topic", "missing"], 3, "topic 'missing'"),
        (["--to", "checkpoint"], 4, "holds no checkpoint"),
        (["--variant", "vfdt,efdt", "--out", "x"], 2, "--out holds one model"),
    ],
)
def test_wrong_words_are_answered_with_the_expected_ones(
    arguments: list[str], code: int, words: str, kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(20))

    result = livetree("replay", "--config", str(make_config(topic)), *arguments)

    assert result.exit_code == code, result.output
    assert words in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output


def test_a_range_too_short_for_a_schema_says_so(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(20))

    result = livetree("replay", "--config", str(make_config(topic)))

    assert result.exit_code == 2
    assert "20 of 500 events" in result.stderr


def test_a_span_of_gaps_only_ends(kafka: Kafka) -> None:
    topic = kafka.topic()
    producer = kafka.transactional(f"{topic}-aborting")
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.abort_transaction(30)

    with LogRange(KafkaSettings(bootstrap_servers=kafka.bootstrap_servers), topic) as log:
        held = log.held[0]
        assert [list(batch) for batch in log.read({0: held})] == []
        assert held == Span(0, log.reached[0])
