"""Rows of fixed width on Apache Kafka: many in a record, a stop in between, dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from app.binary import RowLayout
from app.settings import Settings
from tests.app.conftest import events
from tests.kafka.broker import Kafka
from tests.kafka.running import passed, running, wait_until

pytestmark = pytest.mark.kafka

SCHEMA = {
    "features": [
        {"name": "age", "kind": "numeric"},
        {"name": "car", "kind": "nominal", "values": ["c1", "c2", "c3"]},
    ],
    "classes": ["old", "young"],
}


def test_records_of_many_rows_are_learned_once_also_across_a_restart(
    kafka: Kafka, make_settings: Callable[..., Settings]
) -> None:
    topic = kafka.topic()
    where = {"bootstrap_servers": kafka.bootstrap_servers, "topic": topic, "poll_batch": 7}
    settings = make_settings(
        kafka=where, event={"format": "binary"}, schema=SCHEMA, tree={"n_min": 50}
    )
    layout = RowLayout.of(settings)
    rows = [json.loads(event) for event in events(3000)]
    packed = [layout.pack(rows[at : at + 30]) for at in range(0, 3000, 30)]
    poison = packed[0][:-4] + b"\xff\xff\xff\xff"  # the last of thirty labels is none

    kafka.send(topic, *packed[:50], poison)
    with running(settings) as service:
        wait_until(lambda: passed(service, {0: 51}), service)
    kafka.send(topic, *packed[50:])
    with running(settings) as service:
        wait_until(lambda: passed(service, {0: 101}), service)

    tree = service.consumer.training.tree
    assert tree is not None
    assert tree.counters().events == 3000
    (letter,) = kafka.read(f"{topic}.dlq", 1)
    assert letter.value() == poison
    plain = make_settings(schema=SCHEMA, tree={"n_min": 50})
    assert tree.hash() == _grown_from_json(plain, rows)


def _grown_from_json(settings: Settings, rows: list[dict[str, object]]) -> str:
    from app.settings_file import declared_schema
    from app.source import Record
    from app.training import Training, new_tree

    schema = declared_schema(settings.schema_)
    assert schema is not None
    training = Training(settings, new_tree(settings, schema))
    training.learn([Record("t", 0, i, None, json.dumps(r).encode()) for i, r in enumerate(rows)])
    assert training.tree is not None
    return training.tree.hash()
