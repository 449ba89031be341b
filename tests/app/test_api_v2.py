"""The Open Inference Protocol: with one of its clients, by hand, and with what is wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tritonclient.utils import InferenceServerException

from app.api.v2_tensor import NUMBERS
from app.timeline import Timeline
from learner import Encoder, Snapshot, StreamingTree
from streams import open_stream
from tests.app.fake_service import FakeService, FakeSnapshot
from tests.app.listening import listening
from tests.app.test_api_predict import client_of
from tests.app.test_api_real_model import rows

MODEL = "/v2/models/fake"
KEY = "a-key-of-these-tests"
NUMERIC = ("salary", "commission", "age", "hvalue", "hyears", "loan")
NOMINAL = ("elevel", "car", "zipcode")


@cache
def real() -> FakeService:
    """A service with two snapshots of a real tree."""
    service = FakeService(published=False, timeline=Timeline(5, every_seconds=0), max_rows=2000)
    stream = open_stream("agrawal", seed=5)
    tree = StreamingTree(Encoder(stream.schema), n_min=100.0, leaf_predictor="nba")
    for step in range(2):
        tree.learn(*stream.take(5000))
        service.publish(tree.snapshot(), 1_700_000_000.0 + step)
    return service


def snapshot(place: int = 0) -> Snapshot:
    return real().serving.held()[place].snapshot


@pytest.fixture(scope="module")
def server() -> Iterator[triton.InferenceServerClient]:
    """Return a client of the real tree, over a socket."""
    with listening(real()) as address, triton.InferenceServerClient(address) as client:
        yield client


@pytest.fixture(scope="module")
def client() -> TestClient:
    """Return a client of the fake model: age, car, words."""
    return client_of(FakeService(max_rows=5))


def tensors(records: list[dict[str, Any]], *, binary: bool) -> list[triton.InferInput]:
    found = []
    for name in NUMERIC + NOMINAL:
        kind = "FP64" if name in NUMERIC else "BYTES"
        dtype = np.float64 if name in NUMERIC else np.object_
        column = np.array([record[name] for record in records], dtype)
        tensor = triton.InferInput(name, list(column.shape), kind)
        tensor.set_data_from_numpy(column, binary_data=binary)
        found.append(tensor)
    return found


def column(name: str, data: list[Any], datatype: str = "FP64", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": [len(data)], "datatype": datatype, "data": data, **more}


def ask(client: TestClient, *inputs: dict[str, Any], path: str = MODEL, **more: Any) -> Any:
    return client.post(f"{path}/infer", json={"inputs": list(inputs), **more})


def test_a_client_finds_the_server_and_the_model_ready(
    server: triton.InferenceServerClient,
) -> None:
    assert server.is_server_live()
    assert server.is_server_ready()
    assert server.is_model_ready("fake")
    assert server.is_model_ready("fake", "vfdt-5000")
    assert not server.is_model_ready("fake", "vfdt-1")
    assert not server.is_model_ready("other")
    about = server.get_server_metadata()
    assert about["name"] == "livetree"
    assert about["extensions"] == ["binary_tensor_data"]


def test_a_client_reads_what_the_model_takes_and_gives(
    server: triton.InferenceServerClient,
) -> None:
    found = server.get_model_metadata("fake")

    assert found["name"] == "fake"
    assert found["versions"] == ["vfdt-10000", "vfdt-5000"]
    kinds = {each["name"]: each["datatype"] for each in found["inputs"]}
    assert kinds == dict.fromkeys(NUMERIC, "FP64") | dict.fromkeys(NOMINAL, "BYTES")
    assert found["outputs"] == [
        {"name": "predict", "datatype": "BYTES", "shape": [-1]},
        {"name": "predict_proba", "datatype": "FP64", "shape": [-1, 2]},
    ]
    assert server.get_model_metadata("fake", "vfdt-5000")["inputs"] == found["inputs"]


@pytest.mark.parametrize("binary_in", [False, True], ids=["JSON in", "bytes in"])
@pytest.mark.parametrize("binary_out", [False, True], ids=["JSON out", "bytes out"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_client_gets_the_predictions_of_the_snapshot(
    server: triton.InferenceServerClient, binary_in: bool, binary_out: bool, place: int
) -> None:
    asked = rows(1500)
    codes, probabilities, _ = snapshot(place).evaluate(snapshot(place).encode_records(asked))
    outputs = [
        triton.InferRequestedOutput(name, binary_data=binary_out)
        for name in ("predict", "predict_proba")
    ]

    answer = server.infer(
        "fake",
        tensors(asked, binary=binary_in),
        model_version=snapshot(place).id if place else "",
        outputs=outputs,
        request_id="my request",
    )

    labels = answer.as_numpy("predict")
    said = [each.decode() if isinstance(each, bytes) else each for each in labels.tolist()]
    assert said == [snapshot(place).classes[code] for code in codes]
    np.testing.assert_array_equal(answer.as_numpy("predict_proba"), probabilities)
    response = answer.get_response()
    assert response["id"] == "my request"
    assert (response["model_name"], response["model_version"]) == ("fake", snapshot(place).id)
    probabilities_of = answer.get_output("predict_proba")
    assert json.loads(probabilities_of["parameters"]["classes"]) == list(snapshot(place).classes)
    assert ("data" in probabilities_of) == (not binary_out)


def test_without_a_choice_of_outputs_a_client_gets_both(
    server: triton.InferenceServerClient,
) -> None:
    answer = server.infer("fake", tensors(rows(3), binary=True))

    assert answer.as_numpy("predict").shape == (3,)
    assert answer.as_numpy("predict_proba").shape == (3, 2)


def test_a_client_is_told_what_is_wrong(server: triton.InferenceServerClient) -> None:
    with pytest.raises(
        InferenceServerException, match="model 'other' is not here; expected 'fake'"
    ):
        server.infer("other", tensors(rows(1), binary=False))
    with pytest.raises(InferenceServerException, match="there is no snapshot 'vfdt-1'; held are 2"):
        server.infer("fake", tensors(rows(1), binary=False), model_version="vfdt-1")
    wrong = triton.InferInput("age", [1], "BYTES")
    wrong.set_data_from_numpy(np.array(["old"], np.object_))
    with pytest.raises(InferenceServerException, match="row 0: feature 'age' is 'old'"):
        server.infer("fake", [wrong])


def test_columns_may_be_missing_and_hold_missing_values(client: TestClient) -> None:
    answer = ask(client, column("age", [30, None, 50.5]), id="7").json()

    assert answer == {
        "model_name": "fake",
        "model_version": "snap-1",
        "id": "7",
        "outputs": [
            {"name": "predict", "shape": [3], "datatype": "BYTES", "data": ["yes", "yes", "7"]},
            {
                "name": "predict_proba",
                "shape": [3, 3],
                "datatype": "FP64",
                "parameters": {"classes": '["yes",7,true]'},
                "data": [0.75, 0.25, 0, 0.75, 0.25, 0, 0.25, 0.75, 0],
            },
        ],
    }


def test_shapes_of_one_column_mean_the_same(client: TestClient) -> None:
    flat = ask(client, column("age", [30.0, 50.0]))
    tall = ask(client, {**column("age", [30.0, 50.0]), "shape": [2, 1]})
    nested = ask(client, {**column("age", [[30.0], [50.0]]), "shape": [2, 1]})

    assert flat.status_code == 200
    assert flat.json() == tall.json() == nested.json()


def test_request_parameters_of_other_servers_are_taken_and_ignored(client: TestClient) -> None:
    tensor = column("age", [30], "INT64", parameters={"content_type": "np"})

    assert ask(client, tensor, parameters={"content_type": "pd"}).status_code == 200


def test_a_set_is_a_row_of_tokens() -> None:
    seen: list[Any] = []

    class Watched(FakeSnapshot):
        def encode_records(self, records: Any) -> Any:
            seen.extend(records)
            return super().encode_records(records)

    service = FakeService()
    service.publish(Watched())
    words = column("words", ["good", "bad", "good", ""], "BYTES")

    assert ask(client_of(service), {**words, "shape": [2, 2]}).status_code == 200
    assert ask(client_of(service), words).status_code == 200
    assert [each["words"] for each in seen] == [
        ["good", "bad"], ["good"], ["good"], ["bad"], ["good"], [],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("classes", "datatype", "data"),
    [
        ((True, False, True), "BOOL", [True]),
        ((3, 4, 5), "INT64", [3]),
        ((0.5, 2, 3), "FP64", [0.5]),
        ((2**70, 1, 2), "FP64", [2**70]),
        (("a", 1, True), "BYTES", ["a"]),
        ((True, 1, 0.5), "BYTES", ["true"]),
    ],
)
def test_labels_keep_their_type_where_they_have_one(
    classes: tuple[Any, ...], datatype: str, data: list[Any]
) -> None:
    service = FakeService()
    service.publish(FakeSnapshot(classes=classes))
    client = client_of(service)

    found = ask(client, column("age", [30])).json()["outputs"][0]

    assert (found["datatype"], found["data"]) == (datatype, data)
    assert client.get(MODEL).json()["outputs"][0]["datatype"] == datatype
    asked = {"parameters": {"binary_data_output": True}}
    assert ask(client, column("age", [30]), **asked).status_code == 200


@pytest.mark.parametrize("datatype", NUMBERS)
def test_numbers_of_every_type_come_as_bytes(client: TestClient, datatype: str) -> None:
    raw = np.array([0, 1, 1], NUMBERS[datatype]).tobytes()
    tensor = {"name": "age", "shape": [3], "datatype": datatype}
    head = json.dumps(
        {"inputs": [{**tensor, "parameters": {"binary_data_size": len(raw)}}]}
    ).encode()

    answer = client.post(
        f"{MODEL}/infer",
        content=head + raw,
        headers={"inference-header-content-length": str(len(head))},
    )

    if datatype == "BOOL":
        assert "feature 'age' is False; expected a number" in answer.json()["error"]
    else:
        assert answer.json()["outputs"][0]["data"] == ["yes"] * 3


def bytes_of(
    client: TestClient, inputs: list[dict[str, Any]], raw: bytes, length: Any = None
) -> Any:
    head = json.dumps({"inputs": inputs}).encode()
    named = {"inference-header-content-length": str(len(head) if length is None else length)}
    return client.post(f"{MODEL}/infer", content=head + raw, headers=named)


def sized(name: str, datatype: str, size: Any, shape: list[int]) -> dict[str, Any]:
    parameters = {"binary_data_size": size}
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": parameters}


def test_not_a_number_is_missing(client: TestClient) -> None:
    answer = bytes_of(client, [sized("age", "FP64", 8, [1])], struct.pack("<d", float("nan")))

    assert answer.json()["outputs"][0]["data"] == ["yes"]


@pytest.mark.parametrize(
    ("inputs", "raw", "length", "words"),
    [
        ([sized("age", "FP64", 7, [1])], b"1234567", None, "expected a multiple of 8"),
        ([sized("age", "FP64", 9, [1])], b"12345678", None, "at most the 8 bytes that are left"),
        ([sized("age", "FP64", -1, [1])], b"12345678", None, "binary_data_size is -1"),
        ([sized("age", "FP64", True, [1])], b"12345678", None, "binary_data_size is True"),
        ([sized("age", "FP64", 8, [1])], b"123456789", None, "1 bytes follow the last tensor"),
        ([sized("age", "FP64", 8, [2])], b"12345678", None, "has 1 values; expected 2"),
        ([sized("car", "BYTES", 3, [1])], b"\1\0\0", None, "text 0 ends beyond its bytes"),
        ([sized("car", "BYTES", 5, [1])], b"\2\0\0\0x", None, "text 0 ends beyond its bytes"),
        ([sized("car", "BYTES", 5, [1])], b"\1\0\0\0\xff", None, "text 0 is not UTF-8"),
        ([], b"", 10_000, "content-length is 10000; expected at most"),
        ([], b"", "-1", "content-length is '-1'; expected a whole number"),
        ([], b"", "x", "content-length is 'x'; expected a whole number"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(
    client: TestClient, inputs: list[dict[str, Any]], raw: bytes, length: Any, words: str
) -> None:
    answer = bytes_of(client, inputs, raw, length)

    assert answer.status_code == 400
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("inputs", "status", "words"),
    [
        ([], 400, "field 'inputs' is empty"),
        ([column("income", [1])], 400, "input 'income' is no feature of the model"),
        ([column("age", [1]), column("age", [1])], 400, "input 'age' is there twice"),
        ([column("age", [1]), column("car", ["a", "b"], "BYTES")], 400, "'age' has 1, 'car' has 2"),
        ([column("age", [])], 400, "inputs have 0 rows; expected 1 to 5"),
        ([column("age", [1] * 6)], 413, "inputs have 6 rows; expected 1 to 5"),
        ([column("age", [1], "FP8")], 400, "datatype is 'FP8'; expected BYTES, BOOL, INT8"),
        ([{**column("age", [1]), "shape": [1, 1, 1]}], 400, "shape is [1, 1, 1]; expected [rows]"),
        ([{**column("age", [1]), "shape": [1, 2]}], 400, "expected [rows] or [rows, 1]"),
        ([{**column("age", [1]), "shape": []}], 400, "shape is []"),
        ([{**column("age", [1]), "shape": [-1]}], 400, "shape is [-1]"),
        ([{**column("age", [1]), "shape": [10**9]}], 400, "has 1 values; expected 1000000000"),
        ([{"name": "age", "shape": [1], "datatype": "FP64"}], 400, "has neither data nor"),
        ([column("age", ["1"])], 400, "input 'age': value 0 is '1'; expected FP64 or null"),
        ([column("age", [True])], 400, "value 0 is True; expected FP64"),
        ([column("age", [1, 1.5], "INT64")], 400, "value 1 is 1.5; expected INT64"),
        ([column("age", [1], "BOOL")], 400, "value 0 is 1; expected BOOL"),
        ([column("car", [1], "BYTES")], 400, "value 0 is 1; expected BYTES"),
        ([column("age", ["x"], "BYTES")], 400, "row 0: feature 'age' is 'x'; expected a number"),
        ([{"name": "age"}], 422, "missing required field"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    client: TestClient, inputs: list[dict[str, Any]], status: int, words: str
) -> None:
    answer = ask(client, *inputs)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]


def test_every_error_has_the_shape_of_the_protocol(client: TestClient) -> None:
    answers = {
        400: client.post(f"{MODEL}/infer", content=b"{"),
        404: client.get("/v2/nowhere"),
        405: client.put(MODEL),
        415: client.post(f"{MODEL}/infer", content=b"{}", headers={"content-type": "text/csv"}),
        503: client_of(FakeService(published=False)).get(MODEL),
        401: client_of(FakeService(auth={"keys": [KEY]})).get(MODEL),
    }
    packed = {"content-encoding": "gzip", "inference-header-content-length": "2"}
    assert client.post(f"{MODEL}/infer", content=b"{}", headers=packed).status_code == 415
    unknown = ask(client, column("age", [1]), outputs=[{"name": "leaf"}])
    assert unknown.json() == {
        "error": "output 'leaf' is not known; expected predict or predict_proba"
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert list(answer.json()) == ["error"]


def test_probes_need_no_key_and_the_model_does() -> None:
    client = client_of(FakeService(auth={"keys": [KEY]}))

    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    for path in ("/v2", MODEL, f"{MODEL}/ready", f"{MODEL}/versions/snap-1"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"x-api-key": KEY}).status_code == 200


def test_not_ready_is_503_and_false() -> None:
    service = FakeService(published=False)
    service.living = False
    client = client_of(service)

    assert client.get("/v2/health/live").json() == {"live": False}
    for path in ("/v2/health/live", "/v2/health/ready", f"{MODEL}/ready"):
        assert client.get(path).status_code == 503
    assert client.get(f"{MODEL}/ready").json() == {"name": "fake", "ready": False}


def test_predictions_are_counted_under_bounded_labels(client: TestClient) -> None:
    service = FakeService()
    client = client_of(service)
    ask(client, column("age", [1, 2, 3]))
    ask(client, column("age", ["x"]))
    client.get("/v2/models/other")

    text = client.get("/metrics").text
    assert 'livetree_predictions_total{model="fake",outcome="answered"} 3.0' in text
    assert 'livetree_predictions_total{model="fake",outcome="refused"} 1.0' in text
    assert 'code="404",method="GET",route="/v2/models/{model}"' in text


numbers = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
loose = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["age", "car", "words", "other"]),
        "shape": st.lists(st.integers(-1, 4), max_size=3),
        "datatype": st.sampled_from(["FP64", "INT64", "BOOL", "BYTES", "INT8", "FP16", ""]),
    },
    optional={
        "data": st.lists(numbers | st.lists(numbers, max_size=2), max_size=4),
        "parameters": st.dictionaries(
            st.sampled_from(["binary_data_size", "x"]), st.integers(-1, 40) | st.text(max_size=2)
        ),
    },
)


@settings(max_examples=300)
@given(inputs=st.lists(loose, max_size=3), raw=st.binary(max_size=60), split=st.booleans())
def test_any_tensor_is_answered_or_refused(
    inputs: list[dict[str, Any]], raw: bytes, split: bool
) -> None:
    client = client_of(FakeService(max_rows=5))
    head = json.dumps({"inputs": inputs}).encode()
    named = {"inference-header-content-length": str(len(head))} if split else {}

    answer = client.post(f"{MODEL}/infer", content=head + raw * split, headers=named)

    assert answer.status_code in (200, 400, 413, 422), answer.text
    if answer.status_code == 200:
        rows_ = {output["shape"][0] for output in answer.json()["outputs"]}
        assert len(rows_) == 1
    else:
        assert list(answer.json()) == ["error"]
