"""Exported trees: what SQL, Python and ONNX answer is what the tree answers, to the last row."""

from __future__ import annotations

import json
import math
import random
import runpy
import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.commands.export import ExportFormat, render
from app.errors import NotExportable
from app.export.document import ExportedTree, export_document, text_of, tree_of
from app.export.onnx_model import Column, columns_of, onnx_model
from app.export.python_source import python_source
from app.export.sql import columns_of as sql_columns
from app.export.sql import quoted, sql_expression, token_column
from learner import Encoder, Feature, Kind, Schema, Snapshot, StreamingTree
from streams import open_stream
from tests.fuzz.model import MODELS, real_model
from tests.learner.concepts import Concept
from tests.learner.test_counterfactual import grown

ROWS = 10_000
STREAMS: dict[str, dict[str, Any]] = {
    "agrawal": {},
    "rtg": {},
    "led": {"nominal_split": "binary"},
    "sea": {},
    "tweets": {},
}
Records = list[dict[str, Any]]


@cache
def grown_on(stream_name: str) -> tuple[Snapshot, Records]:
    """A tree with many splits, and rows with gaps, unseen values and numbers at thresholds."""
    stream = open_stream(stream_name, seed=3)
    options = STREAMS[stream_name]
    tree = StreamingTree(Encoder(stream.schema), n_min=50.0, tau=0.2, **options)
    tree.learn(*stream.take(30_000))
    snapshot = tree.snapshot()
    assert snapshot.shape.nodes > 5
    records = [
        {k: v for k, v in event.items() if k != "label"}
        for event in open_stream(stream_name, seed=4).events(ROWS)
    ]
    return snapshot, roughened(snapshot, records)


def roughened(snapshot: Snapshot, records: Records) -> Records:
    """Make some values missing or unseen, and set numbers to thresholds and just above them."""
    rng = random.Random(7)
    cuts: dict[str, list[float]] = {}
    for view in snapshot.walk():
        if view.threshold is not None:
            cuts.setdefault(str(view.feature), []).append(view.threshold)
    kinds = {feature.name: feature.kind for feature in snapshot.schema.features}
    for record in records:
        for name in rng.sample(list(record), min(2, len(record))):
            chance = rng.random()
            if chance < 0.2:
                record[name] = None
            elif kinds[name] == Kind.NOMINAL and chance < 0.3:
                record[name] = "never seen" if isinstance(record[name], str) else 10**6
            elif name in cuts and chance < 0.7:
                cut = rng.choice(cuts[name])
                record[name] = cut if chance < 0.45 else math.nextafter(cut, math.inf)
    return records


def labels_of(snapshot: Snapshot, records: Records) -> list[Any]:
    codes = snapshot.predict(snapshot.encode_records(records))
    return [snapshot.classes[code] for code in codes]


def exported(snapshot: Snapshot) -> ExportedTree:
    """By way of JSON, as from a service."""
    return tree_of(json.loads(json.dumps(export_document(snapshot))))


def answers_of_sql(tree: ExportedTree, records: Records) -> list[Any]:
    """What SQLite says."""
    names = [(f, c) for f in tree.tested for c in sql_columns(tree, f)]
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE t (n INTEGER, {', '.join(quoted(c) for _, c in names)})"
                     if names else "CREATE TABLE t (n INTEGER)")  # fmt: skip
    rows = []
    for place, record in enumerate(records):
        row: list[Any] = [place]
        for feature, column in names:
            value = record.get(feature.name)
            if feature.kind == "sparse_binary":
                held = {token_column(feature.name, token) for token in value or ()}
                value = 1 if column in held else (None if place % 2 else 0)
            row.append(value)
        rows.append(row)
    marks = ", ".join("?" * (len(names) + 1))
    database.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    found = database.execute(f"SELECT\n{sql_expression(tree)} FROM t ORDER BY n").fetchall()
    database.close()
    return [label for (label,) in found]


