"""What is agreed between a vertical tree, who runs its workers, and who sets it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy.typing as npt

from learner.leading import Led, Stretch
from learner.local_statistics import Beginning
from learner.message import LocalResult, Message
from learner.params import TreeParams
from learner.variants.vht import SYNC, WK, WOK

Array = npt.NDArray[Any]

MODES = {"sync": SYNC, "wok": WOK, "wk": WK}


class Workers(Protocol):
    """Who runs the workers."""

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        """Make one worker of each."""

    def post(self, number: int, message: Message) -> None:
        """Hand a message to every worker, in this order; need not wait."""

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """Wait for the answers to a question; those of workers that are silent are missing."""

    def settle(self) -> None:
        """Wait until no worker reads an array of this process any more."""

    def states(self) -> Sequence[Mapping[str, Array]]:
        """Wait for all that was posted; what the workers hold then, in their order."""


@runtime_checkable
class AtABoard(Protocol):
    """Who runs the workers where they share the aggregator's memory."""

    def lead(self, stretch: Stretch) -> Led | None:
        """Go through events in mode sync as far as a board allows; None: there is none, for now."""


class Vertical(NamedTuple):
    """How many workers there are, and when a decision takes effect."""

    workers: int = 2
    mode: str = "sync"  # sync, wok, wk
    lag: int = 1000  # events from a question to its decision; not in mode sync
    keep: int = 1000  # z: events of a waiting leaf that are learned again below its split; wk
    keep_most: int = 100_000  # the same for all leaves together
    partial: bool = False  # decide although a worker has not answered

    def problems(self) -> list[str]:
        """What is wrong with these."""
        found = []
        if self.mode not in MODES:
            found.append(f"mode is {self.mode!r}; expected one of {', '.join(MODES)}")
        for name, least in (("workers", 1), ("lag", 0), ("keep", 0), ("keep_most", 0)):
            if getattr(self, name) < least:
                found.append(f"{name} is {getattr(self, name)}; expected at least {least}")
        return found

    def numbers(self) -> list[int]:
        """What shapes the tree."""
        return [MODES[self.mode], self.lag, self.keep, self.keep_most]


class VerticalCounters(NamedTuple):
    """What happened between the aggregator and the workers since the tree began."""

    messages: int  # to each worker, since this process began
    rows: int  # events sent, since this process began
    questions: int  # since this process began
    lost: int  # events that no statistics know
    kept: int  # events put by, to be learned again if their leaf splits
    replayed: int  # of these, learned again
    unanswered: int  # decisions that lacked a worker's answer
    delay: int  # events from questions to decisions, summed up
    waiting: int  # leaves whose decision is under way now
    buffered: int  # events put by now


def unfit(params: TreeParams) -> list[str]:
    """What of these parameters does not go with workers, and why."""
    clashes = (
        ("timing", "periodic", "since a leaf is judged when the aggregator asks"),
        ("policy", "commit_once", "since inner nodes keep no statistics"),
        ("split_test", "hoeffding", "since workers send no spreads"),
        ("numeric_observer", "gaussian", "since workers keep moments"),
        ("leaf_predictor", "mc", "since the aggregator has no statistics to predict with"),
        ("remove_poor", False, "since no worker knows the best gain"),
        ("max_memory_bytes", 0, "since the statistics are not here"),
        ("queue_bytes", 0, "since the statistics are not here"),
        ("audit_fraction", 0.0, "since an audit would ask the workers at every event"),
        ("reference_from", 0.0, "since the reference asks at every event"),
    )
    return [
        f"parameter '{name}' is {getattr(params, name)!r} with workers; expected {wanted!r}, {why}"
        for name, wanted, why in clashes
        if getattr(params, name) != wanted
    ]
