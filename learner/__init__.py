"""Streaming decision trees: a pure core without clock, log, environment, thread or file.

The public face; everything else is a detail.
"""

from __future__ import annotations

from learner.archive import Piece, seal
from learner.batch import HEAVIEST, Batch, Codes, dense_batch
from learner.encoder import LONGEST_TEXT, Encoder
from learner.errors import (
    BadValue,
    EncodeError,
    LearnerError,
    ParamsError,
    SchemaError,
    SnapshotError,
    SnapshotVersion,
    UnknownLabel,
    UnknownNode,
)
from learner.facts import SplitFacts
from learner.holding import held_bytes, reopened, set_apart
from learner.params import TreeParams
from learner.prospect import LeafCopy, Option, Prospect
from learner.schema import Feature, Kind, Schema, Value
from learner.snapshot import Counters, NodeView, Shape, Snapshot, Step
from learner.snapshot_bytes import SnapshotReader, pack_snapshot
from learner.streaming_tree import SplitRecord, StreamingTree
from learner.variants import VARIANTS, Variant

__all__ = [
    "HEAVIEST",
    "LONGEST_TEXT",
    "VARIANTS",
    "BadValue",
    "Batch",
    "Codes",
    "Counters",
    "EncodeError",
    "Encoder",
    "Feature",
    "Kind",
    "LeafCopy",
    "LearnerError",
    "NodeView",
    "Option",
    "ParamsError",
    "Piece",
    "Prospect",
    "Schema",
    "SchemaError",
    "Shape",
    "Snapshot",
    "SnapshotError",
    "SnapshotReader",
    "SnapshotVersion",
    "SplitFacts",
    "SplitRecord",
    "Step",
    "StreamingTree",
    "TreeParams",
    "UnknownLabel",
    "UnknownNode",
    "Value",
    "Variant",
    "dense_batch",
    "held_bytes",
    "pack_snapshot",
    "reopened",
    "seal",
    "set_apart",
]