def answers_of_python(tree: ExportedTree, records: Records) -> list[Any]:
    """What the file says, as a file of its own that finds nothing around it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tree.py"
        file.write_bytes(python_source(tree).encode())
        space = runpy.run_path(str(file))
    assert {name for name in space if not name.startswith("__")} == {"NODES", "predict"}
    return [space["predict"](record) for record in records]


def matrix_of(columns: list[Column], records: Records) -> np.ndarray[Any, Any]:
    """Records as docs/export.md says that the model takes them."""
    X = np.full((len(records), max(len(columns), 1)), np.nan)
    for place, column in enumerate(columns):
        codes = {value: code for code, value in enumerate(column.values)}
        for row, record in enumerate(records):
            value = record.get(column.name)
            if column.kind == "token":
                X[row, place] = float(column.values[0] in (value or ()))
            elif column.kind == "nominal":
                X[row, place] = codes.get(value, -1 if row % 2 else math.nan)
            elif value is not None:
                X[row, place] = value
    return X


def answers_of_onnx(tree: ExportedTree, records: Records) -> tuple[list[Any], Any]:
    """What ONNX Runtime says, labels and probabilities."""
    session = onnxruntime.InferenceSession(onnx_model(tree), providers=["CPUExecutionProvider"])
    X = matrix_of(columns_of(tree), records)
    labels, probabilities = session.run(None, {"X": X})
    return labels.tolist(), probabilities


@pytest.mark.parametrize("name", STREAMS)
def test_sql_gives_the_labels_of_the_tree(name: str) -> None:
    snapshot, records = grown_on(name)
    numbers = all(isinstance(each, int) and not isinstance(each, bool) for each in snapshot.classes)

    found = answers_of_sql(exported(snapshot), records)

    expected = labels_of(snapshot, records)
    assert found == (expected if numbers else [text_of(label) for label in expected])


@pytest.mark.parametrize("name", STREAMS)
def test_python_gives_the_labels_of_the_tree(name: str) -> None:
    snapshot, records = grown_on(name)

    assert answers_of_python(exported(snapshot), records) == labels_of(snapshot, records)


@pytest.mark.parametrize("name", STREAMS)
def test_onnx_gives_the_labels_and_probabilities_of_the_tree(name: str) -> None:
    snapshot, records = grown_on(name)
    numbers = all(isinstance(each, int) and not isinstance(each, bool) for each in snapshot.classes)

    found, probabilities = answers_of_onnx(exported(snapshot), records)

    expected = labels_of(snapshot, records)
    assert found == (expected if numbers else [text_of(label) for label in expected])
    np.testing.assert_array_equal(
        probabilities, snapshot.probabilities(snapshot.encode_records(records)).astype(np.float32)
    )


SPLITS = ("multiway", "binary", "subset")


@pytest.mark.parametrize("split", SPLITS)
@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    missing=st.sampled_from([0.0, 0.2]),
    declared=st.booleans(),
    empty=st.booleans(),
)
def test_all_formats_agree_on_random_trees(
    split: str, seed: int, missing: float, declared: bool, empty: bool
) -> None:
    concept = Concept(
        seed=seed, numeric=2, nominal=2, sparse=1, classes=2, values=5, missing=missing,
        declared=declared,
    )  # fmt: skip
    new_leaf = {"new_leaf": "empty"} if empty else {}
    snapshot = grown(concept, nominal_split=split, **new_leaf)
    names = [feature.name for feature in concept.schema().features]
    rows = [dict(zip(names, row, strict=True)) for row, _, _ in concept.events(300)]
    records, tree = roughened(snapshot, rows), exported(snapshot)

    expected = labels_of(snapshot, records)

    assert answers_of_sql(tree, records) == expected
    assert answers_of_python(tree, records) == expected
    assert answers_of_onnx(tree, records)[0] == expected


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_is_exported_or_refused_with_the_reason(name: str) -> None:
    snapshot = StreamingTree.from_bytes(real_model(name)).snapshot()
    document = export_document(snapshot)
    records = [
        {f"f{i}": value for i, value in enumerate(row)} for row, _, _ in MODELS[name][1].events(200)
    ]
    by_bayes = {each["answers_by"] for each in document["nodes"]} == {"votes", "bayes"}
    if not snapshot.classes or by_bayes or document["nodes"][0]["answers_by"] == "bayes":
        with pytest.raises(NotExportable, match=r"naive Bayes|no class yet"):
            tree_of(document)
        return

    expected = labels_of(snapshot, records)

    assert answers_of_sql(tree_of(document), records) == expected
    assert answers_of_python(tree_of(document), records) == expected
    assert answers_of_onnx(tree_of(document), records)[0] == expected


def test_naive_bayes_is_refused_unless_votes_will_do() -> None:
    snapshot = grown(Concept(seed=1), leaf_predictor="nb")
    document = export_document(snapshot)

    for form in (ExportFormat.sql, ExportFormat.python, ExportFormat.onnx):
        with pytest.raises(NotExportable, match=r"leaves answer by naive Bayes.*--by-votes"):
            render(document, form)
        assert render(document, form, by_votes=True)
    assert json.loads(render(document, ExportFormat.json)) == document


def test_adaptive_leaves_that_answer_by_votes_can_be_exported() -> None:
    snapshot = grown(Concept(seed=1, numeric=0, nominal=1), leaf_predictor="nba")
    by = {each["answers_by"] for each in export_document(snapshot)["nodes"]}

    if by == {"votes"}:
        assert exported(snapshot)
    else:
        with pytest.raises(NotExportable, match="naive Bayes"):
            exported(snapshot)


def chain(depth: int) -> ExportedTree:
    """A tree that is one long path, longer than Python's stack."""
    nodes: list[dict[str, Any]] = []
    common = {"values": [], "probabilities": [1.0, 0.0], "answers_by": "votes"}
    for level in range(depth):
        at, test = 2 * level, {"kind": "numeric", "feature": "x", "threshold": float(level)}
        below = {"children": [at + 1, at + 2], "missing": at + 2, "label": "even"}
        nodes.append({"id": at, **test, **below, **common})
        leaf = {"kind": "leaf", "feature": None, "threshold": None, "children": [], "missing": None}
        label = ("even", "odd")[level % 2]
        nodes.append({"id": at + 1, **leaf, **common, "label": label})
    nodes.append({"id": 2 * depth, **leaf, **common, "label": "even"})
    for node in nodes:
        node["probabilities"] = [1.0, 0.0] if node["label"] == "even" else [0.0, 1.0]
    schema = {"features": [{"name": "x", "kind": "numeric"}], "classes": ["even", "odd"]}
    document = {
        "snapshot": "deep-1", "schema": schema, "root": 0, "nodes": nodes,
        "shape": {"leaves": depth + 1},
    }  # fmt: skip
    return tree_of(document)


