"""Labelled events from a CSV or JSON-lines file, plain or gzipped, without Kafka.

The kinds of the columns are read off the file: a CSV column whose known values are all numbers is
numeric, any other is nominal; empty, `?`, `NA`, `nan` and `null` are missing. JSON lines have types
of their own; theirs are read off the first lines.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from app.errors import SettingsError
from learner import BadValue, Batch, Codes, Encoder, Feature, Kind, LearnerError, Schema, Value

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})
DELIMITERS = ",;\t|"
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
INFER_LINES = 10_000

Record = dict[str, Any]


class FileFeed:
    """The events of one file, from the first to the last; `events` and `batches` go on reading."""

    def __init__(
        self, path: Path, *, label: str | None = None, nominal: Sequence[str] = ()
    ) -> None:
        if not path.is_file():
            raise SettingsError([f"file '{path}' does not exist; expected a CSV or JSONL file"])
        self.name = path.name
        self._path = path
        self._nominal = frozenset(nominal)
        self.label, self.schema, self.rows, self._read = self._inspect(label)
        self._records = self._read()
        self.encoder = Encoder(self.schema)

    def _inspect(
        self, label: str | None
    ) -> tuple[str, Schema, int | None, Callable[[], Iterator[Record]]]:
        stem = self._path.name.removesuffix(".gz").lower()
        if stem.endswith(JSON_SUFFIXES):
            return self._inspect_json(label or "label")
        return self._inspect_csv(label)

    def events(self, n: int) -> list[Record]:
        """Return the next n events as mappings, label included; fewer at the end."""
        return list(islice(self._records, n))

    def batches(self, size: int) -> Iterator[tuple[Batch, Codes]]:
        """Yield the rest of the file as encoded batches of at most size events."""
        done = 0
        while records := self.events(size):
            labels = [record.pop(self.label) for record in records]
            try:
                batch = self.encoder.encode_records(records)
            except BadValue as exc:
                raise SettingsError(
                    [f"file '{self._path}', events {done + 1} to {done + len(records)}: {exc}"]
                ) from exc
            codes = self.encoder.encode_labels(labels)
            if codes.min() < 0:
                row = int(codes.argmin())
                raise SettingsError(
                    [
                        f"file '{self._path}', event {done + row + 1}: label '{self.label}' is "
                        f"{labels[row]!r:.80}; expected one of the {self.encoder.max_classes} "
                        "classes before it, which are the most there may be. Is it a number to "
                        "be estimated, or an id? Name another column with --label"
                    ]
                )
            yield batch, codes
            done += len(records)

    # --- JSON lines ---

    def _inspect_json(
        self, label: str
    ) -> tuple[str, Schema, int | None, Callable[[], Iterator[Record]]]:
        def read() -> Iterator[Record]:
            return self._json_records(label)

        first = list(islice(read(), INFER_LINES))
        for record in first:
            del record[label]
        try:
            schema = Schema.infer(first)
        except LearnerError as exc:
            raise SettingsError([f"file '{self._path}': {exc}"]) from exc
        return label, self._forced(schema), None, read

    def _json_records(self, label: str) -> Iterator[Record]:
        decoder = msgspec.json.Decoder(dict[str, Any])
        with _opened(self._path) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    record = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as exc:
                    raise self._fault(number, f"is not a JSON object: {exc}") from exc
                if not isinstance(record.get(label), str | int | float | bool):
                    raise self._fault(
                        number,
                        f"has no label: field '{label}' is {record.get(label)!r}; "
                        "expected a text, a number or a truth value (name another with --label)",
                    )
                yield record

    # --- CSV ---

    def _inspect_csv(
        self, label: str | None
    ) -> tuple[str, Schema, int | None, Callable[[], Iterator[Record]]]:
        rows = self._csv_rows()
        header = next(rows, None)
        if header is None:
            raise SettingsError([f"file '{self._path}' is empty; expected a header row"])
        label = label or header[-1]
        if label not in header:
            raise SettingsError(
                [f"label column '{label}' is not in '{self._path}'; it has {', '.join(header)}"]
            )
        numeric = [True] * len(header)
        whole = True  # are all labels whole numbers?
        place = header.index(label)
        count = 0
        for row in rows:
            count += 1
            if row[place].strip() in ("", "?"):
                raise SettingsError([f"file '{self._path}', row {count}: has no label"])
            whole = whole and _is_whole(row[place])
            for column, text in enumerate(row):
                if numeric[column] and not _is_missing(text) and not _is_number(text):
                    numeric[column] = False
        kinds = [Kind.NUMERIC if is_numeric else Kind.NOMINAL for is_numeric in numeric]
        features = tuple(
            Feature(name, kind) for name, kind in zip(header, kinds, strict=True) if name != label
        )
        try:
            schema = self._forced(Schema(features))
        except LearnerError as exc:
            raise SettingsError([f"file '{self._path}': {exc}"]) from exc
        numbers = {f.name for f in schema.features if f.kind == Kind.NUMERIC}

        def read() -> Iterator[Record]:
            return self._csv_records(header, label, numbers, whole)

        return label, schema, count, read

    def _csv_records(
        self, header: list[str], label: str, numbers: set[str], whole: bool
    ) -> Iterator[Record]:
        for row in islice(self._csv_rows(), 1, None):
            record: Record = {}
            for name, text in zip(header, row, strict=True):
                if name == label:
                    record[name] = _label(text, whole)
                elif _is_missing(text):
                    record[name] = None
                else:
                    record[name] = float(text) if name in numbers else text.strip()
            yield record

    def _csv_rows(self) -> Iterator[list[str]]:
        """Yield the header and then the rows; empty lines are left out."""
        with _opened(self._path) as raw:
            lines = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
            try:
                first = lines.readline()
                delimiter = max(DELIMITERS, key=first.count)
                header = next(csv.reader([first], delimiter=delimiter), None)
                if not header:
                    return
                header = [name.strip() for name in header]
                yield header
                for number, row in enumerate(csv.reader(lines, delimiter=delimiter), 2):
                    if not row:
                        continue
                    if len(row) != len(header):
                        raise self._fault(number, f"has {len(row)} columns; expected {len(header)}")
                    yield row
            except (UnicodeDecodeError, csv.Error) as exc:
                raise SettingsError([f"file '{self._path}' cannot be read as CSV: {exc}"]) from exc

    def _forced(self, schema: Schema) -> Schema:
        unknown = sorted(self._nominal - {feature.name for feature in schema.features})
        if unknown:
            raise SettingsError(
                [f"--nominal names '{name}', which is not in '{self._path}'" for name in unknown]
            )
        return Schema(
            tuple(
                Feature(feature.name, Kind.NOMINAL) if feature.name in self._nominal else feature
                for feature in schema.features
            )
        )

    def _fault(self, line: int, words: str) -> SettingsError:
        return SettingsError([f"file '{self._path}', line {line}: {words}"])


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        compressed = path.suffix == ".gz"
        with cast("IO[bytes]", gzip.open(path) if compressed else path.open("rb")) as opened:
            yield opened
    except (OSError, EOFError) as exc:
        raise SettingsError([f"file '{path}' cannot be read: {exc}"]) from exc


def _is_missing(text: str) -> bool:
    return text.strip().lower() in MISSING


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_whole(text: str) -> bool:
    stripped = text.strip()
    return stripped.removeprefix("-").isdecimal() and str(int(stripped)) == stripped


def _label(text: str, whole: bool) -> Value:
    return int(text) if whole else text.strip()
