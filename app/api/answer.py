"""The answers of one snapshot as JSON; what all rows of a leaf are told is written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from app.api.rows import Asked, encode_rows
from learner import Batch, Snapshot, Value

ENCODER = msgspec.json.Encoder()


class ClassProbability(msgspec.Struct):
    """One class and its probability; the label keeps its JSON type."""

    label: Value
    probability: float


class PathStep(msgspec.Struct):
    """One test on the way from the root to the leaf; branch is the node that it leads to."""

    node: int
    feature: str
    operator: str
    value: Any
    observed: Any
    branch: int


class Prediction(msgspec.Struct):
    """The answer for one row; label is null while the model has seen no class."""

    label: Value | None
    leaf: int
    probabilities: list[ClassProbability] | UnsetType = UNSET
    path: list[PathStep] | UnsetType = UNSET


class SingleAnswer(Prediction, kw_only=True):
    """The answer to `features`."""

    snapshot: str


class ManyAnswer(msgspec.Struct):
    """The answer to `instances`; predictions are in the order of the rows."""

    predictions: list[Prediction]
    snapshot: str


class Wanted(msgspec.Struct, frozen=True):
    """What the query asks for besides label and leaf."""

    probabilities: bool = True
    path: bool = False
    at: str | None = None  # which snapshot is to answer


class Answers:
    """Answers requests from one snapshot, and is kept as long as that is."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._end = b',"snapshot":' + ENCODER.encode(snapshot.id) + b"}"
        # What is said at a leaf, with probabilities and without, by the leaf's id.
        self._by_leaf: dict[bool, dict[int, bytes]] = {True: {}, False: {}}

    def answer(self, asked: Asked, wanted: Wanted) -> bytes:
        """Return the answer to one request; raises Refused or BadValue."""
        if self._snapshot.answers_by_leaf and not wanted.path:
            written = self._of_leaves(asked, wanted)
        else:
            written = self._of_rows(asked, wanted)
        if asked.many:
            return b'{"predictions":[' + b",".join(written) + b"]" + self._end
        return written[0][:-1] + self._end

    def _of_leaves(self, asked: Asked, wanted: Wanted) -> list[bytes]:
        known, snapshot = self._by_leaf[wanted.probabilities], self._snapshot
        if not asked.many and asked.rows:
            end = snapshot.end_of(asked.rows[0])
            found = known.get(end.id)
            if found is None:
                code, distribution = snapshot.votes_at(end.place)
                told = prediction_of(
                    snapshot.classes, code, end.id, distribution if wanted.probabilities else None
                )
                found = known[end.id] = ENCODER.encode(told)
            return [found]
        batch = encode_rows(snapshot, asked)
        leaves = snapshot.leaves(batch).tolist()
        rows = {leaf: row for row, leaf in enumerate(leaves)}
        for leaf in rows.keys() - known.keys():
            known[leaf] = self._written(batch.part(rows[leaf], rows[leaf] + 1), wanted)[0]
        return [known[leaf] for leaf in leaves]

    def _of_rows(self, asked: Asked, wanted: Wanted) -> list[bytes]:
        return self._written(encode_rows(self._snapshot, asked), wanted)

    def _written(self, batch: Batch, wanted: Wanted) -> list[bytes]:
        return [ENCODER.encode(each) for each in predictions(self._snapshot, batch, wanted)]


def predictions(snapshot: Snapshot, batch: Batch, wanted: Wanted) -> list[Prediction]:
    """Predict all rows with one snapshot."""
    classes, found = snapshot.classes, []
    distributions: Sequence[Sequence[float] | None] = [None] * batch.rows
    if wanted.probabilities:
        codes, probabilities, leaves = snapshot.evaluate(batch)
        distributions = probabilities.tolist()
    else:
        codes, leaves = snapshot.settle(batch)
    answers = zip(codes.tolist(), leaves.tolist(), distributions, strict=True)
    for row, (code, leaf, distribution) in enumerate(answers):
        prediction = prediction_of(classes, code, leaf, distribution)
        if wanted.path:
            prediction.path = path_of(snapshot, batch, row)
        found.append(prediction)
    return found


def prediction_of(
    classes: Sequence[Value], code: int, leaf: int, distribution: Sequence[float] | None
) -> Prediction:
    """Say one answer; without a distribution there are no probabilities."""
    prediction = Prediction(classes[code] if code >= 0 else None, leaf)
    if distribution is not None:
        prediction.probabilities = [
            ClassProbability(label, probability)
            for label, probability in zip(classes, distribution, strict=True)
        ]
    return prediction


def path_of(snapshot: Snapshot, batch: Batch, row: int) -> list[PathStep]:
    """Return the tests that lead one row to its leaf, from the root down."""
    return [
        PathStep(
            step.node,
            step.feature,
            step.operator,
            plain(step.value),
            plain(step.observed),
            step.branch,
        )
        for step in snapshot.path(batch, row)
    ]


def plain(value: object) -> object:
    """Return a numpy scalar as the Python value that JSON can carry; anything else as it is."""
    return value.item() if hasattr(value, "item") else value
