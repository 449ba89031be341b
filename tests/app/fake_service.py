"""Doubles for the tests of the API: a model with known answers, a service without threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from app.metrics import Metrics
from app.question import Questions
from app.serving import Published, Serving
from app.settings import Settings
from app.timeline import Timeline
from learner import Encoder, Feature, Kind, Schema, SplitFacts, UnknownNode

SCHEMA = Schema(
    (
        Feature("age", Kind.NUMERIC),
        Feature("car", Kind.NOMINAL, ("small", "large")),
        Feature("words", Kind.SPARSE, ("good", "bad")),
    ),
    ("yes", 7, True),
)


class FakeShape(NamedTuple):
    """The shape of the fake tree."""

    nodes: int = 3
    leaves: int = 2
    active_leaves: int = 1
    depth: int = 1


class FakeCounters(NamedTuple):
    """A few counters."""

    events: int = 120
    split_attempts: int = 4
    splits_bound: int = 2
    splits_tie: int = 1


@dataclass(frozen=True)
class FakeParams:
    """A few parameters."""

    n_min: float = 200.0
    criterion: str = "info_gain"


class FakeStep(NamedTuple):
    """One test of a path."""

    node: int
    feature: str
    operator: str
    value: object
    observed: object
    branch: int


class FakeNode(NamedTuple):
    """One node of a walk."""

    id: int
    parent: int | None
    depth: int
    branch: str
    feature: str | None
    test: str | None
    children: tuple[int, ...]
    weight: float
    share: float
    distribution: dict[Any, float]
    prediction: Any
    active: bool
    n: float
    kind: str = "leaf"
    threshold: float | None = None
    values: tuple[Any, ...] = ()
    created_at: int = 0
    age_events: int = 120
    split: SplitFacts | None = None


TREE = (
    FakeNode(
        0,
        None,
        0,
        "",
        "age",
        "age <= 40",
        (1, 2),
        120.0,
        1.0,
        {"yes": 70.0, 7: 50.0},
        "yes",
        True,
        0.0,
        split=SplitFacts("tie", 0.25, 0.24, 0.04, 100.0, 100, "car == small"),
    ),
    FakeNode(
        1, 0, 1, "age <= 40", None, None, (), 90.0, 0.75, {"yes": 60.0, 7: 30.0}, "yes", True, 90.0
    ),
    FakeNode(2, 0, 1, "age > 40", None, None, (), 30.0, 0.25, {7: 30.0}, 7, False, 30.0),
)


class FakeSnapshot:
    """age <= 40 gives 'yes', anything else gives 7; missing ages go left."""

    def __init__(
        self, nodes: Sequence[FakeNode] = TREE, classes: tuple[Any, ...] = SCHEMA.classes
    ) -> None:
        self.id = "snap-1"
        self.events = 120
        self.memory_bytes = 4096
        self.answers_by_leaf = False
        self.variant = "vfdt"
        self.schema = SCHEMA
        self.classes = classes
        self.counters = FakeCounters()
        self.shape = FakeShape()
        self.params = FakeParams()
        self.nodes = nodes
        self._encoder = Encoder(SCHEMA).frozen()

    def encode_records(self, records: Sequence[Mapping[str, object]]) -> Any:
        """Encode as the real one does."""
        return self._encoder.encode_records(records)

    def encode(self, rows: Sequence[Sequence[Any]]) -> Any:
        """Encode as the real one does."""
        return self._encoder.encode(rows)

    def settle(self, batch: Any) -> tuple[Any, Any]:
        """Answer by age, without probabilities."""
        codes, _, leaves = self.evaluate(batch)
        return codes, leaves

    def evaluate(self, batch: Any) -> tuple[Any, Any, Any]:
        """Answer by age."""
        rows = len(batch.numeric)
        if not self.classes:
            return np.full(rows, -1, np.int32), np.empty((rows, 0)), np.zeros(rows, np.int64)
        right = batch.numeric[:, 0] > 40
        codes = np.where(right, 1, 0).astype(np.int32)
        probabilities = np.zeros((rows, 3))
        probabilities[np.arange(rows), codes] = 0.75
        probabilities[np.arange(rows), 1 - codes] = 0.25
        return codes, probabilities, np.where(right, 2, 1).astype(np.int64)

    def path(self, batch: Any, row: int = 0) -> list[FakeStep]:
        """Explain by age."""
        age = batch.numeric[row, 0]
        observed = None if np.isnan(age) else age
        branch = int(age > 40)
        return [FakeStep(0, "age", ">" if branch else "<=", np.float64(40.0), observed, branch)]

    @property
    def importance(self) -> dict[str, float]:
        """Age alone is tested."""
        return {"age": 1.0}

    def levels(self, root: int | None = None) -> list[int]:
        """Count the nodes of each level."""
        found = [node.depth for node in self.walk(root)]
        return [found.count(level) for level in range(found[0], max(found) + 1)]

    def walk(self, root: int | None = None, depth: int | None = None) -> Iterator[FakeNode]:
        """Yield the nodes of the fake tree."""
        top = root or 0
        if top >= len(self.nodes):
            raise UnknownNode(f"node {top} is not in the tree; expected an id that it shows")
        for node in self.nodes:
            inside = node.id == top or top == 0
            if inside and (depth is None or node.depth - self.nodes[top].depth <= depth):
                yield node


class FakeService:
    """What the API needs of a service."""

    fed_by = "learner"

    def __init__(
        self,
        *,
        published: bool = True,
        auth: dict[str, Any] | None = None,
        timeline: Timeline | None = None,
        **http: Any,
    ) -> None:
        given = {"name": "fake", "http": http, "auth": auth or {}}
        self.settings = Settings.model_validate(given)
        self.metrics = Metrics()
        self.serving = Serving(timeline)
        self.questions = Questions()
        self.failure: Exception | None = None
        self.living = True
        self.shutting_down = False
        self.calls: list[str] = []
        if published:
            self.publish(FakeSnapshot())

    def publish(
        self, snapshot: Any, published_at: float = 1_700_000_000.0, offset: int = 120
    ) -> None:
        """Serve this snapshot."""
        self.serving.publish(
            Published(
                snapshot,
                published_at=published_at,
                offsets={"events-0": offset},
                accuracy=0.9,
                kappa=0.8,
                window_accuracy=0.95,
                window_kappa=None,
            )
        )

    def start(self) -> None:
        """Note the call."""
        self.calls.append("start")

    def tick(self) -> None:
        """Nothing is due."""

    def begin_shutdown(self) -> None:
        """Note the call."""
        self.calls.append("begin_shutdown")
        self.shutting_down = True

    def stop(self) -> None:
        """Note the call."""
        self.calls.append("stop")

    def alive(self) -> bool:
        """Return what the test has set."""
        return self.living

    def ready(self) -> tuple[bool, str]:
        """Ready with a snapshot, until the end begins."""
        if self.shutting_down:
            return False, "shutting down"
        if self.serving.current() is None:
            return False, "no snapshot has been published yet"
        return True, ""
