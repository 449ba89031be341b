"""The whole walk of a record, in one place: a topic, `livetree serve` as a process, real HTTP.

Events and poison go in; the tree grows; predictions, the tree, the model and the metrics agree
with each other and with the same events learned without any service; SIGTERM ends it with a
checkpoint, and a second process goes on where the first one stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.checkpoint import Checkpoint, CheckpointFolder
from learner import Encoder, Schema, StreamingTree
from streams import open_stream
from tests.brokers import Broker
from tests.process import Event, Livetree, ends_cleanly, metrics_of

PARAMS = {"n_min": 100.0, "audit_fraction": 1.0}
POISON = {
    b"\xff\xfe": "not_utf8",
    b'{"salary": ': "not_json",
    b"[1, 2]": "not_an_object",
    b'{"salary": 5}': "bad_label",
    b'{"salary": "abc", "label": "A"}': "bad_feature",
}


class Place:
    """A broker, a topic and a folder; services that run there end with it."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.topic = broker.topic()
        self.started: list[Livetree] = []
        self.config = folder / "livetree.yaml"
        self.config.write_text(  # JSON is YAML too
            json.dumps(
                {
                    "name": "walk",
                    "kafka": {
                        "bootstrap_servers": broker.bootstrap_servers,
                        "topic": self.topic,
                        "fetch_wait_ms": 10,
                    },
                    "tree": PARAMS,
                    "publish": {"every_seconds": 0.1},
                    "checkpoint": {"folder": str(folder / "checkpoints")},
                }
            )
        )

    def serve(self) -> Livetree:
        self.started.append(Livetree(self.config, self.folder / f"log-{len(self.started)}.jsonl"))
        return self.started[-1]

    def send(self, *values: bytes) -> None:
        self.broker.send(self.topic, *values)

    def checkpoint(self) -> Checkpoint:
        found = CheckpointFolder(self.folder / "checkpoints").load()
        assert found is not None
        return found


@pytest.fixture
def place(broker: Broker, tmp_path: Path) -> Iterator[Place]:
    made = Place(broker, tmp_path)
    try:
        yield made
    finally:
        for service in made.started:
            service.kill()


