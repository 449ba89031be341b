"""A tree as an ONNX model over doubles: one tree ensemble. Needs the extra `onnx`.

Input: one matrix of doubles, NaN where something is missing. A numeric feature is its number, a
nominal one the place of its value in the schema (-1 or NaN if it has none), and every token that a
test looks at a column of its own, 1 where it is held. The model's metadata name the columns.

A leaf tells the place of its class besides the probabilities: asked for the class by a
TreeEnsembleClassifier, ONNX Runtime 1.31 named the less likely one of two at some leaves.
Values are tested by ranges of their codes, one after the other; ranges may lead to the same node.
With tests for equality instead, rows ended at other leaves there than in the tree.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from app.export.document import ExportedTree, Node, branches_by_value, text_of

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
INPUT, LABEL, PROBABILITIES = "X", "label", "probabilities"


class Column(NamedTuple):
    """One column of the input."""

    name: str
    kind: str
    values: tuple[Any, ...]  # of a nominal feature, in the order of their codes; of a token, itself


class Test(NamedTuple):
    """One node of the ensemble: x <= value; a leaf has nothing to test."""

    column: int
    value: float
    if_true: int
    if_false: int
    missing_is_true: bool
    told: tuple[float, ...] = ()  # by a leaf: the place of its class, and all probabilities


class Segment(NamedTuple):
    """Codes of a nominal feature up to a number that lead to the same child."""

    up_to: float
    child: int | None  # None: rows end at the node itself


def columns_of(tree: ExportedTree) -> list[Column]:
    """Return the columns of the input, of the features that a test looks at."""
    found = []
    for feature in tree.tested:
        if feature.kind == "sparse_binary":
            found += [Column(feature.name, "token", (t,)) for t in tree.tokens_of(feature.name)]
        else:
            found.append(Column(feature.name, feature.kind, feature.values))
    return found


def onnx_model(tree: ExportedTree) -> bytes:
    """Return the model as bytes."""
    columns, classes = columns_of(tree), len(tree.classes)
    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        [INPUT],
        ["told"],
        domain="ai.onnx.ml",
        n_targets=1 + classes,
        **_attributes(Ensemble(tree, columns).tests),
    )
    steps = [
        ensemble,
        helper.make_node("Gather", ["told", "first"], ["place"], axis=1),
        helper.make_node("Cast", ["place"], ["code"], to=TensorProto.INT64),
        helper.make_node("Gather", ["labels", "code"], [LABEL], axis=0),
        helper.make_node("Slice", ["told", "one", "end", "one"], [PROBABILITIES]),
    ]
    labels = _labels(tree)
    constants = [
        labels,
        numpy_helper.from_array(np.array(0, np.int64), "first"),
        numpy_helper.from_array(np.array([1], np.int64), "one"),
        numpy_helper.from_array(np.array([1 + classes], np.int64), "end"),
    ]
    graph = helper.make_graph(
        steps,
        "livetree",
        [helper.make_tensor_value_info(INPUT, TensorProto.DOUBLE, ["rows", max(len(columns), 1)])],
        [
            helper.make_tensor_value_info(LABEL, labels.data_type, ["rows"]),
            helper.make_tensor_value_info(PROBABILITIES, TensorProto.FLOAT, ["rows", classes]),
        ],
        initializer=constants,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        producer_name="livetree",
        ir_version=IR_VERSION,
    )
    told = {
        "livetree.snapshot": tree.snapshot,
        "livetree.columns": json.dumps([column._asdict() for column in columns]),
        "livetree.classes": json.dumps(tree.classes),
    }
    helper.set_model_props(model, told)
    onnx.checker.check_model(model)
    written: bytes = model.SerializeToString()
    return written


class Ensemble:
    """Lays out the nodes of a tree as tests with two ways out each; no recursion."""

    def __init__(self, tree: ExportedTree, columns: list[Column]) -> None:
        self._tree = tree
        self._places: dict[tuple[str, Any], int] = {}
        for place, column in enumerate(columns):
            key = column.values[0] if column.kind == "token" else None
            self._places[column.name, key] = place
        self._first: dict[int, int] = {}  # where a node begins
        place = 0
        for node in tree.nodes.values():
            self._first[node.id] = place
            place += self._length(node)
        self.tests = [test for node in tree.nodes.values() for test in self._tests(node)]

    def _length(self, node: Node) -> int:
        if not node.children or node.kind in ("numeric", "contains"):
            return 1
        return len(self._segments(node)) - 1 + (node.missing is None)

    def _tests(self, node: Node) -> list[Test]:
        if not node.children:
            return [self._leaf(node)]
        if node.kind in ("numeric", "contains"):
            first, second = (self._first[child] for child in node.children)
            number = node.kind == "numeric"
            column = self._places[node.feature, None if number else node.values[0]]
            cut = node.threshold if number else 0.5
            return [Test(column, cut, first, second, node.missing == node.children[0])]
        return self._value_tests(node)

    def _leaf(self, node: Node) -> Test:
        told = (float(self._tree.classes.index(node.label)), *node.probabilities)
        return Test(0, 0.0, 0, 0, False, told)

    def _value_tests(self, node: Node) -> list[Test]:
        """One segment of the codes after the other; where rows end here, a leaf behind them."""
        segments, start = self._segments(node), self._first[node.id]
        column, own_leaf = self._places[node.feature, None], start + len(segments) - 1
        goals = [own_leaf if each.child is None else self._first[each.child] for each in segments]
        found = []
        for step, segment in enumerate(segments[:-1]):
            onward = goals[-1] if step == len(segments) - 2 else start + step + 1
            found.append(Test(column, segment.up_to, goals[step], onward, step == 0))
        return [*found, self._leaf(node)] if node.missing is None else found

    def _segments(self, node: Node) -> list[Segment]:
        """The codes from below 0, which is missing, to beyond the last known one."""
        ways = branches_by_value(node)
        found = [Segment(-0.5, node.missing)]
        values = self._tree.features[node.feature].values
        for code, value in enumerate(values):
            child = ways.get(value, node.missing)
            if found[-1].child == child:
                found.pop()
            found.append(Segment(code + 0.5, child))
        if found[-1].child != node.missing:
            found.append(Segment(len(values) + 0.5, node.missing))
        return found


def _attributes(tests: list[Test]) -> dict[str, Any]:
    leaves = [(place, test) for place, test in enumerate(tests) if test.told]
    told = np.array([test.told for _, test in leaves])
    values = np.array([test.value for test in tests])
    return {
        "nodes_treeids": [0] * len(tests),
        "nodes_nodeids": list(range(len(tests))),
        "nodes_featureids": [test.column for test in tests],
        "nodes_modes": ["LEAF" if test.told else "BRANCH_LEQ" for test in tests],
        "nodes_values_as_tensor": numpy_helper.from_array(values, "nodes_values"),
        "nodes_truenodeids": [test.if_true for test in tests],
        "nodes_falsenodeids": [test.if_false for test in tests],
        "nodes_missing_value_tracks_true": [int(test.missing_is_true) for test in tests],
        "target_treeids": [0] * told.size,
        "target_nodeids": [place for place, _ in leaves for _ in range(told.shape[1])],
        "target_ids": list(range(told.shape[1])) * len(leaves),
        "target_weights_as_tensor": numpy_helper.from_array(told.ravel(), "target_weights"),
    }


def _labels(tree: ExportedTree) -> Any:
    """Labels that are whole numbers stay so; all others become text."""
    whole = all(
        isinstance(each, int) and not isinstance(each, bool) and abs(each) < 2**63
        for each in tree.classes
    )
    if whole:
        return numpy_helper.from_array(np.array(tree.classes, np.int64), "labels")
    texts: Any = [text_of(each).encode() for each in tree.classes]
    return helper.make_tensor("labels", TensorProto.STRING, [len(texts)], texts)
