"""What it costs to have workers, as those who run them measure it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from learner import Workers


class Load(NamedTuple):
    """Totals since the workers began."""

    waited_seconds: float  # for answers
    sent_bytes: int  # to all workers; events that processes share once, 0 in threads
    busy_seconds: tuple[float, ...]  # of each worker
    held_bytes: tuple[int, ...] = ()  # statistics that each worker holds now; none where not told
    nodes: tuple[str, ...] = ()  # of the cluster that each worker runs on, if there is one
    decision_seconds: float = 0.0  # from questions to their answers, summed up


class Executor(Workers, Protocol):
    """Runs workers, tells what they cost, and ends them."""

    def load(self) -> Load:
        """Return the totals so far; does not wait for anybody."""

    def close(self) -> None:
        """End the workers; what they hold is gone."""
