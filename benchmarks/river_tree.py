"""River's trees on the same rows, in this process."""

from __future__ import annotations

import gc
from importlib import import_module
from importlib.util import find_spec
from time import thread_time
from typing import Any

from benchmarks.workload import Rows
from learner import Kind

AS_OURS = {"grace_period": 200, "delta": 1e-7, "tau": 0.05, "split_criterion": "info_gain"}
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "HoeffdingTree": ("HoeffdingTreeClassifier", {"leaf_prediction": "mc"}),
    "NBAdaptive": ("HoeffdingTreeClassifier", {"leaf_prediction": "nba"}),
    "EFDT": (
        "ExtremelyFastDecisionTreeClassifier",
        {"leaf_prediction": "mc", "min_samples_reevaluate": 2000},
    ),
}


def river_is_there() -> bool:
    """Whether river is installed."""
    return find_spec("river") is not None


def dictionaries(rows: Rows) -> list[dict[str, Any]]:
    """Rows as river wants them."""
    numeric = iter(rows.batch.numeric.T.tolist())
    nominal = iter(rows.batch.nominal.T.tolist())
    features = rows.schema.features
    columns = [next(numeric if f.kind == Kind.NUMERIC else nominal) for f in features]
    names = [feature.name for feature in features]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def river_tree(rows: Rows, learner: str) -> Any:
    """A fresh tree, one of LEARNERS."""
    name, params = LEARNERS[learner]
    nominal = [f.name for f in rows.schema.features if f.kind == Kind.NOMINAL]
    made = getattr(import_module("river.tree"), name)
    return made(**AS_OURS, **params, nominal_attributes=nominal)


def run_river(
    rows: Rows, learner: str, seconds: float, predicts: bool
) -> tuple[int, float, float, int]:
    """Learn for so many seconds at most; events, seconds, accuracy and nodes."""
    records, labels = dictionaries(rows), rows.labels.tolist()
    model = river_tree(rows, learner)
    learn, predict, right, done = model.learn_one, model.predict_one, 0, 0
    gc.collect()
    began = thread_time()
    for record, label in zip(records, labels, strict=True):
        if predicts:
            right += predict(record) == label
        learn(record, label)
        done += 1
        if done % 100 == 0 and thread_time() - began > seconds:
            break
    spent = thread_time() - began
    return done, spent, right / done if predicts else float("nan"), model.n_nodes
