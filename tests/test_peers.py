"""Accuracy beside the peers, with their policies switched on (extra `peers`; MOA needs java).

Where semantics differ on purpose: MOA and river count inherited weight and rank the null split at
minus infinity, so both switches are set to theirs here; R is theirs by the classes of a leaf, ours
by the classes of the tree; river weighs a missing branch differently. Trees may therefore differ
in a few nodes, accuracy may not.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from learner import Batch, Encoder, Kind, Schema, StreamingTree
from streams import open_stream

EVENTS = 50_000
RIVER_EVENTS = 10_000
STREAMS: dict[str, tuple[str, dict[str, object]]] = {
    "rtg": ("rtg", {"classes": 2, "nominal": 5, "numeric": 5}),
    "sea": ("sea", {}),
    "agrawal": ("agrawal", {"function": 2}),
    "led": ("led", {}),
    "rbf50": ("rbf", {"classes": 5, "attributes": 50, "centroids": 50}),
    "waveform21": ("waveform21", {}),
}
LIKE_PEERS = {"new_leaf": "inherit", "null_merit": "minus_inf", "unseen": "grow"}


def moa_jar() -> Path | None:
    """The jar inside capymoa, without importing it (that would start a JVM)."""
    spec = importlib.util.find_spec("capymoa")
    if spec is None or not spec.submodule_search_locations or shutil.which("java") is None:
        return None
    jar = Path(spec.submodule_search_locations[0]) / "jar" / "moa.jar"
    return jar if jar.exists() else None


needs_moa = pytest.mark.skipif(
    moa_jar() is None, reason="capymoa (extra `peers`) with its moa.jar, or java, is not installed"
)
needs_river = pytest.mark.skipif(
    importlib.util.find_spec("river") is None, reason="river (extra `peers`) is not installed"
)


@cache
def rows(name: str, count: int) -> tuple[Schema, Batch, np.ndarray]:
    """The first events of a stream."""
    base, options = STREAMS[name]
    stream = open_stream(base, 1, **options)
    batch, y = stream.take(count)
    return stream.schema, batch, y


def our_accuracy(name: str, count: int) -> float:
    """Share of events that were predicted right before they were learned."""
    schema, batch, y = rows(name, count)
    tree = StreamingTree(Encoder(schema), "vfdt", **LIKE_PEERS)
    predicted = np.empty(len(y), np.int32)
    tree.learn(batch, y, None, predicted)
    return float(np.mean(predicted == y))


def columns(schema: Schema, batch: Batch) -> list[list[str]]:
    """Values as text, one list a feature in schema order; nominal ones as v0, v1, ..."""
    numeric, nominal = iter(batch.numeric.T), iter(batch.nominal.T)
    return [
        [repr(x) for x in next(numeric).tolist()]
        if feature.kind == Kind.NUMERIC
        else [f"v{code}" for code in next(nominal).tolist()]
        for feature in schema.features
    ]


def write_arff(path: Path, schema: Schema, batch: Batch, y: np.ndarray) -> None:
    """The events in MOA's file format."""
    lines = ["@relation stream"]
    for i, feature in enumerate(schema.features):
        names = ",".join(f"v{code}" for code in range(len(feature.values)))
        kind = "numeric" if feature.kind == Kind.NUMERIC else f"{{{names}}}"
        lines.append(f"@attribute a{i} {kind}")
    classes = ",".join(f"c{code}" for code in range(len(schema.classes)))
    lines += [f"@attribute class {{{classes}}}", "@data"]
    cells = [*columns(schema, batch), [f"c{code}" for code in y.tolist()]]
    lines += [",".join(row) for row in zip(*cells, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def moa_accuracy(name: str, folder: Path) -> float:
    """MOA's own prequential evaluation of its Hoeffding tree with majority leaves."""
    jar = moa_jar()
    assert jar is not None
    file = folder / "stream.arff"
    write_arff(file, *rows(name, EVENTS))
    task = (
        f"EvaluatePrequential -l (trees.HoeffdingTree -l MC) -s (ArffFileStream -f {file})"
        f" -e (BasicClassificationPerformanceEvaluator) -i {EVENTS} -f {EVENTS}"
    )
    command = ["java", "-cp", str(jar), "moa.DoTask", task]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    header, *values = (line for line in done.stdout.splitlines() if "," in line)
    place = header.split(",").index("classifications correct (percent)")
    return float(values[-1].split(",")[place]) / 100.0


@needs_moa
@pytest.mark.parametrize("name", STREAMS)
def test_accuracy_is_within_half_a_point_of_moa(name: str, tmp_path: Path) -> None:
    assert our_accuracy(name, EVENTS) == pytest.approx(moa_accuracy(name, tmp_path), abs=0.005)


@needs_river
@pytest.mark.parametrize("name", ["sea", "led", "agrawal"])
def test_accuracy_is_within_a_point_and_a_half_of_river(name: str) -> None:
    schema, batch, y = rows(name, RIVER_EVENTS)
    tree = importlib.import_module("river.tree").HoeffdingTreeClassifier(
        delta=1e-7, leaf_prediction="mc", nominal_attributes=[
            i for i, feature in enumerate(schema.features) if feature.kind == Kind.NOMINAL
        ]
    )  # fmt: skip
    plain = [
        [float(text) if feature.kind == Kind.NUMERIC else text for text in column]
        for feature, column in zip(schema.features, columns(schema, batch), strict=True)
    ]

    right = 0
    for row, label in zip(zip(*plain, strict=True), y.tolist(), strict=True):
        x = dict(enumerate(row))
        right += tree.predict_one(x) == label
        tree.learn_one(x, label)

    assert our_accuracy(name, RIVER_EVENTS) == pytest.approx(right / RIVER_EVENTS, abs=0.015)
