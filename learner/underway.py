"""Decisions that are under way when a model is saved, as arrays beside those of the tree.

In mode sync there are none. In the others a leaf may wait for its decision, which is known already
and takes effect some events later, and events may be kept to be learned again below its split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.errors import SnapshotError
from learner.kernels.rules import BEST_COLUMN, BEST_KIND, BY_TIE, NO_SPLIT_YET, RANKING
from learner.kernels.tree import CLASSES, LEAF, MULTIWAY, NODES, SUBSET, Tree
from learner.message import Events

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

PREFIX = "vht."
TOTALS = ("lost", "kept", "replayed", "unanswered", "delay")


class Verdict(NamedTuple):
    """What the aggregator will do with a leaf."""

    outcome: int
    ranking: Floats  # as Scratch.ranking
    branch_counts: Floats  # [branch, class] of the best; empty where it does not split
    branch_value: Codes


@dataclass
class Question:
    """A leaf that waits for its decision."""

    split_id: int
    leaf: int
    event: int  # events learned when it was asked for
    n: float = 0.0  # of the bound, then
    range: float = 0.0  # of the gain, then
    verdict: Verdict | None = None
    kept: list[Events] = field(default_factory=list)
    missed: int = 0  # events of the leaf since then that are not kept


def joined_events(kept: Sequence[Events]) -> Events:
    """Events one behind the other."""
    starts = [np.zeros(1, np.int64)]
    for events in kept:
        starts.append(events.sparse_start[1:] + starts[-1][-1])
    return Events(
        np.concatenate([events.numeric for events in kept]),
        np.concatenate([events.nominal for events in kept]),
        np.concatenate(starts),
        np.concatenate([events.sparse_index for events in kept]),
        np.concatenate([events.y for events in kept]),
        np.concatenate([events.weights for events in kept]),
    )


def underway_arrays(
    how: Sequence[int], totals: Mapping[str, int], questions: Sequence[Question], tree: Tree
) -> dict[str, Array]:
    """Everything under way by name; every question has its verdict."""
    classes = int(tree.counts[CLASSES])
    numbers, counts, values, kept = [], [np.zeros((0, classes))], [np.zeros(0, np.int32)], []
    rankings = [np.zeros((0, RANKING))]
    for question in questions:
        assert question.verdict is not None
        verdict, held = question.verdict, sum(len(events.y) for events in question.kept)
        of_branch = np.zeros((len(verdict.branch_counts), classes))
        width = min(classes, verdict.branch_counts.shape[1])
        of_branch[:, :width] = verdict.branch_counts[:, :width]
        value = _needed(verdict)
        numbers.append(
            [question.leaf, question.event, verdict.outcome, len(of_branch), len(value), held,
             question.missed]
        )  # fmt: skip
        rankings.append(verdict.ranking[None])
        counts.append(of_branch)
        values.append(value)
        kept += question.kept
    named: dict[str, Array] = {
        "how": np.array(how, np.int64),
        "totals": np.array([totals[name] for name in TOTALS], np.int64),
        "questions": np.array(numbers, np.int64).reshape(len(questions), 7),
        "rankings": np.concatenate(rankings),
        "branch_counts": np.concatenate(counts),
        "branch_value": np.concatenate(values),
    }
    if kept:
        parts: dict[str, Array] = joined_events(kept)._asdict()
        named |= {f"kept_{name}": part for name, part in parts.items()}
    return {PREFIX + name: array for name, array in named.items()}


def _needed(verdict: Verdict) -> Codes:
    """The branches' values without what is left over from others."""
    kind = verdict.ranking[BEST_KIND]
    if verdict.outcome == NO_SPLIT_YET or kind not in (MULTIWAY, SUBSET):
        return verdict.branch_value[:0]
    if kind == MULTIWAY:
        return verdict.branch_value[: len(verdict.branch_counts)]
    return verdict.branch_value[: int(np.flatnonzero(verdict.branch_value).max(initial=-1)) + 1]


def how_of(named: Mapping[str, Array]) -> list[int]:
    """The mode that the model was learned in, as numbers; raises SnapshotError."""
    how: list[int] = _stored(named, "how", np.int64, (4,)).tolist()
    return how


