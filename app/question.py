"""Questions about a leaf that is being learned: any thread asks, the consumer's answers.

A snapshot does not hold what leaves have counted. Between two batches the consumer copies the leaf
that was asked about, which takes microseconds; whoever asked evaluates the copy. So learning never
waits for a reader, and a reader waits for one batch at most.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future

from app.errors import LearnerBusy
from learner import LeafCopy, LearnerError, StreamingTree, UnknownNode

MOST_WAITING = 64  # questions that nobody has answered yet


class Questions:
    """A short queue of leaves that somebody wants to see."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Future[LeafCopy]]] = deque()

    def ask(self, leaf: int) -> Future[LeafCopy]:
        """Ask for a leaf by its id; raises LearnerBusy when too many wait already."""
        if len(self._waiting) >= MOST_WAITING:
            raise LearnerBusy(
                f"{len(self._waiting)} questions wait for the learner; expected fewer than "
                f"{MOST_WAITING}; try again in a moment"
            )
        answer: Future[LeafCopy] = Future()
        self._waiting.append((leaf, answer))
        return answer

    def answer(self, tree: StreamingTree | None) -> None:
        """Answer all that wait; in the consumer's thread, between two batches."""
        while tree is not None and self._waiting:
            leaf, answer = self._waiting.popleft()
            if not answer.set_running_or_notify_cancel():
                continue  # nobody waits any more
            try:
                answer.set_result(tree.copy_leaf(leaf))
            except LearnerError as exc:
                answer.set_exception(exc)
                if not isinstance(exc, UnknownNode):
                    raise
