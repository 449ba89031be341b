"""What can go wrong in the learner.

LearnerError
├── SchemaError            the schema contradicts itself                (at start)
├── ParamsError            a parameter is out of its range              (at start)
├── EncodeError            one record does not fit the schema           (per record)
│   ├── BadValue           a feature's value is of a wrong type
│   └── UnknownLabel       a label was refused: too many classes
├── SnapshotError          these bytes are not a model of ours          (at start)
│   └── SnapshotVersion    ... but of another format version
├── WorkerLost             a worker's statistics are gone               (go back to the checkpoint)
└── UnknownNode            no node has this id                          (per request)
"""

from __future__ import annotations

__all__ = [
    "BadValue",
    "EncodeError",
    "LearnerError",
    "ParamsError",
    "SchemaError",
    "SnapshotError",
    "SnapshotVersion",
    "UnknownLabel",
    "UnknownNode",
    "WorkerLost",
]


class LearnerError(Exception):
    """Everything the learner raises on purpose."""


class SchemaError(LearnerError):
    """The schema contradicts itself."""


class ParamsError(LearnerError):
    """One or more parameters are unknown or out of range; ``problems`` lists all of them."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class EncodeError(LearnerError):
    """A record does not fit the schema."""


class BadValue(EncodeError):
    """A feature's value is of a wrong type; ``field`` names the feature."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        super().__init__(f"feature '{field}' is {shown}; expected {expected}")
        self.field = field


class UnknownLabel(EncodeError):
    """A label was refused because the model knows as many classes as it may."""


class SnapshotError(LearnerError):
    """These bytes are not a model of ours."""


class SnapshotVersion(SnapshotError):
    """The bytes are of a format version that this program does not read."""


class WorkerLost(LearnerError):
    """A worker died, or has not got every message: its statistics are not the tree's any more."""


class UnknownNode(LearnerError):
    """No node has this id."""