def underway_from(
    named: Mapping[str, Array], tree: Tree, columns: tuple[int, int], tokens: int, classes: int
) -> tuple[dict[str, int], list[Question]]:
    """The totals and questions that ``underway_arrays`` wrote; raises SnapshotError."""
    how_of(named)
    totals = dict(zip(TOTALS, _stored(named, "totals", np.int64, (5,)).tolist(), strict=True))
    numbers = _stored(named, "questions", np.int64, (None, 7))
    _require(bool((numbers >= 0).all()) and min(totals.values()) >= 0, "a negative number")
    rankings = _stored(named, "rankings", np.float64, (len(numbers), RANKING))
    counts = _stored(named, "branch_counts", np.float64, (int(numbers[:, 3].sum()), None))
    values = _stored(named, "branch_value", np.int32, (int(numbers[:, 4].sum()),))
    finite = np.isfinite(rankings[:, [BEST_KIND, BEST_COLUMN]]).all()
    _require(bool(finite) and bool((counts >= 0).all() and np.isfinite(counts).all()), "no weight")
    kept = _kept_from(named, int(numbers[:, 5].sum()), columns, tokens, classes)
    nodes, questions, seen = int(tree.counts[NODES]), [], set()
    at_counts = at_values = at_kept = 0
    for (leaf, event, outcome, branches, length, held, missed), ranking in zip(
        numbers.tolist(), rankings, strict=True
    ):
        _require(leaf < nodes and leaf not in seen, f"a question about node {leaf}")
        _require(tree.node["kind"][leaf] == LEAF, f"a question about node {leaf}, no leaf")
        _require(outcome <= BY_TIE, f"the outcome {outcome}")
        seen.add(leaf)
        value = values[at_values : at_values + length].copy()
        _require(bool((value >= 0).all()), "a branch without a value")
        verdict = Verdict(outcome, ranking.copy(), counts[at_counts : at_counts + branches], value)
        rows = np.arange(at_kept, at_kept + held, dtype=np.int32)
        own = [kept.take(rows)] if held and kept is not None else []
        questions.append(Question(-1, leaf, event, verdict=verdict, kept=own, missed=missed))
        at_counts, at_values, at_kept = at_counts + branches, at_values + length, at_kept + held
    return totals, questions


def _kept_from(
    named: Mapping[str, Array], held: int, columns: tuple[int, int], tokens: int, classes: int
) -> Events | None:
    if not held:
        return None
    numeric, nominal = columns
    events = Events.of(
        Batch(
            _stored(named, "kept_numeric", np.float64, (held, numeric)),
            _stored(named, "kept_nominal", np.int32, (held, nominal)),
            _stored(named, "kept_sparse_start", np.int64, (held + 1,)),
            _stored(named, "kept_sparse_index", np.int32, (None,)),
        ),
        _stored(named, "kept_y", np.int32, (held,)),
        _stored(named, "kept_weights", np.float64, (held,)),
    )
    starts, index = events.sparse_start, events.sparse_index
    in_order = starts[0] == 0 and (np.diff(starts) >= 0).all() and starts[-1] == len(index)
    _require(bool(in_order), "kept events out of order")
    _require(bool((index >= 0).all() and (index < tokens).all()), "a token nobody knows")
    _require(bool((events.y >= 0).all() and (events.y < classes).all()), "a class nobody knows")
    _require(bool((events.weights > 0).all() and np.isfinite(events.weights).all()), "no weight")
    _require(not np.isinf(events.numeric).any(), "an infinite number")
    return events


def _stored(
    named: Mapping[str, Array], name: str, dtype: Any, shape: tuple[int | None, ...]
) -> Array:
    """An array of the model; raises SnapshotError unless it has the shape (None = any length)."""
    array = named.get(PREFIX + name)
    _require(array is not None, f"no array '{PREFIX}{name}'")
    assert array is not None
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    _require(fits and array.dtype == dtype, f"'{PREFIX}{name}' as {array.dtype}{array.shape}")
    return array


def _require(holds: bool, found: str) -> None:
    if not holds:
        raise SnapshotError(f"decisions under way of the model have {found}; expected none such")
