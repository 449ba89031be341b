"""Dead letters on Apache Kafka: listed, shown, and sent back each once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Message
from typer.testing import CliRunner

from app.cli import app
from app.deadletter import KafkaDeadLetters, Reason
from app.errors import BadFeature, NotJson
from app.letter import NOTE, REDRIVEN, LetterFilter
from app.letterbox import TopicLetterbox
from app.redrive import TopicTarget, judge_of, plan_redrive, redrive
from app.settings import Settings
from app.source import Record
from tests.kafka.broker import Kafka
from tests.kafka.running import running, wait_until

GOOD = b'{"age": 41, "label": "old"}'
TEXT_AGE = b'{"age": "abc", "label": "old"}'
HEADERS: list[tuple[str, str | bytes | None]] = [("trace", b"\x01\xff"), ("none", None)]
FEATURES = [{"name": "age", "kind": "numeric"}]
STAMP = int(time.time() * 1000) - 60_000  # one of long ago would fall to the topic's retention


@pytest.fixture(autouse=True)
def away_from_any_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def livetree(*arguments: str, answer: str | None = None) -> Any:
    return CliRunner().invoke(app, list(arguments), input=answer, env={"COLUMNS": "200"})


@pytest.fixture
def make_config(tmp_path: Path, kafka: Kafka) -> Callable[..., Path]:
    """Return a factory of settings files."""

    def make(topic: str, **more: Any) -> Path:
        settings = {
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "topic": topic},
            "checkpoint": {"folder": str(tmp_path / "checkpoints")},
            "schema": {"features": FEATURES},
            **more,
        }
        path = tmp_path / f"{topic}.yaml"
        path.write_text(yaml.safe_dump(settings))
        return path

    return make


def put_aside(config: Path, *records: Record, error: Exception | None = None) -> None:
    """Put records aside as a learner does."""
    settings = Settings.load(config, environ={})
    letters = KafkaDeadLetters(settings.kafka, settings.dead_letter_topic(), 30)
    reason = Reason("decode", error or BadFeature("feature 'age' is 'abc'; expected a number"))
    for record in records:
        letters.send(record, reason)
    letters.flush()
    letters.close()


def record(topic: str, offset: int, value: bytes = GOOD, partition: int = 0) -> Record:
    return Record(topic, partition, offset, b"k\xff", value, STAMP, list(HEADERS))


def headers_of(message: Message) -> list[Any]:
    return list(message.headers() or [])


def test_a_rejected_record_is_repaired_redriven_and_learned(
    kafka: Kafka, make_config: Callable[..., Path], tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.send(topic, GOOD, key=b"k")
    kafka.send(topic, TEXT_AGE, key=b"k", headers=HEADERS, timestamp=STAMP)
    as_number = make_config(topic)
    with running(Settings.load(as_number, environ={})) as service:
        wait_until(lambda: kafka.end(f"{topic}.dlq") == 1, service)
    refused = livetree("dlq", "redrive", "--yes", "--config", str(as_number))
    nominal = {"features": [{"name": "age", "kind": "nominal"}]}
    folder = {"folder": str(tmp_path / "nominal")}
    as_text = make_config(topic, schema=nominal, checkpoint=folder)

    sent = livetree("dlq", "redrive", "--yes", "--config", str(as_text))

    assert "1 would be rejected again and stay, bad_feature: feature 'age'" in refused.stdout
    assert "nothing was sent" in refused.stdout
    assert sent.exit_code == 0
    assert f"1 records sent to {topic}" in sent.stdout
    _, first, second = kafka.read(topic, 3)
    assert (second.key(), second.value(), second.timestamp()) == (
        first.key(), first.value(), first.timestamp(),
    )  # fmt: skip
    assert headers_of(second) == [*HEADERS, (REDRIVEN, b"1")]
    with running(Settings.load(as_text, environ={})) as service:
        wait_until(
            lambda: (tree := service.consumer.training.tree) and tree.counters().events == 3,
            service,
        )


def test_a_redrive_sends_each_record_once_and_never_again_by_accident(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic(partitions=2)
    config = make_config(topic)
    # Offset 5 twice: a learner crashed before its checkpoint.
    put_aside(config, record(topic, 5), record(topic, 6, partition=1), record(topic, 5))

    first = livetree("dlq", "redrive", "--yes", "--config", str(config))
    second = livetree("dlq", "redrive", "--yes", "--config", str(config))
    listed = livetree("dlq", "list", "--config", str(config), "--format", "json")
    put_aside(config, record(topic, 9))
    third = livetree("dlq", "redrive", "--yes", "--config", str(config))
    again = livetree("dlq", "redrive", "--yes", "--again", "--config", str(config))

    assert "1 are copies of a record that was put aside before" in first.stdout
    assert f"2 records sent to {topic}" in first.stdout
    assert "2 were redriven before and stay" in second.stdout
    assert "nothing was sent" in second.stdout
    document = json.loads(listed.stdout)
    assert document["records"] == 2
    assert [letter["redriven"] for letter in document["letters"]] == [True, True]
    assert sorted(letter["copies"] for letter in document["letters"]) == [1, 2]
    assert f"1 records sent to {topic}" in third.stdout
    assert f"3 records sent to {topic}" in again.stdout
    assert kafka.end(topic, 0) == 4  # offset 5, 9, and both again
    assert kafka.end(topic, 1) == 2


def test_filters_leave_the_rest_for_a_later_redrive(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    config = make_config(topic)
    put_aside(config, record(topic, 1))
    put_aside(config, record(topic, 2), error=NotJson("record is b''; expected a JSON object"))

    by_reason = livetree(
        "dlq", "redrive", "--yes", "--reason", "not_json", "--since", "1h", "--config", str(config)
    )
    rest = livetree("dlq", "redrive", "--yes", "--config", str(config))

    assert f"1 records sent to {topic}" in by_reason.stdout
    assert f"1 records sent to {topic}" in rest.stdout
    assert kafka.end(topic) == 2


def test_a_crash_before_the_note_sends_at_most_that_batch_again(
    kafka: Kafka, make_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic()
    config = make_config(topic)
    put_aside(config, *(record(topic, i) for i in range(1200)))
    settings = Settings.load(config, environ={})
    noted = TopicLetterbox.note

    def crash(self: TopicLetterbox, letters: Any, target: str) -> None:
        if self.redriven:
            raise KeyboardInterrupt
        noted(self, letters, target)

    def send() -> int:
        box, target = TopicLetterbox(settings), TopicTarget(settings, None)
        try:
            plan = plan_redrive(box, LetterFilter(), judge_of(settings))
            return redrive(box, target, plan, topic)
        finally:
            target.close()
            box.close()

    with monkeypatch.context() as patch:
        patch.setattr(TopicLetterbox, "note", crash)
        with pytest.raises(KeyboardInterrupt):
            send()
    assert send() == 700

    assert kafka.end(topic) == 1000 + 700


def test_a_loop_is_visible(kafka: Kafka, make_config: Callable[..., Path]) -> None:
    topic = kafka.topic()
    config = make_config(topic)
    looped = record(topic, 1)._replace(headers=[*HEADERS, (REDRIVEN, b"3")])
    put_aside(config, looped)

    result = livetree("dlq", "redrive", "--yes", "--config", str(config))

    assert "1 of these came back after an earlier redrive" in result.stdout
    (message,) = kafka.read(topic, 1)
    assert headers_of(message) == [*HEADERS, (REDRIVEN, b"4")]


def test_force_sends_what_would_be_rejected_again_and_a_dry_run_sends_nothing(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    kafka.create_topic(f"{topic}-repair", 3)
    config = make_config(topic)
    put_aside(config, record(topic, 1, TEXT_AGE))

    dry = livetree("dlq", "redrive", "--force", "--dry-run", "--config", str(config))
    no = livetree("dlq", "redrive", "--force", "--config", str(config), answer="n\n")
    nobody = livetree("dlq", "redrive", "--force", "--config", str(config))
    forced = livetree(
        "dlq", "redrive", "--force", "--to-topic", f"{topic}-repair", "--config", str(config),
        answer="y\n",
    )  # fmt: skip

    assert "1 can be sent" in dry.stdout
    assert "nothing was sent" in dry.stdout
    assert "nothing was sent" in no.stdout
    assert nobody.exit_code == 2
    assert "expected --yes" in nobody.stderr
    assert f"1 records sent to {topic}-repair" in forced.stdout
    assert kafka.end(topic) == 0
    assert sum(kafka.end(f"{topic}-repair", p) for p in range(3)) == 1


def test_the_list_counts_by_reason_and_shows_the_newest(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    config = make_config(topic)
    put_aside(config, *(record(topic, i) for i in range(30)))
    put_aside(config, record(topic, 99, b"\x1b[2J\xff"), error=NotJson("record is odd"))
    kafka.send(f"{topic}.dlq", b"somebody else's")

    table = livetree("dlq", "list", "--limit", "3", "--config", str(config)).stdout
    everything = livetree(
        "dlq", "list", "--limit", "0", "--format", "json", "--config", str(config)
    )
    oldest = livetree(
        "dlq", "list", "--order", "oldest", "--limit", "1", "--format", "json",
        "--config", str(config), "--reason", "BadFeature", "--stage", "decode",
    )  # fmt: skip

    assert "\x1b" not in table
    assert f"{topic}-0-99" in table
    assert re.search(r"bad_feature +30\n", table)
    assert re.search(r"not_json +1\n", table)
    assert "not ours" in table
    assert f"32 records in '{topic}.dlq', 3 shown" in table
    assert len(json.loads(everything.stdout)["letters"]) == 32
    assert json.loads(oldest.stdout)["letters"][0]["original"] == [topic, 0, 0]


def test_one_letter_is_shown_whole(kafka: Kafka, make_config: Callable[..., Path]) -> None:
    topic = kafka.topic()
    config = make_config(topic)
    put_aside(config, record(topic, 41, b"caf\xe9\x00"), record(topic, 42))

    binary = livetree("dlq", "show", "0:0", "--config", str(config)).stdout
    raw = livetree("dlq", "show", "0", "--raw", "--config", str(config)).stdout_bytes
    text = livetree("dlq", "show", "1", "--config", str(config)).stdout
    document = json.loads(
        livetree("dlq", "show", "0:0", "--format", "json", "--config", str(config)).stdout
    )
    nothing = livetree("dlq", "show", "0:17", "--config", str(config))

    assert "00000000  63 61 66 e9 00" in binary
    assert "feature 'age' is 'abc'; expected a number" in binary
    assert "header     none: (none)" in binary
    assert raw == b"caf\xe9\x00"
    assert GOOD.decode() in text
    assert document["value"] == {"base64": "Y2Fm6QA="}
    assert document["original"] == [topic, 0, 41]
    assert nothing.exit_code == 2
    assert "offsets 17 to 18 are asked for, the broker holds 0 to 2" in nothing.stderr


def test_a_missing_topic_ends_with_3_and_an_empty_one_with_0(
    kafka: Kafka, make_config: Callable[..., Path]
) -> None:
    topic = kafka.topic()
    empty = livetree("dlq", "list", "--config", str(make_config(topic)))
    nothing = livetree("dlq", "redrive", "--config", str(make_config(topic)))
    missing = [
        livetree("dlq", *words, "--config", str(make_config("missing")))
        for words in (["list"], ["show", "0"], ["redrive", "--yes"])
    ]

    assert (empty.exit_code, empty.stdout) == (0, f"no dead letters in '{topic}.dlq'\n")
    assert (nothing.exit_code, "nothing was sent" in nothing.stdout) == (0, True)
    assert [result.exit_code for result in missing] == [3, 3, 3]
    assert all("topic 'missing.dlq'" in result.stderr for result in missing)


def test_notes_lie_beside_their_letters(kafka: Kafka, make_config: Callable[..., Path]) -> None:
    topic = kafka.topic()
    config = make_config(topic)
    put_aside(config, record(topic, 1), record(topic, 2))

    livetree("dlq", "redrive", "--yes", "--config", str(config))

    *_, note = kafka.read(f"{topic}.dlq", 3)
    assert headers_of(note) == [(NOTE, b"1")]
    assert json.loads(note.value() or b"") == {"redriven_to": topic, "offsets": [0, 1]}


@pytest.mark.parametrize("whose", ["CreateTime", "LogAppendTime"])
def test_letters_of_old_and_of_future_records_are_kept_and_redriven_with_their_own_time(
    kafka: Kafka, make_config: Callable[..., Path], whose: str
) -> None:
    far = str(10**15)
    topic = kafka.topic(retention_ms="-1", message_timestamp_after_max_ms=far)
    kafka.delete_topic(f"{topic}.dlq")
    # Seven days, and nothing from the future: as brokers have it by default.
    kafka.create_topic(f"{topic}.dlq", message_timestamp_type=whose, retention_ms="604800000")
    config = make_config(topic)
    stamps = (1_500_000_000_123, 4_000_000_000_123)
    put_aside(config, *(record(topic, n)._replace(timestamp_ms=t) for n, t in enumerate(stamps)))

    livetree("dlq", "redrive", "--yes", "--config", str(config))

    assert [message.timestamp()[1] for message in kafka.read(topic, 2)] == list(stamps)
