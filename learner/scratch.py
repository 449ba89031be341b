"""The working space of the kernels, made once for a tree of some sizes."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from learner.kernels.ahead import AHEAD, STRIDE
from learner.kernels.bayes import class_width, slot_width
from learner.kernels.elementary import fill_xlog2x, whole_vectors
from learner.kernels.numeric.gaussian import columns_at_once
from learner.kernels.rules import COMMIT_ONCE, MAJORITY, RANKING, Rules, Scratch
from learner.kernels.together import AT_ONCE, NOBODY, NOTED
from learner.kernels.tree import MISSING
from learner.state import Sizes, as_records, kept_columns
from learner.variants.vht import Desk

WHOLE = 1 << 16  # weights up to which L(z) is looked up


def new_scratch(sizes: Sizes, rules: Rules) -> Scratch:
    """Working space for a tree of these sizes."""
    columns, places, tokens = kept_columns(sizes)
    revises = rules.policy != COMMIT_ONCE
    nominal, scores = len(sizes.values), int(rules.predictor != MAJORITY)
    walked = 0 if revises else sizes.nodes
    at_once = min(columns, columns_at_once(rules.split_points))
    return Scratch(
        points=np.zeros((7, whole_vectors(rules.split_points * at_once))),
        numeric=np.zeros((8, columns)),
        nominal=np.zeros((4, len(sizes.values))),
        values=np.zeros((3, places)),
        tokens=np.zeros((4, tokens)),
        branch_value=np.zeros(sizes.widest, np.int32),
        order=np.zeros(sizes.widest, np.int32),
        classes=np.zeros((7, sizes.classes)),
        branch_counts=np.zeros((sizes.widest, sizes.classes)),
        ranking=np.zeros(RANKING),
        sort_value=np.zeros(sizes.longest),
        sort_weight=np.zeros(sizes.longest),
        sort_class=np.zeros(sizes.longest, np.int32),
        sort_place=np.zeros(sizes.longest, np.int32),
        whole=np.zeros((2, sizes.classes), np.int64),
        xlog2x=whole_xlog2x(WHOLE if sizes.parts.entries or sizes.parts.candidates else 0),
        moved=np.zeros(sizes.nodes if revises else 0, np.int32),
        table_copy=np.zeros(sizes.table if revises else 0, np.int32),
        ahead=np.zeros(AHEAD, np.int64),
        strides=as_records(np.zeros(walked, STRIDE)),
        laid=np.zeros(1, np.int64),
        passes=np.zeros(walked, np.int32),
        places=np.zeros(nominal, np.int64),
        bayes=np.zeros((scores, sizes.classes, class_width(columns, nominal, places))),
        bayes_slot=np.zeros((scores, slot_width(columns, nominal))),
        followed=np.zeros(
            (2, whole_vectors((2 * sizes.parts.candidates + 1) * (sizes.classes + 1)))
        ),
        gathered=np.zeros((1, sizes.classes, MISSING + 1, min(columns, sizes.parts.candidates))),
        noted=np.full((4, NOTED), NOBODY, np.int64),
        noted_weight=np.zeros((2, NOTED)),
        members=np.zeros((2, AT_ONCE), np.int64),
        group=np.zeros(2, np.int64),
        shares=np.zeros(AT_ONCE),
        numbers=np.ones(2 * nominal + columns + 1 + 8),
        logs=np.zeros(2 * nominal + columns + 1 + 8),
    )


@cache
def whole_xlog2x(size: int) -> npt.NDArray[np.float64]:
    """L(z) of z = 0, 1, … below ``size``; the same for all trees."""
    table = np.zeros(size)
    fill_xlog2x(table)
    return table


def new_desk(nodes: int, events: int) -> Desk:
    """Room for notes on so many nodes, and for all that so many events can cause."""
    return Desk(
        waits=np.zeros(nodes, np.int8),
        held=np.zeros(nodes, np.int64),
        missed=np.zeros(nodes, np.int64),
        rows=np.empty(events, np.int32),
        leaves=np.empty(events, np.int32),
        asked=np.empty(events, np.int32),
        asked_n=np.empty((events, 2)),
        asked_event=np.empty(events, np.int64),
        kept=np.empty(events, np.int32),
    )
