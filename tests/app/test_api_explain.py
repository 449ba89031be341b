"""POST /explain: the path, the evidence, the counterfactual, and every way to be refused."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from learner import Encoder, Feature, Kind, Schema, Snapshot, StreamingTree
from streams import open_stream
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of


def client_for(snapshot: Snapshot, **http: Any) -> TestClient:
    service = FakeService(**http)
    service.publish(snapshot)
    return client_of(service)


def grown(**params: Any) -> Snapshot:
    stream = open_stream("agrawal", seed=5)
    tree = StreamingTree(Encoder(stream.schema), n_min=100.0, tau=0.2, **params)
    tree.learn(*stream.take(20_000))
    return tree.snapshot()


@pytest.fixture(scope="module")
def client() -> TestClient:
    """Return a client of a tree whose leaves answer by their votes."""
    return client_for(grown(), body_limit_bytes=2000)


@pytest.fixture(scope="module")
def bayes() -> TestClient:
    """Return a client of a tree whose leaves answer by naive Bayes."""
    return client_for(grown(leaf_predictor="nb"))


def rows(count: int) -> list[dict[str, Any]]:
    events = open_stream("agrawal", seed=6).events(count)
    return [{k: v for k, v in event.items() if k != "label"} for event in events]


def explained(client: TestClient, **body: Any) -> dict[str, Any]:
    answer = client.post("/explain", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_answer_and_its_path_are_those_of_predict(client: TestClient) -> None:
    for row in rows(20):
        predicted = client.post("/predict?path=true", json={"features": row}).json()
        found = explained(client, features=row)

        for part in ("label", "leaf", "probabilities", "snapshot"):
            assert found[part] == predicted[part]
        for step, plain in zip(found["path"], predicted["path"], strict=True):
            assert ("threshold" in step) != ("value" in step)
            assert step.get("threshold", step.get("value")) == plain["value"]
            for part in ("node", "feature", "operator", "observed", "branch"):
                assert step[part] == plain[part]


def test_a_step_tells_how_many_events_went_the_same_way(client: TestClient) -> None:
    nodes = {node["id"]: node for node in client.get("/tree").json()["nodes"]}

    for step in explained(client, features=rows(1)[0])["path"]:
        assert step["support"] == pytest.approx(nodes[step["branch"]]["weight"])
        assert step["share"] == pytest.approx(nodes[step["branch"]]["share"])


@pytest.mark.parametrize("which", ["client", "bayes"])
def test_the_counterfactual_gets_its_label_from_the_same_snapshot(
    which: str, request: pytest.FixtureRequest
) -> None:
    client: TestClient = request.getfixturevalue(which)
    reached = 0
    for row in rows(25):
        found = explained(client, features=row)
        other = found["counterfactual"]
        if other is None:
            assert found["reason"]
            continue
        reached += 1
        again = client.post("/predict", json={"features": other["features"]}).json()
        assert (again["label"], again["leaf"]) == (other["label"], other["leaf"])
        assert again["label"] != found["label"]
        assert found["reason"] is None
        changed = {change["feature"] for change in other["changes"]}
        assert {name for name in row if row[name] != other["features"][name]} == changed
        assert other["exact"] or which == "bayes"
    assert reached > 10


def test_what_naive_bayes_weighs_is_told_for_every_class(bayes: TestClient) -> None:
    for row in rows(50):
        found = explained(bayes, features=row)
        if all(each["value"] is not None for each in found["prior"]):
            break

    assert [each["feature"] for each in found["bayes"]] == list(row)
    for each in found["bayes"]:
        assert each["observed"] == row[each["feature"]]
        assert [c["label"] for c in each["log_likelihoods"]] == ["A", "B"]
    columns = [found["prior"], *(each["log_likelihoods"] for each in found["bayes"])]
    sums = [sum(column[k]["value"] for column in columns) for k in range(2)]
    powers = [2.0 ** (each - max(sums)) for each in sums]
    expected = [each["probability"] for each in found["probabilities"]]
    assert [power / sum(powers) for power in powers] == pytest.approx(expected)


def test_votes_need_no_evidence(client: TestClient) -> None:
    found = explained(client, features=rows(1)[0])

    assert found["bayes"] is None
    assert found["prior"] is None


def test_frozen_features_stay(client: TestClient) -> None:
    row = rows(1)[0]
    free = explained(client, features=row)["counterfactual"]
    names = [change["feature"] for change in free["changes"]]

    found = explained(client, features=row, frozen=names)

    other = found["counterfactual"]
    if other is None:
        assert "frozen" in found["reason"]
    else:
        assert all(other["features"][name] == row[name] for name in names)
    everything = explained(client, features=row, frozen=list(row))
    assert everything["counterfactual"] is None
    assert "only if a frozen feature changes" in everything["reason"]


def test_the_answer_one_has_already_needs_no_change(client: TestClient) -> None:
    row = rows(1)[0]
    label = explained(client, features=row)["label"]

    found = explained(client, features=row, target=label)

    assert found["counterfactual"] is None
    assert found["reason"] == f'the answer is "{label}" already'


def test_a_target_can_be_named(client: TestClient) -> None:
    row = rows(1)[0]
    label = explained(client, features=row)["label"]
    other = {"A": "B", "B": "A"}[label]

    assert explained(client, features=row, target=other)["counterfactual"]["label"] == other


def test_tokens_are_added_and_taken_away() -> None:
    schema = Schema((Feature("words", Kind.SPARSE),))
    tree = StreamingTree(Encoder(schema), n_min=20.0, delta=0.05, tau=0.2)
    events = [[["good", "film"]], [["film"]]] * 40
    tree.learn(tree.encoder.encode(events), tree.encoder.encode_labels([True, False] * 40))
    client = client_for(tree.snapshot())

    less = explained(client, features={"words": ["good", "odd"]})["counterfactual"]
    more = explained(client, features={"words": ["odd"]})["counterfactual"]

    assert less["changes"] == [
        {
            "feature": "words",
            "from": ["good", "odd"],
            "to": ["odd"],
            "added": [],
            "removed": ["good"],
        }
    ]
    assert more["features"] == {"words": ["odd", "good"]}
    assert (less["label"], more["label"]) == (False, True)


def test_a_tree_without_a_class_says_so() -> None:
    schema = Schema((Feature("x", Kind.NUMERIC),))

    found = explained(client_for(StreamingTree(Encoder(schema)).snapshot()), features={"x": 1})

    assert found["label"] is None
    assert (found["path"], found["probabilities"]) == ([], [])
    assert found["reason"] == "the model has seen no class yet"


def test_a_model_of_one_class_has_no_other_answer() -> None:
    schema = Schema((Feature("x", Kind.NUMERIC),))
    tree = StreamingTree(Encoder(schema))
    tree.learn(tree.encoder.encode([[1.0]]), tree.encoder.encode_labels(["only"]))

    found = explained(client_for(tree.snapshot()), features={"x": 1})

    assert found["reason"] == "the model knows one class only"


@pytest.mark.parametrize(
    ("body", "status", "detail", "field"),
    [
        ('{"features": {"age": "abc"}}', 422, "feature 'age' is 'abc'; expected a number", "age"),
        ("{", 400, "body is not valid JSON", None),
        ("{}", 422, "object missing required field `features`", None),
        ('{"features": [1]}', 422, "expected `object`, got `array`", "features"),
        ('{"features": {}, "target": "C"}', 422, "is 'C'; expected one of 'A', 'B'", "target"),
        ('{"features": {}, "target": [1]}', 422, "field 'target'", "target"),
        ('{"features": {}, "frozen": ["ages"]}', 422, "field 'frozen' has 'ages'", "frozen"),
        ('{"features": {"x": "' + "y" * 2000 + '"}}', 413, "expected at most 2000 bytes", None),
    ],
)
def test_what_cannot_be_explained_is_refused_by_name(
    client: TestClient, body: str, status: int, detail: str, field: str | None
) -> None:
    answer = client.post("/explain", content=body, headers={"content-type": "application/json"})

    assert_problem(answer, status, detail, field)


def test_another_content_type_is_refused(client: TestClient) -> None:
    answer = client.post("/explain", content="{}", headers={"content-type": "text/csv"})

    assert_problem(answer, 415, "content-type is 'text/csv'")


def test_before_the_first_snapshot_nothing_is_explained() -> None:
    client = client_of(FakeService(published=False))

    assert_problem(client.post("/explain", json={"features": {}}), 503, "no snapshot")


def test_the_example_in_the_description_is_accepted_and_the_answer_is_as_described(
    client: TestClient,
) -> None:
    document = client.get("/openapi.json").json()
    operation = document["paths"]["/explain"]["post"]
    (example,) = operation["requestBody"]["content"]["application/json"]["examples"].values()

    found = explained(client, **example["value"])

    assert found.keys() == document["components"]["schemas"]["Explained"]["properties"].keys()


def test_an_earlier_snapshot_can_be_asked(client: TestClient) -> None:
    row = rows(1)[0]
    now = client.post("/explain", json={"features": row})
    named = client.post(f"/explain?at={now.json()['snapshot']}", json={"features": row})

    assert named.json() == now.json()
    assert_problem(client.post("/explain?at=vfdt-1", json={"features": row}), 404, "vfdt-1")
    assert client.get("/export?at=vfdt-1").status_code == 404
