"""GET /leaves/{id}: asked of the tree that learns, answered between two batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.api import leaves
from app.question import MOST_WAITING
from learner import Encoder, StreamingTree
from streams import open_stream
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of


@pytest.fixture(scope="module")
def tree() -> StreamingTree:
    """Return a tree with a few splits."""
    stream = open_stream("agrawal", 1, function=2)
    tree = StreamingTree(Encoder(stream.schema))
    tree.learn(*stream.take(20_000))
    return tree


@pytest.fixture
def service(tree: StreamingTree) -> FakeService:
    """Return a service that has published that tree."""
    service = FakeService()
    service.publish(tree.snapshot())
    return service


@contextmanager
def answering(service: FakeService, tree: StreamingTree) -> Iterator[None]:
    """Answer questions as the consumer's thread does between batches."""
    over = threading.Event()

    def loop() -> None:
        while not over.wait(0.01):
            service.questions.answer(tree)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_every_leaf_of_the_tree_says_why_not_yet(service: FakeService, tree: StreamingTree) -> None:
    client, before = client_of(service), tree.hash()
    nodes = {node["id"]: node for node in client.get("/tree").json()["nodes"]}
    found = [node["id"] for node in nodes.values() if node["kind"] == "leaf"]

    with answering(service, tree):
        answers = {leaf: client.get(f"/leaves/{leaf}").json() for leaf in found}

    assert tree.hash() == before
    assert {answer["status"] for answer in answers.values()} <= set(leaves.STATUSES)
    for leaf, answer in answers.items():
        assert (answer["leaf"], answer["snapshot"]) == (leaf, "vfdt-20000")
        assert answer["branch"] == nodes[leaf]["branch"]
        assert answer["n"] == nodes[leaf]["n"]
        assert answer["distribution"] == nodes[leaf]["distribution"]
        assert answer["explanation"].endswith(".")
    waiting = [answer for answer in answers.values() if answer["status"] == "waiting"]
    assert waiting
    for answer in waiting:
        assert answer["gap"] == answer["best"]["merit"] - answer["second"]["merit"]
        assert answer["gap"] <= answer["bound"]
        assert answer["bound"] >= answer["tie"]
        assert answer["events_needed"] > 0.0
        assert 0.0 <= answer["next_attempt_in"] <= 200.0


def test_the_example_in_the_description_looks_like_an_answer(
    service: FakeService, tree: StreamingTree
) -> None:
    client = client_of(service)
    schema = client.get("/openapi.json").json()["components"]["schemas"]["LeafProspect"]
    leaf = next(view.id for view in tree.snapshot().walk() if view.kind == "leaf")

    with answering(service, tree):
        answer = client.get(f"/leaves/{leaf}").json()

    assert schema["examples"][0].keys() == schema["properties"].keys() == answer.keys()
    assert schema["required"] == list(schema["properties"])


def test_an_unknown_leaf_and_an_inner_node_are_404(
    service: FakeService, tree: StreamingTree
) -> None:
    client = client_of(service)

    with answering(service, tree):
        unknown, inner = client.get("/leaves/9999"), client.get("/leaves/0")

    assert_problem(unknown, 404, "leaf is 9999; the tree has no node of that id")
    assert_problem(inner, 404, "leaf is 0, a node that splits on 'salary'; expected a leaf, below")


def test_an_id_that_is_no_number_is_named(service: FakeService) -> None:
    answer = client_of(service).get("/leaves/x")

    assert_problem(answer, 422, "path parameter 'id' is 'x'; expected", "id")


def test_a_learner_that_does_not_answer_is_503(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "PATIENCE_SECONDS", -0.19)  # the wait for a record is 0.2

    answer = client_of(service).get("/leaves/1")

    assert_problem(answer, 503, "the learner did not answer within 0.01 seconds; expected")
    assert answer.json()["type"].endswith("learner-busy")
    service.questions.answer(None)  # who left is passed over
    client = client_of(service)
    for _ in range(MOST_WAITING + 1):
        last = client.get("/leaves/1")
    assert_problem(last, 503, "64 questions wait for the learner; expected fewer than 64")


def test_nothing_is_asked_before_the_first_snapshot() -> None:
    answer = client_of(FakeService(published=False)).get("/leaves/1")

    assert_problem(answer, 503, "no snapshot has been published yet")


def test_leaves_are_one_route_in_the_metrics(service: FakeService, tree: StreamingTree) -> None:
    client = client_of(service)
    with answering(service, tree):
        for view in tree.snapshot().walk():
            client.get(f"/leaves/{view.id}")
    client.get("/leaves/1/2")

    text = client.get("/metrics").text
    leaves_of_tree, nodes = tree.shape().leaves, tree.shape().nodes
    for code, count in (("200", leaves_of_tree), ("404", nodes - leaves_of_tree)):
        labels = f'code="{code}",method="GET",route="/leaves/{{id}}"'
        assert f"http_requests_total{{{labels}}} {float(count)}" in text
    assert 'http_requests_total{code="404",method="GET",route="unmatched"} 1.0' in text
