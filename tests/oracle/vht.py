"""VHT's modes event by event, over dictionaries: when a decision takes effect, and what is lost.

All statistics are in one place: that they may be spread over workers is what the learner's tests
compare with this.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.oracle.leaf import Leaf, Row, Verdict
from tests.oracle.timing import Wait
from tests.oracle.vfdt import OracleTree, Split


@dataclass
class Pending:
    """A decision that is taken and not yet in effect."""

    leaf: int
    event: int
    verdict: Verdict
    kept: list[tuple[Row, int, float]] = field(default_factory=list)
    missed: int = 0


@dataclass
class VhtOracle(OracleTree):
    """A tree whose decisions take effect some events later."""

    mode: str = "wk"
    lag: int = 0
    keep: int = 0
    keep_most: int = 1_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pending: deque[Pending] = deque()
        self.lost = self.kept = self.replayed = 0

    @property
    def buffered(self) -> int:
        """Events kept at the moment."""
        return sum(len(pending.kept) for pending in self.pending)

    def learn(self, x: Row, y: int, w: float = 1.0) -> None:
        """One labelled event, after the decisions that are due before it."""
        due = []
        while self.pending and self.events >= self.pending[0].event + self.lag:
            due.append(self.pending.popleft())
        again = [pending for pending in due if self._carry_out(pending)]
        self.counts_on_the_way = True  # these were counted when they first came
        for pending in again:
            for row, label, weight in pending.kept:
                self.replayed += 1
                self._go_down(self.nodes[pending.leaf], row, label, weight)
        self.counts_on_the_way = False
        self._begin(x, y, w)
        self._go_down(self.nodes[0], x, y, w)

    def _go_down(self, node: Leaf | Split, x: Row, y: int, w: float) -> None:
        while isinstance(node, Split):
            node = self._step(node, x, w)
        waiting = next((p for p in self.pending if p.leaf == node.id), None)
        if waiting is None:
            self._observe(node, x, y, w)
            if self._is_due(node):
                self._ask(node)
        elif self.mode == "wok":
            self.lost += 1
        else:
            self._observe(node, x, y, w)
            if len(waiting.kept) < self.keep and self.buffered < self.keep_most:
                waiting.kept.append((x, y, w))
                self.kept += 1
            else:
                waiting.missed += 1

    def _ask(self, leaf: Leaf) -> None:
        """The verdict is about the statistics of this moment."""
        leaf.n_last = leaf.n
        self.waits[leaf.id] = Wait(self.options.n_min)
        if leaf.is_pure(self.options):
            self.pure_checks += 1
            self._doubt_purity(leaf)
            return
        verdict = self._judge(leaf)
        self._doubt(verdict.doubtful, lasting=True)
        self.pending.append(Pending(leaf.id, self.events, verdict))

    def _carry_out(self, pending: Pending) -> bool:
        """Whether the leaf has split."""
        leaf, verdict = self.nodes[pending.leaf], pending.verdict
        assert isinstance(leaf, Leaf)
        self.attempts += 1
        self.attribute_evaluations += verdict.evaluations
        if verdict.kind == "none":
            self.no_split += 1
            return False
        self.lost += pending.missed
        self._accept(leaf, verdict)
        return True
