"""The API over a real tree: what it answers is what the snapshot says."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from learner import VARIANTS, Encoder, Snapshot, StreamingTree
from streams import open_stream
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    """Return a tree that has split a few times."""
    stream = open_stream("agrawal", seed=5)
    tree = StreamingTree(Encoder(stream.schema), n_min=100.0, leaf_predictor="nba")
    batch, labels = stream.take(20_000)
    tree.learn(batch, labels)
    return tree.snapshot()


@pytest.fixture(scope="module")
def client(snapshot: Snapshot) -> TestClient:
    """Return a client of an API over that tree."""
    service = FakeService()
    service.publish(snapshot)
    return client_of(service)


def rows(count: int) -> list[dict[str, Any]]:
    """Return rows without labels."""
    events = open_stream("agrawal", seed=6).events(count)
    return [{k: v for k, v in event.items() if k != "label"} for event in events]


def test_predictions_are_those_of_the_snapshot(client: TestClient, snapshot: Snapshot) -> None:
    asked = rows(300)
    codes, probabilities, leaves = snapshot.evaluate(snapshot.encode_records(asked))

    given = client.post("/predict", json={"instances": asked}).json()

    assert given["snapshot"] == snapshot.id
    assert [p["label"] for p in given["predictions"]] == [snapshot.classes[c] for c in codes]
    assert [p["leaf"] for p in given["predictions"]] == leaves.tolist()
    found = [[c["probability"] for c in p["probabilities"]] for p in given["predictions"]]
    np.testing.assert_array_equal(found, probabilities)


def test_one_row_alone_gets_the_answer_it_gets_among_many(client: TestClient) -> None:
    asked = rows(5)

    many = client.post("/predict", json={"instances": asked}).json()["predictions"]

    for row, among_many in zip(asked, many, strict=True):
        alone = client.post("/predict", json={"features": row}).json()
        del alone["snapshot"]
        assert alone == among_many


def test_the_path_ends_at_the_leaf_that_the_tree_shows(client: TestClient) -> None:
    nodes = {node["id"]: node for node in client.get("/tree").json()["nodes"]}

    answer = client.post("/predict?path=true", json={"features": rows(1)[0]}).json()

    assert len(nodes) > 1
    assert answer["path"][0]["node"] == 0
    assert answer["path"][-1]["branch"] == answer["leaf"]
    assert nodes[answer["leaf"]]["kind"] == "leaf"
    for step in answer["path"]:
        assert nodes[step["node"]]["feature"] == step["feature"]


def test_every_format_shows_every_node(client: TestClient, snapshot: Snapshot) -> None:
    count = snapshot.shape.nodes

    assert len(client.get("/tree").json()["nodes"]) == count
    assert len(client.get("/tree?format=text").text.splitlines()) == count + 1
    assert client.get("/tree?format=dot").text.count("->") == count - 1


def test_depth_and_node_cut_the_tree(client: TestClient) -> None:
    top = client.get("/tree?depth=1").json()["nodes"]
    first_child = top[0]["children"][0]

    assert {node["depth"] for node in top} == {0, 1}
    assert client.get(f"/tree?node={first_child}").json()["root"] == first_child
    assert_problem(client.get("/tree?node=123456"), 404, "node is 123456")


@pytest.mark.parametrize("text", ["1e308", "-1e308", "0.1e-400", "1" + "0" * 400])
def test_numbers_of_any_size_are_answered_or_refused_in_words(
    client: TestClient, text: str
) -> None:
    body = '{"features": {"salary": ' + text + "}}"

    answer = client.post("/predict", content=body.encode())

    assert answer.status_code in (200, 422), answer.text


def test_the_model_and_the_schema_are_described(client: TestClient, snapshot: Snapshot) -> None:
    model = client.get("/model").json()

    assert model["params"]["n_min"] == 100.0
    assert model["params"] == dataclasses.asdict(snapshot.params)
    assert model["counters"]["events"] == 20_000
    assert client.get("/schema").json() == snapshot.schema.to_dict()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_parameters_that_a_variant_brings_along_are_shown(variant: str) -> None:
    service = FakeService()
    encoder = Encoder(open_stream("sea").schema)
    service.publish(StreamingTree(encoder, variant, tau=0.25).snapshot())

    model = client_of(service).get("/model").json()

    assert model["variant"] == variant
    assert model["params"] == {
        **dataclasses.asdict(VARIANTS[variant].params_from({})),
        "tau": 0.25,
    }


def test_the_examples_in_the_description_look_like_real_answers(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    examples = {name: schemas[name]["examples"][0] for name in ("Model", "Schema", "Tree")}
    model, schema, tree = (client.get(path).json() for path in ("/model", "/schema", "/tree"))

    assert examples["Model"].keys() == model.keys()
    assert examples["Model"]["params"].keys() <= model["params"].keys()
    assert examples["Model"]["counters"].keys() <= model["counters"].keys()
    for part in ("shape", "window", "snapshot"):
        assert examples["Model"][part].keys() == model[part].keys()
    assert examples["Schema"].keys() == schema.keys()
    assert all(
        feature.keys() <= {"name", "kind", "values"} for feature in examples["Schema"]["features"]
    )
    assert examples["Tree"].keys() == tree.keys()
    assert examples["Tree"]["nodes"][0].keys() == tree["nodes"][0].keys()
    assert schemas["Node"]["properties"].keys() == tree["nodes"][0].keys()
