"""Whole trees side by side, each with its share of the events: what VHT is measured against.

[KDBM16] calls it *sharding*: event i goes to tree i mod p, and the majority of the trees answers.
Nothing has to be told between the trees, but each grows from a p-th of the events, and together
they hold p times the statistics.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.encoder import Encoder
from learner.errors import ParamsError
from learner.snapshot import Counters, Shape
from learner.streaming_tree import SplitRecord, StreamingTree, room_for_answers

Codes = npt.NDArray[np.int32]

FRESH = 100  # events after which the trees answer from what they have learned by then


class ShardedTrees:
    """Learns, answers and counts as one tree does."""

    def __init__(self, encoder: Encoder, variant: str, shards: int, **params: Any) -> None:
        if shards < 1:
            raise ParamsError([f"shards is {shards}; expected at least 1"])
        self.encoder, self.variant = encoder, variant
        self.trees = [StreamingTree(encoder, variant, **params) for _ in range(shards)]
        self.params = self.trees[0].params
        self._events = 0
        self._answering = [tree.snapshot() for tree in self.trees]

    def learn(self, batch: Batch, y: Codes, predicted: Codes | None = None) -> None:
        """Deal the events out; ``predicted`` takes what the trees answered before.

        They answer as they were at the last multiple of FRESH events, however the batches are cut;
        who wants answers wants them of all events.
        """
        out, row = room_for_answers(predicted, len(y)), 0
        while row < len(y):
            end = min(len(y), row + FRESH - self._events % FRESH)
            part, labels = batch.part(row, end), np.asarray(y[row:end], np.int32)
            if len(out):
                if self._events % FRESH == 0:
                    self._answering = [tree.snapshot() for tree in self.trees]
                out[row:end] = majority(
                    np.array([snapshot.predict(part) for snapshot in self._answering])
                )
            for shard, tree in enumerate(self.trees):
                first = (shard - self._events) % len(self.trees)
                own = np.arange(first, end - row, len(self.trees), dtype=np.int32)
                if len(own):
                    tree.learn(part.take(own), labels[own])
            self._events += end - row
            row = end

    def counters(self) -> Counters:
        """What happened in all trees together."""
        return Counters(*map(sum, zip(*(tree.counters() for tree in self.trees), strict=True)))

    def shape(self) -> Shape:
        """The sizes of all trees together, and the depth of the deepest."""
        shapes = [tree.shape() for tree in self.trees]
        total = Shape(*map(sum, zip(*shapes, strict=True)))
        return total._replace(depth=max(shape.depth for shape in shapes))

    def memory_bytes(self) -> int:
        """Bytes of all trees by the byte model of the memory bound."""
        return sum(tree.memory_bytes() for tree in self.trees)

    def take_splits(self) -> list[SplitRecord]:
        """Structural changes since the last call, tree by tree."""
        return [record for tree in self.trees for record in tree.take_splits()]

    def hash(self) -> str:
        """One name for the exact state of all trees."""
        return hashlib.sha256("".join(tree.hash() for tree in self.trees).encode()).hexdigest()


def majority(votes: Codes) -> Codes:
    """The class that most trees name for each event, ``votes[tree, event]``; -1 is no vote.

    Among equals it is the lower class, as in a leaf.
    """
    classes = int(votes.max(initial=-1)) + 1
    counts = np.zeros((votes.shape[1], classes + 1), np.int32)
    for vote in votes:
        counts[np.arange(len(vote)), vote + 1] += 1
    counts[:, 0] = 0  # no vote wins only where there is no other
    chosen: Codes = counts.argmax(axis=1).astype(np.int32) - np.int32(1)
    return chosen
