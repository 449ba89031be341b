"""How late a timing is: a reference that tests at every event grows the tree.

A node that the reference has split lives on as a ghost, which learns and attempts by its own
timing; the weight it sees until its own attempt passes is its delay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.oracle.leaf import Leaf, Row, Verdict
from tests.oracle.vfdt import OracleTree, Split, SplitEvent


@dataclass(frozen=True)
class Ghost:
    """A node that the reference has split, by a bound or a tie, at some weight."""

    leaf: Leaf
    kind: str
    n: float


class ReferenceOracle(OracleTree):
    """The tree of the reference, with the ghosts that have not split yet."""

    counts_on_the_way = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ghosts: dict[int, Ghost] = {}

    @property
    def unresolved(self) -> int:
        """Ghosts that have not split yet."""
        return len(self.ghosts)

    def learn(self, x: Row, y: int, w: float = 1.0) -> None:
        """One labelled event, also counted by the ghosts on its way."""
        self._begin(x, y, w)
        node = self.nodes[0]
        while isinstance(node, Split):
            ghost = self.ghosts.get(node.id)
            if ghost is not None:
                self._observe(ghost.leaf, x, y, w)
                self._consider(ghost.leaf)
            node = self._step(node, x, w)
        self._learn_at(node, x, y, w)
        self._end()

    def _learn_at(self, leaf: Leaf, x: Row, y: int, w: float) -> None:
        self._score_predictors(leaf, x, y, w)
        self._observe(leaf, x, y, w)
        if leaf.n >= self.options.reference_from and not leaf.is_pure(self.options):
            self._refer(leaf)
        self._consider(leaf)

    def _refer(self, leaf: Leaf) -> None:
        """The reference's own test of all attributes."""
        self._doubt_purity(leaf)
        verdict = self._judge(replace(leaf, poor=set()), settle=False)
        self._doubt(verdict.doubtful)
        if verdict.kind == "none":
            return
        assert verdict.best is not None
        self.ghosts[leaf.id] = Ghost(leaf, verdict.kind, leaf.n)
        self.history.note(self.events, leaf, verdict, verdict.kind)
        self._install(leaf, verdict.best)

    def _keeps_doubts(self) -> bool:
        return True

    def _accept(self, leaf: Leaf, verdict: Verdict) -> None:
        """The ghost splits at last; a leaf that is ahead of the reference has to wait for it."""
        ghost = self.ghosts.pop(leaf.id, None)
        if ghost is None:
            self._refuse(leaf, verdict)
            return
        assert verdict.best is not None
        self.splits.append(
            SplitEvent(
                self.events, leaf.id, leaf.depth, ghost.kind, verdict.best.feature, leaf.n,
                verdict.merit, verdict.second_merit, verdict.bound, leaf.n - ghost.n,
            )
        )  # fmt: skip
        self.history.changed(leaf.id)
        self.audited_splits += 1
        self._forget_timing(leaf.id)
        node = self.nodes[leaf.id]
        assert isinstance(node, Split)
        node.votes = leaf.votes()

    def _own_votes(self, node: Leaf | Split) -> dict[int, float]:
        """A ghost goes on counting votes."""
        ghost = self.ghosts.get(node.id)
        return super()._own_votes(node) if ghost is None else ghost.leaf.votes()