def test_a_tree_deeper_than_any_stack_is_exported() -> None:
    tree = chain(5000)
    records = [{"x": float(x)} for x in (-5, 0, 0.5, 1, 2, 2499, 4999, 10**6)] + [{}]
    expected = ["even", "even", "odd", "odd", "even", "odd", "odd", "even", "even"]

    assert answers_of_python(tree, records) == expected
    assert answers_of_sql(tree, records) == expected
    assert answers_of_onnx(chain(500), records[:5])[0] == expected[:5]


def test_names_values_and_labels_cannot_break_out() -> None:
    odd = ["a'b", '"; DROP TABLE t; --', "x\ny", "back\\slash", "ü", ""]
    name, token_name = 'na"me\n--', "tok'en"
    schema = Schema((Feature(name, Kind.NOMINAL), Feature(token_name, Kind.SPARSE)))
    tree = StreamingTree(Encoder(schema), n_min=20.0, delta=0.05, tau=0.5)
    records: Records = [{name: odd[row % 6], token_name: [odd[row // 6 % 6]]} for row in range(600)]
    labels = [f"label {odd[row % 6]}" if row // 6 % 6 else "to'ken" for row in range(600)]
    tree.learn(tree.encoder.encode_records(records), tree.encoder.encode_labels(labels))
    snapshot = tree.snapshot()
    assert {view.kind for view in snapshot.walk()} >= {"leaf", "multiway"}

    expected = labels_of(snapshot, records)

    found = exported(snapshot)._replace(snapshot='"""\n1/0\n--')
    assert answers_of_sql(found, records) == expected
    assert answers_of_python(found, records) == expected
    assert answers_of_onnx(found, records)[0] == expected


@pytest.mark.parametrize(
    ("labels", "in_sql", "in_onnx"),
    [
        ([True, False], ["true", "false"], ["true", "false"]),
        ([1, 7], [1, 7], [1, 7]),
        ([1.5, 2], [1.5, 2], ["1.5", "2"]),
        (["a", 2], ["a", "2"], ["a", "2"]),
    ],
)
def test_labels_keep_their_type_where_the_format_has_it(
    labels: list[Any], in_sql: list[Any], in_onnx: list[Any]
) -> None:
    schema = Schema((Feature("x", Kind.NUMERIC),))
    tree = StreamingTree(Encoder(schema), n_min=20.0, delta=0.05, tau=0.5)
    records: Records = [{"x": float(row % 2)} for row in range(60)]
    y = tree.encoder.encode_labels([labels[row % 2] for row in range(60)])
    tree.learn(tree.encoder.encode_records(records), y)
    found = exported(tree.snapshot())

    assert answers_of_sql(found, records[:2]) == in_sql
    assert answers_of_onnx(found, records[:2])[0] == in_onnx
    answers = answers_of_python(found, records[:2])
    assert answers == labels
    assert list(map(type, answers)) == list(map(type, labels))


def test_a_tree_of_one_leaf_answers_all() -> None:
    snapshot = grown(Concept(seed=1), events=10)
    assert snapshot.shape.nodes == 1
    (label,) = labels_of(snapshot, [{}])

    found = exported(snapshot)

    assert answers_of_sql(found, [{}, {}]) == [label, label]
    assert answers_of_python(found, [{}]) == [label]
    assert answers_of_onnx(found, [{}])[0] == [label]


def test_values_of_several_types_are_refused_in_sql_alone() -> None:
    tree = StreamingTree(Encoder(Schema((Feature("c", Kind.NOMINAL, ("a", 2)),))), n_min=20.0)
    records: Records = [{"c": "a" if row % 2 else 2} for row in range(400)]
    y = tree.encoder.encode_labels([row % 2 for row in range(400)])
    tree.learn(tree.encoder.encode_records(records), y)
    found = exported(tree.snapshot())

    with pytest.raises(NotExportable, match="'c' has values of several types"):
        sql_expression(found)
    assert answers_of_python(found, records[:2]) == [0, 1]


def test_the_python_file_takes_numbers_as_the_service_does() -> None:
    snapshot = grown(Concept(seed=2, numeric=2, nominal=0))
    found, names = exported(snapshot), [f.name for f in snapshot.schema.features]
    records: Records = [
        dict.fromkeys(names, value)
        for value in (math.inf, -math.inf, math.nan, 10**400, 0, -3, 2**60 + 1, None)
    ]

    assert answers_of_python(found, records) == labels_of(snapshot, records)