def encoded(events: list[Event]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def test_a_record_walks_from_the_topic_to_the_answer_and_over_a_restart(place: Place) -> None:
    stream = open_stream("agrawal", seed=7)
    first, second = stream.events(12_000), stream.events(1_000)
    service = place.serve()
    place.send(*encoded(first[:6000]), *POISON, *encoded(first[6000:]))
    service.wait_until_learned(len(first))

    nodes = grown_tree(service)
    predictions_fit_the_tree(service, nodes, second[:50])
    model_counts(service, nodes, place)
    metrics_tell_the_same(service)
    mistakes_are_problems_that_name_the_field(service)
    dead_letters_carry_the_bytes(place)
    ends_cleanly(service)

    kept = place.checkpoint()
    assert kept.offsets == {0: len(first) + len(POISON)}
    assert kept.events == len(first)
    assert kept.model_hash == learned_without_a_service(first).hash()

    resumed = place.serve()
    resumed.wait_until_learned(len(first))
    assert grown_tree(resumed) == nodes
    place.send(*encoded(second))
    resumed.wait_until_learned(len(first) + len(second))
    ends_cleanly(resumed)

    final = place.checkpoint()
    assert final.offsets == {0: len(first) + len(POISON) + len(second)}
    assert final.model_hash == learned_without_a_service(first + second).hash()
    assert len(place.broker.read(f"{place.topic}.dlq", len(POISON))) == len(POISON)


def learned_without_a_service(events: list[Event]) -> StreamingTree:
    """Return the tree that the learner alone grows, in batches of another size."""
    records = [{k: v for k, v in event.items() if k != "label"} for event in events]
    encoder = Encoder(Schema.infer(records[:500]))
    tree = StreamingTree(encoder, "vfdt", **PARAMS)
    for start in range(0, len(events), 777):
        part = slice(start, start + 777)
        labels = encoder.encode_labels([event["label"] for event in events[part]])
        tree.learn(encoder.encode_records(records[part]), labels)
    return tree


def grown_tree(service: Livetree) -> dict[int, Event]:
    tree = service.get("/tree").json()
    nodes = {node["id"]: node for node in tree["nodes"]}
    assert len(nodes) == tree["shape"]["nodes"] > 3
    assert f"{tree['shape']['nodes']:,} nodes" in service.get("/tree?format=text").body.decode()
    assert service.get("/tree?format=dot").body.startswith(b"digraph")
    return nodes


def predictions_fit_the_tree(
    service: Livetree, nodes: dict[int, Event], events: list[Event]
) -> None:
    rows = [{k: v for k, v in event.items() if k != "label"} for event in events]
    many = service.get("/predict?path=true", {"instances": rows}).json()
    one = service.get("/predict", {"features": rows[0]}).json()
    assert one.pop("snapshot") == many["snapshot"] == "vfdt-12000"
    assert one == {k: v for k, v in many["predictions"][0].items() if k != "path"}
    for row, answer in zip(rows, many["predictions"], strict=True):
        leaf = nodes[answer["leaf"]]
        assert answer["label"] == leaf["prediction"]
        total = sum(entry["weight"] for entry in leaf["distribution"])
        assert [(p["label"], p["probability"]) for p in answer["probabilities"]] == [
            (entry["label"], pytest.approx(entry["weight"] / total))
            for entry in leaf["distribution"]
        ]
        path_fits(row, answer, nodes)
    correct = sum(
        answer["label"] == event["label"]
        for event, answer in zip(events, many["predictions"], strict=True)
    )
    assert correct > 0.8 * len(events)


def path_fits(row: Event, answer: Event, nodes: dict[int, Event]) -> None:
    """Follow the path through the tree: every test must hold for the row."""
    here = next(node["id"] for node in nodes.values() if node["parent"] is None)
    for step in answer["path"]:
        node = nodes[here]
        assert (step["node"], step["feature"]) == (here, node["feature"])
        assert step["branch"] in node["children"]
        assert step["observed"] == row[step["feature"]]
        assert condition_holds(step, node)
        here = step["branch"]
    assert here == answer["leaf"]
    assert nodes[here]["kind"] == "leaf"


def condition_holds(step: Event, node: Event) -> bool:
    observed, value = step["observed"], step["value"]
    if step["operator"] == "==":
        return bool(observed == value and value in node["values"])
    if step["operator"] == "other":
        return bool(observed not in node["values"])
    assert value == node["threshold"]
    is_first: bool = observed <= value
    return is_first == bool(step["operator"] == "<=")


def model_counts(service: Livetree, nodes: dict[int, Event], place: Place) -> None:
    model = service.get("/model").json()
    counters = model["counters"]
    assert (model["name"], model["variant"], model["events"]) == ("walk", "vfdt", 12_000)
    assert model["params"]["n_min"] == 100
    assert model["offsets"] == {f"{place.topic}-0": 12_000 + len(POISON)}
    assert counters["weight"] == 12_000
    inner = sum(node["kind"] != "leaf" for node in nodes.values())
    assert counters["splits_bound"] + counters["splits_tie"] == inner
    assert counters["split_attempts"] == inner + counters["no_split"]
    assert model["shape"]["nodes"] == len(nodes)
    assert model["shape"]["leaves"] == len(nodes) - inner
    assert model["memory_bytes"] > 1000
    assert model["accuracy"] > 0.8
    assert model["window"]["events"] == 1000
    schema = service.get("/schema").json()
    assert [feature["name"] for feature in schema["features"][:2]] == ["salary", "commission"]
    assert sorted(schema["classes"]) == ["A", "B"]


def metrics_tell_the_same(service: Livetree) -> None:
    counters = service.get("/model").json()["counters"]
    attempts = 'livetree_split_attempts_total{model="walk",outcome="%s"}'
    expected = {
        attempts % "split": counters["splits_bound"],
        attempts % "tie_split": counters["splits_tie"],
        attempts % "no_split": counters["no_split"],
        'livetree_attribute_evaluations_total{model="walk"}': counters["attribute_evaluations"],
        'livetree_events_learned_total{model="walk"}': 12_000,
        **{f'livetree_events_rejected_total{{reason="{why}"}}': 1 for why in POISON.values()},
        **{f'livetree_dead_letters_total{{reason="{why}"}}': 1 for why in POISON.values()},
    }
    # The state of the tree reaches the metrics once a second.
    service.wait_until(lambda: expected.items() <= metrics_of(service).items())
    found = metrics_of(service)
    delays = [v for k, v in found.items() if k.startswith("livetree_split_delay_events_count")]
    assert sum(delays) == counters["audited_splits"] > 0
    lag = [v for k, v in found.items() if k.startswith("livetree_consumer_lag_records{")]
    assert lag == [0]
    accuracy = found['livetree_prequential_accuracy_ratio{model="walk",window="all"}']
    assert accuracy == service.get("/model").json()["accuracy"]
    assert found['livetree_predictions_total{model="walk",outcome="answered"}'] == 51


def mistakes_are_problems_that_name_the_field(service: Livetree) -> None:
    answer = service.get("/predict", {"features": {"age": "abc"}})
    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["field"] == "age"
    assert answer.json()["detail"] == "feature 'age' is 'abc'; expected a number"


def dead_letters_carry_the_bytes(place: Place) -> None:
    letters = place.broker.read(f"{place.topic}.dlq", len(POISON))
    assert [letter.value() for letter in letters] == list(POISON)
    offsets = [dict(letter.headers() or [])["__livetree.errors.offset"] for letter in letters]
    assert offsets == [str(6000 + place).encode() for place in range(len(POISON))]
