"""Sharding event by event: p whole trees over dictionaries, dealt out in turn, asked by vote."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

from tests.oracle.vfdt import OracleTree, Row


@dataclass
class ShardedOracle:
    """The trees answer as they were a multiple of ``fresh`` events after the beginning."""

    trees: list[OracleTree]
    fresh: int
    events: int = 0
    answering: list[OracleTree] = field(default_factory=list)

    def predict(self, x: Row) -> int:
        """The class with the most votes, the lower one of equals; -1 where nobody votes."""
        if self.events % self.fresh == 0:
            self.answering = deepcopy(self.trees)
        votes = Counter(tree.predict(x) for tree in self.answering)
        del votes[-1]
        most = max(votes.values(), default=0)
        return min((k for k in votes if votes[k] == most), default=-1)

    def learn(self, x: Row, y: int) -> None:
        """One event for the tree whose turn it is."""
        self.trees[self.events % len(self.trees)].learn(x, y)
        self.events += 1
