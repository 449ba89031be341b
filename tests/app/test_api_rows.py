"""How rows are read and answers kept: by the schema, by leaf, and never longer than a snapshot."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from learner import Encoder, Feature, Kind, Schema, Snapshot, StreamingTree
from streams import open_stream
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of


def taught(names: list[str], flipped: bool = False) -> Snapshot:
    """Return a tree that splits on the first of these numbers."""
    schema = Schema(tuple(Feature(name, Kind.NUMERIC) for name in names), ("low", "high"))
    tree = StreamingTree(Encoder(schema), n_min=20.0)
    rows = [[float(at % 10), *[0.0] * (len(names) - 1)] for at in range(2000)]
    labels = [(row[0] > 4.5) != flipped for row in rows]
    tree.learn(tree.encoder.encode(rows), [int(label) for label in labels])
    return tree.snapshot()


def serving(snapshot: Snapshot) -> tuple[FakeService, TestClient]:
    """Return a service of this snapshot, and a client of it."""
    service = FakeService()
    service.publish(snapshot)
    return service, client_of(service)


def label(client: TestClient, **features: Any) -> Any:
    """Ask for one row, alone and among others; they must agree."""
    alone = client.post("/predict", json={"features": features}).json()
    among = client.post("/predict", json={"instances": [{}, features]}).json()["predictions"][1]
    assert alone["label"] == among["label"]
    assert alone["probabilities"] == among["probabilities"]
    return alone["label"]


def test_an_answer_that_is_kept_is_the_same_as_the_first() -> None:
    _, client = serving(taught(["x"]))

    asked = [client.post("/predict", json={"features": {"x": 9}}).json() for _ in range(3)]

    assert asked[0] == asked[1] == asked[2]
    assert asked[0]["label"] == "high"


def test_answers_with_and_without_probabilities_are_kept_apart() -> None:
    _, client = serving(taught(["x"]))
    row = {"features": {"x": 9}}

    for _ in range(2):
        assert "probabilities" in client.post("/predict", json=row).json()
        assert "probabilities" not in client.post("/predict?probabilities=0", json=row).json()


def test_answers_do_not_outlive_their_snapshot() -> None:
    service, client = serving(taught(["x"]))
    assert (label(client, x=1), label(client, x=9)) == ("low", "high")

    service.publish(taught(["x"], flipped=True))

    assert (label(client, x=1), label(client, x=9)) == ("high", "low")


def test_features_in_another_order_are_read_by_their_names() -> None:
    service, client = serving(taught(["x", "y"]))
    assert label(client, y=1, x=9) == "high"

    service.publish(taught(["y", "x"]))

    assert label(client, x=9, y=1) == "low"


@pytest.mark.parametrize(
    "names", [["x", 'a "name"'], ["x", "back\\slash"], ["x", *(f"f{i}" for i in range(300))]]
)
def test_a_schema_that_no_struct_can_have_is_read_plainly(names: list[str]) -> None:
    _, client = serving(taught(names))

    assert label(client, x=9) == "high"
    assert label(client, x=1, **{names[1]: None}) == "low"
    answer = client.post("/predict", json={"instances": [{}, {names[1]: "abc"}]})
    assert_problem(answer, 422, "instances[1]: feature", f"instances[1].{names[1]}")


def test_a_number_beyond_every_float_is_missing_alone_and_among_many() -> None:
    _, client = serving(taught(["x"]))
    missing = label(client)

    for body in ('{"features": {"x": %s}}', '{"instances": [{}, {"x": %s}]}'):
        answer = client.post("/predict", content=(body % ("1" + "0" * 400)).encode()).json()
        assert answer.get("predictions", [answer])[-1]["label"] == missing


def test_a_feature_named_twice_counts_by_its_last_value() -> None:
    _, client = serving(taught(["x"]))

    answer = client.post("/predict", content=b'{"features": {"x": 1, "x": 9}}').json()

    assert answer["label"] == "high"


def test_many_rows_get_the_answers_that_each_gets_alone() -> None:
    stream = open_stream("agrawal", seed=5)
    tree = StreamingTree(Encoder(stream.schema), n_min=100.0)
    tree.learn(*stream.take(20_000))
    _, client = serving(tree.snapshot())
    rows = [{k: v for k, v in event.items() if k != "label"} for event in stream.events(2000)]

    many = client.post("/predict", content=json.dumps({"instances": rows})).json()["predictions"]

    assert len({answer["leaf"] for answer in many}) > 5
    for row, among_many in list(zip(rows, many, strict=True))[::40]:
        alone = client.post("/predict", json={"features": row}).json()
        del alone["snapshot"]
        assert alone == among_many
