"""Streaming decision trees: a pure core without clock, log, environment, thread or file.

The public face; everything else is a detail.
"""

from __future__ import annotations

from learner.archive import Piece, seal
from learner.batch import HEAVIEST, Batch, Codes, dense_batch
from learner.board import Board
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
    WorkerLost,
)
from learner.explanation import Counterfactual, Decision, Evidence, Explanation, Factor
from learner.facts import SplitFacts
from learner.following import BoardReader
from learner.holding import held_bytes, reopened, set_apart
from learner.in_process import InProcess
from learner.leading import Leader, Led, Stretch
from learner.local_statistics import Beginning, Blocks, LocalStatistics, Share
from learner.message import (
    Block,
    Child,
    Distant,
    Done,
    Drop,
    Events,
    Known,
    LocalResult,
    Message,
    Wave,
)
from learner.neighbourhood import Change
from learner.params import TreeParams
from learner.prospect import LeafCopy, Option, Prospect
from learner.schema import Feature, Kind, Schema, Value
from learner.sharding import ShardedTrees
from learner.snapshot import Counters, NodeView, Shape, Snapshot, Step
from learner.snapshot_bytes import SnapshotReader, pack_snapshot
from learner.streaming_tree import SplitRecord, StreamingTree
from learner.variants import VARIANTS, Variant
from learner.vertical import AtABoard, Vertical, VerticalCounters, Workers, unfit
from learner.vertical_tree import VerticalTree

__all__ = [
    "HEAVIEST",
    "LONGEST_TEXT",
    "VARIANTS",
    "AtABoard",
    "BadValue",
    "Batch",
    "Beginning",
    "Block",
    "Blocks",
    "Board",
    "BoardReader",
    "Change",
    "Child",
    "Codes",
    "Counterfactual",
    "Counters",
    "Decision",
    "Distant",
    "Done",
    "Drop",
    "EncodeError",
    "Encoder",
    "Events",
    "Evidence",
    "Explanation",
    "Factor",
    "Feature",
    "InProcess",
    "Kind",
    "Known",
    "Leader",
    "LeafCopy",
    "LearnerError",
    "Led",
    "LocalResult",
    "LocalStatistics",
    "Message",
    "NodeView",
    "Option",
    "ParamsError",
    "Piece",
    "Prospect",
    "Schema",
    "SchemaError",
    "Shape",
    "ShardedTrees",
    "Share",
    "Snapshot",
    "SnapshotError",
    "SnapshotReader",
    "SnapshotVersion",
    "SplitFacts",
    "SplitRecord",
    "Step",
    "StreamingTree",
    "Stretch",
    "TreeParams",
    "UnknownLabel",
    "UnknownNode",
    "Value",
    "Variant",
    "Vertical",
    "VerticalCounters",
    "VerticalTree",
    "Wave",
    "WorkerLost",
    "Workers",
    "dense_batch",
    "held_bytes",
    "pack_snapshot",
    "reopened",
    "seal",
    "set_apart",
    "unfit",
]
