"""The rows of a request: read by one decoder that is made from the schema, or else plainly.

Where the quick way refuses a body it is read again, to say by name what is wrong with it, or to
take what only plain reading takes, as a whole number beyond every float. A schema that is very
wide, or has a name that a Struct cannot have, always takes the plain way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from app.api.body import decode_json
from app.api.problems import Refused
from app.event import NEEDS_ESCAPE, TYPES
from learner import BadValue, Batch, Feature, Snapshot

MOST_FIELDS = 256  # a field that is out of order is looked for among all of them


class PredictBody(msgspec.Struct):
    """What a client sends: features of one row, or instances of many."""

    features: dict[str, Any] | UnsetType = UNSET
    instances: list[dict[str, Any]] | UnsetType = UNSET


PLAIN = msgspec.json.Decoder(PredictBody)


class Asked(NamedTuple):
    """The rows of one request, either by the schema or as they were read."""

    many: bool  # whether a list was sent, be it of one row
    rows: Sequence[Sequence[Any]] = ()  # in schema order, of the right types
    records: Sequence[Mapping[str, Any]] = ()

    def __len__(self) -> int:
        return len(self.rows) or len(self.records)


class RowReader:
    """Reads bodies for one schema."""

    def __init__(self, features: Sequence[Feature], max_rows: int) -> None:
        self._max_rows = max_rows
        self._typed = typed_decoder(features)

    def read(self, raw: bytes) -> Asked:
        """Return the rows of a body; raises Refused."""
        if self._typed is not None:
            try:
                body = self._typed.decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass
            else:
                rows = self._checked(body)
                return Asked(body.features is UNSET, rows=[astuple(row) for row in rows])
        plain = decode_json(PLAIN, raw)
        return Asked(plain.features is UNSET, records=self._checked(plain))

    def _checked(self, body: Any) -> Sequence[Any]:
        if body.features is not UNSET:
            if body.instances is not UNSET:
                raise Refused(422, "body has 'features' and 'instances'; expected one of them")
            return [body.features]
        if body.instances is UNSET:
            raise Refused(
                422,
                "body has neither 'features' nor 'instances'; expected "
                '{"features": {...}} for one row or {"instances": [{...}, ...]} for many',
            )
        if not body.instances:
            raise Refused(
                422, "field 'instances' is empty; expected at least one row", field="instances"
            )
        if len(body.instances) > self._max_rows:
            raise Refused(
                413,
                f"field 'instances' has {len(body.instances)} rows; "
                f"expected at most {self._max_rows}",
                field="instances",
            )
        rows: Sequence[Any] = body.instances
        return rows


def typed_decoder(features: Sequence[Feature]) -> msgspec.json.Decoder[Any] | None:
    """Return a decoder whose rows are Structs of the features; None where it cannot be."""
    if len(features) > MOST_FIELDS or any(NEEDS_ESCAPE.search(each.name) for each in features):
        return None
    fields: list[tuple[str, Any, Any]] = [
        (f"f{i}", TYPES[feature.kind], None) for i, feature in enumerate(features)
    ]
    rename = {f"f{i}": feature.name for i, feature in enumerate(features)}
    row: Any = msgspec.defstruct("Row", fields, rename=rename, gc=False)
    body = msgspec.defstruct(
        "Body",
        [("features", row | UnsetType, UNSET), ("instances", list[row] | UnsetType, UNSET)],
    )
    return msgspec.json.Decoder(body)


def encode_rows(snapshot: Snapshot, asked: Asked) -> Batch:
    """Encode all rows at once; a bad value is reported with its row."""
    if asked.rows:
        return snapshot.encode(asked.rows)
    try:
        return snapshot.encode_records(asked.records)
    except BadValue as exc:
        if not asked.many:
            raise
        row = first_bad_row(snapshot, asked.records)
        field = f"instances[{row}].{exc.field}"
        raise Refused(422, f"instances[{row}]: {exc}", field=field) from exc


def first_bad_row(snapshot: Snapshot, records: Sequence[Mapping[str, Any]]) -> int:
    """Return the place of the first row that cannot be encoded."""
    for row, record in enumerate(records):
        try:
            snapshot.encode_records([record])
        except BadValue:
            return row
    return 0
