"""What is known of how a tree came about: the splits of its nodes, and what they are worth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from learner.encoder import Encoder
from learner.kernels.tree import LEAF, Records
from learner.reading import REASON_NAMES, attribute_name, test_text

Floats = npt.NDArray[np.float64]


class SplitFacts(NamedTuple):
    """Why a node has its test, as things were when it was installed."""

    reason: str  # bound, tie
    merit: float
    second_merit: float  # -inf where there was no rival
    bound: float
    n: float  # weight that the node had observed
    event: int  # events learned
    second: str | None  # test of the runner-up; None: not to split


def split_facts(fact: Records, encoder: Encoder) -> SplitFacts | None:
    """What one record of FACT says; None at a leaf."""
    reason = REASON_NAMES.get(int(fact["reason"]))
    if reason is None:
        return None
    second = test_text(
        encoder, int(fact["second_kind"]), int(fact["second_column"]), float(fact["second_cut"])
    )
    return SplitFacts(
        reason,
        float(fact["merit"]),
        float(fact["second_merit"]),
        float(fact["bound"]),
        float(fact["n"]),
        int(fact["event"]),
        second or None,
    )


def importance(
    nodes: Records, facts: Records, traffic: Floats, encoder: Encoder
) -> dict[str, float]:
    """Each feature's share of the sum of gain times traffic over all splits, the largest first.

    The gain is that of the split when it was installed, the traffic the weight that came by since
    the tree began. Features without a split are not listed.
    """
    inner = np.flatnonzero(nodes["kind"] != LEAF)
    tested = np.stack((nodes["kind"][inner], nodes["column"][inner]))
    columns, of_column = np.unique(tested, axis=1, return_inverse=True)
    gained = np.bincount(of_column, facts["merit"][inner] * traffic[inner], columns.shape[1])
    worth: dict[str, float] = {}
    for (kind, column), value in zip(columns.T.tolist(), gained.tolist(), strict=True):
        name = attribute_name(encoder, kind, column)
        worth[name] = worth.get(name, 0.0) + value
    total = sum(worth.values())
    ranked = sorted(worth.items(), key=lambda item: -item[1])
    return {name: value / total if total > 0.0 else 0.0 for name, value in ranked}
