"""One request of the Open Inference Protocol answered from one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from app.api.body import decode_json
from app.api.problems import Refused
from app.api.rows import first_bad_row
from app.api.v2_tensor import (
    FP64,
    SIZE,
    Parameters,
    RequestInput,
    ResponseOutput,
    column_of,
    datatype_of,
    read_columns,
    to_bytes,
)
from learner import BadValue, Snapshot

PREDICT, PROBABILITIES = "predict", "predict_proba"
NAMES = (PREDICT, PROBABILITIES)


class RequestOutput(msgspec.Struct):
    """An output that is asked for."""

    name: str
    parameters: Parameters = {}


class InferRequest(msgspec.Struct):
    """What a client sends."""

    inputs: list[RequestInput]
    id: str | UnsetType = UNSET
    parameters: Parameters = {}
    outputs: list[RequestOutput] = []


class InferResponse(msgspec.Struct):
    """The answer; the version of the model is the snapshot's id."""

    model_name: str
    model_version: str
    outputs: list[ResponseOutput]
    id: str | UnsetType = UNSET


DECODER = msgspec.json.Decoder(InferRequest)


class Answered:
    """The answer to one request: JSON, bytes behind it, and how many rows were predicted."""

    def __init__(
        self, raw: bytes, header_length: int | None, model: str, snapshot: Snapshot, max_rows: int
    ) -> None:
        split = len(raw) if header_length is None else header_length
        request = decode_json(DECODER, raw[:split])
        wanted = _wanted(request)
        features = snapshot.schema.features
        records = read_columns(request.inputs, raw[split:], features, max_rows)
        outputs = _outputs(snapshot, records)
        self.rows = len(records)
        self._behind: list[bytes] = []
        response = InferResponse(
            model,
            snapshot.id,
            [self._written(outputs[name], binary) for name, binary in wanted],
            request.id,
        )
        self.json = msgspec.json.encode(response)

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join([self.json, *self._behind])

    @property
    def is_binary(self) -> bool:
        """Whether bytes follow the JSON."""
        return bool(self._behind)

    def _written(self, output: ResponseOutput, binary: bool) -> ResponseOutput:
        if not binary:
            return output
        assert output.data is not UNSET
        raw = to_bytes(output.data, output.datatype)
        self._behind.append(raw)
        return replace(output, data=UNSET, parameters={**output.parameters, SIZE: len(raw)})


def _wanted(request: InferRequest) -> list[tuple[str, bool]]:
    """Return the outputs to give, and whether as bytes."""
    binary = request.parameters.get("binary_data_output") is True
    if not request.outputs:
        return [(name, binary) for name in NAMES]
    for output in request.outputs:
        if output.name not in NAMES:
            expected = " or ".join(NAMES)
            raise Refused(400, f"output '{output.name:.80}' is not known; expected {expected}")
    return [
        (output.name, output.parameters.get("binary_data", binary) is True)
        for output in request.outputs
    ]


def _outputs(snapshot: Snapshot, records: Sequence[dict[str, Any]]) -> dict[str, ResponseOutput]:
    try:
        batch = snapshot.encode_records(records)
    except BadValue as exc:
        raise Refused(400, f"row {first_bad_row(snapshot, records)}: {exc}") from exc
    codes, probabilities, _ = snapshot.evaluate(batch)
    classes, rows = snapshot.classes, len(records)
    if not classes:
        raise Refused(503, "the model knows no class yet; try again later")
    datatype = datatype_of(classes)
    labels = column_of([classes[code] for code in codes.tolist()], datatype)
    named = {"classes": msgspec.json.encode(classes).decode()}
    return {
        PREDICT: ResponseOutput(PREDICT, [rows], datatype, data=labels),
        PROBABILITIES: ResponseOutput(
            PROBABILITIES, [rows, len(classes)], FP64, named, probabilities.ravel().tolist()
        ),
    }
