"""Records to rows of numbers; owns the codes of nominal values, tokens and classes.

Codes are given in the order of appearance, so the same events give the same codes whatever the
batch sizes. A frozen copy, held by a snapshot, gives no new ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from learner.batch import Batch, Codes, Floats, sparse_rows
from learner.errors import BadValue
from learner.schema import Feature, Kind, Schema, Value, kind_of

Grown = TypeVar("Grown", dict[Value, int], list[Value], list[tuple[int, Value]])

UNKNOWN = -1
LONGEST_TEXT = 1_000  # characters of a value, token or class that is taken up from an event


class Encoder:
    """The memory of names and values behind a tree.

    >>> encoder = Encoder(Schema.infer([{"age": 41, "car": "c7"}]))
    >>> encoder.encode_records([{"age": 30, "car": "c1"}, {"car": "c7"}]).nominal.ravel().tolist()
    [0, 1]
    """

    def __init__(
        self,
        schema: Schema,
        *,
        growing: bool = False,
        max_values: int = 10_000,
        max_classes: int = 1_000,
    ) -> None:
        self.growing = growing
        self.max_values = max_values
        self.max_classes = max_classes
        self.rejected_values = 0  # infinite numbers, taken as missing
        self.overflowed_values = 0  # nominal values and tokens: too many, or too long
        self.revision = 0  # goes up whenever a feature, value, token or class is new
        self._learning = True
        self._features: list[tuple[str, Kind]] = []
        self._of_kind: dict[Kind, list[int]] = {kind: [] for kind in Kind}
        self._names: set[str] = set()
        self._codes: list[dict[Value, int]] = []  # nominal value -> code; token -> token column
        self._values: list[list[Value]] = []  # of each feature in the order of their codes
        self._tokens: list[tuple[int, Value]] = []  # token column -> feature position, token
        self._classes: dict[Value, int] = {label: k for k, label in enumerate(schema.classes)}
        for feature in schema.features:
            self._add(feature)

    def _add(self, feature: Feature) -> None:
        position = len(self._features)
        self.revision += 1
        self._features.append((feature.name, feature.kind))
        self._of_kind[feature.kind].append(position)
        self._names.add(feature.name)
        self._codes.append({})
        self._values.append([])
        for value in feature.values:
            self._new_code(position, value)

    def _new_code(self, position: int, value: Value) -> int:
        codes = self._codes[position]
        if not self._learning or value != value:  # NaN is no value
            return UNKNOWN
        if len(codes) >= self.max_values:
            self.overflowed_values += 1
            return UNKNOWN
        self.revision += 1
        if self._features[position][1] == Kind.SPARSE:
            codes[value] = len(self._tokens)
            self._tokens.append((position, value))
        else:
            codes[value] = len(codes)
        self._values[position].append(value)
        return codes[value]

    def _learned_code(self, position: int, value: Value) -> int:
        """The code of a value that an event brings for the first time."""
        if self._learning and _is_too_long(value):
            self.overflowed_values += 1
            return UNKNOWN
        return self._new_code(position, value)

    def restore_token(self, position: int, token: Value) -> None:
        """Give a token the next column, as it had it in the model that is being read."""
        self._new_code(position, token)

    @property
    def schema(self) -> Schema:
        """Features with the values, and the classes, known by now."""
        features = tuple(
            Feature(name, kind, tuple(codes))
            for (name, kind), codes in zip(self._features, self._codes, strict=True)
        )
        return Schema(features, self.classes)

    @property
    def classes(self) -> tuple[Value, ...]:
        """The class labels; a label's place is its code."""
        return tuple(self._classes)

    @property
    def tokens(self) -> tuple[tuple[int, Value], ...]:
        """For each token column its feature's position and the token."""
        return tuple(self._tokens)

    def token(self, column: int) -> tuple[int, Value]:
        """The feature's position and the token of a token column."""
        return self._tokens[column]

    @property
    def token_count(self) -> int:
        """Number of token columns."""
        return len(self._tokens)

    @property
    def feature_count(self) -> int:
        """Number of features."""
        return len(self._features)

    def value_counts(self) -> list[int]:
        """Number of codes of each nominal feature, in schema order."""
        return [len(self._codes[position]) for position in self._of_kind[Kind.NOMINAL]]

    def value_name(self, position: int, code: int) -> Value:
        """The nominal value with this code."""
        return self._values[position][code]

    def feature_name(self, position: int) -> str:
        """The name of a feature."""
        return self._features[position][0]

    def positions(self, kind: Kind) -> list[int]:
        """Positions of the features of one kind."""
        return self._of_kind[kind]

    def admit(self, record: Mapping[str, object]) -> bool:
        """Add the features of a record that have no column yet; True if there were any.

        Only an encoder that is ``growing`` admits; a value that says nothing (null) waits.
        """
        if not (self.growing and self._learning):
            return False
        grown = False
        for name, value in record.items():
            kind = None if name in self._names or not name else kind_of(value)
            if kind is not None:
                self._add(Feature(name, kind))
                grown = True
        return grown

    def encode_labels(self, labels: Sequence[Value]) -> Codes:
        """Class codes; -1 for a new label that is too long, or one more than ``max_classes``."""
        classes = self._classes
        found = [classes.get(label, UNKNOWN) for label in labels]
        if UNKNOWN in found and self._learning:
            for row, label in enumerate(labels):
                refused = len(classes) >= self.max_classes or _is_too_long(label)
                if label not in classes and not refused:
                    classes[label] = len(classes)
                    self.revision += 1
                found[row] = classes.get(label, UNKNOWN)
        return np.array(found, np.int32)

    def encode_records(self, records: Sequence[Mapping[str, object]]) -> Batch:
        """A batch from mappings; absent and null features are missing. Types are checked."""
        rows = []
        for record in records:
            row = [record.get(name) for name, _ in self._features]
            for (name, kind), value in zip(self._features, row, strict=True):
                if value is not None:
                    check_value(name, kind, value)
            rows.append(row)
        return self.encode(rows)

    def encode(self, rows: Sequence[Sequence[Any]]) -> Batch:
        """A batch from rows in schema order whose types are right already; None = missing."""
        count = len(rows)
        # By columns: numpy takes a column of numbers twice as fast as the same in rows.
        columns = list(zip(*rows, strict=False)) or [()] * len(self._features)
        numeric = self._numbers(count, columns)
        nominal = np.empty((count, len(self._of_kind[Kind.NOMINAL])), np.int32)
        for column, position in enumerate(self._of_kind[Kind.NOMINAL]):
            nominal[:, column] = self._nominal(position, columns[position])
        start, index = np.zeros(count + 1, np.int64), np.zeros(0, np.int32)
        sparse = self._of_kind[Kind.SPARSE]
        if sparse:
            # Row by row: token columns are shared by all features, so their order is the events'.
            start, index = sparse_rows([self._tokens_held(sparse, row) for row in rows])
        return Batch(numeric, nominal, start, index)

    def _numbers(self, count: int, columns: Sequence[Sequence[Any]]) -> Floats:
        positions = self._of_kind[Kind.NUMERIC]
        numbers = np.empty((count, len(positions)))
        for column, position in enumerate(positions):
            try:
                numbers[:, column] = np.array(columns[position], np.float64)
            except OverflowError:  # an integer beyond every double is as good as infinite
                numbers[:, column] = [_as_float(value) for value in columns[position]]
        infinite = np.isinf(numbers)
        if infinite.any():
            self.rejected_values += int(infinite.sum())
            numbers[infinite] = math.nan
        return numbers

    def _nominal(self, position: int, column: Sequence[Value | None]) -> list[int]:
        codes = self._codes[position]
        found = [codes.get(value, UNKNOWN) for value in column]  # type: ignore[arg-type]
        if UNKNOWN in found:
            for row, value in enumerate(column):
                if found[row] == UNKNOWN and value is not None:
                    code = codes.get(value, UNKNOWN)
                    found[row] = code if code != UNKNOWN else self._learned_code(position, value)
        return found

    def _tokens_held(self, positions: Sequence[int], row: Sequence[Any]) -> list[int]:
        held = []
        for position in positions:
            codes = self._codes[position]
            for token in tokens_of(row[position]):
                code = codes.get(token, UNKNOWN)
                if code == UNKNOWN:
                    code = self._learned_code(position, token)
                if code != UNKNOWN:
                    held.append(code)
        return held

    def frozen(self, before: Encoder | None = None) -> Encoder:
        """A read-only copy: unknown values and labels become -1.

        ``before``, an earlier one, shares with it what is the same: codes are only ever added, so
        that equal lengths are equal contents.
        """
        twin = Encoder(
            Schema(()),
            growing=self.growing,
            max_values=self.max_values,
            max_classes=self.max_classes,
        )
        twin.rejected_values = self.rejected_values
        twin.overflowed_values = self.overflowed_values
        twin._learning = False
        twin._features = list(self._features)
        twin._of_kind = {kind: list(positions) for kind, positions in self._of_kind.items()}
        twin._names = set(self._names)
        had = before or twin
        twin._codes = [_copied(now, had._codes[i : i + 1]) for i, now in enumerate(self._codes)]
        twin._values = [_copied(now, had._values[i : i + 1]) for i, now in enumerate(self._values)]
        twin._tokens = _copied(self._tokens, [had._tokens])
        twin._classes = _copied(self._classes, [had._classes])
        return twin


def _copied(now: Grown, before: Sequence[Grown]) -> Grown:
    """A copy of what only grows; the earlier one, if there is one and nothing came since."""
    return before[0] if before and len(before[0]) == len(now) else now.copy()


def _is_too_long(value: Value) -> bool:
    """Whether keeping it would let a stream of texts fill the memory."""
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def _as_float(value: float | None) -> float:
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf


def tokens_of(value: Any) -> Sequence[Value]:
    """The tokens that a set-valued feature holds."""
    if value is None:
        return ()
    if isinstance(value, Mapping):
        return [token for token, held in value.items() if held]
    return list(value)


def check_value(name: str, kind: Kind, value: object) -> None:
    """Raise BadValue unless the value, which is not missing, is of the feature's kind."""
    if kind == Kind.NUMERIC:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadValue(name, value, "a number")
    elif kind == Kind.NOMINAL:
        if not isinstance(value, str | int | float | bool):
            raise BadValue(name, value, "a text, a number or a truth value")
    elif isinstance(value, Mapping):
        return
    elif not isinstance(value, list | tuple) or not all(
        isinstance(token, str | int | float | bool) for token in value
    ):
        raise BadValue(name, value, "a list of tokens, or an object of token: true")
