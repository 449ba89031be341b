"""What an event costs a tree with workers, as a sum of a few constants that are fitted to runs.

Microseconds an event, with u attributes to update and d to judge at each of q questions an event:

    alone       walk + update u + evaluation d q
    p workers   aggregator + (update u + evaluation d q) / p + message m     (m messages an event)
                and from the second worker on + handover m, since other threads take part
    a network   the same, where every question also waits for the round trip, every message is
                sent p times, and every byte is copied out and goes through one wire

The constants are fitted by least squares of relative errors, none of them negative. Points that
were held out say how far off the model is; what is beyond them is a projection, no measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Point(NamedTuple):
    """A run: how wide, with how many workers (0: alone), and what happened an event."""

    attributes: int
    updates: float
    workers: int
    questions: float
    messages: float
    microseconds: float = 0.0


class Costs(NamedTuple):
    """The constants, in microseconds."""

    walk: float  # an event, alone
    update: float  # an attribute of an event
    evaluation: float  # an attribute at a question
    aggregator: float  # an event, with workers
    message: float  # for the first worker
    handover: float  # of a message to other threads


class Network(NamedTuple):
    """What lies between aggregator and workers on other machines."""

    round_trip: float  # microseconds until a question is answered
    call: float  # microseconds of the aggregator for each message to one worker
    copy: float  # microseconds a byte, cut out and packed
    wire: float  # microseconds a byte


BYTES = 8  # of a number
HEAD = 8  # bytes an event and worker: its row and its leaf


def terms(point: Point) -> list[float]:
    """What each constant is multiplied by."""
    shared = max(1, point.workers)
    alone = point.workers == 0
    return [
        float(alone),
        point.updates / shared,
        point.attributes * point.questions / shared,
        float(not alone),
        0.0 if alone else point.messages,
        point.messages if point.workers > 1 else 0.0,
    ]


def predicted(costs: Costs, point: Point, network: Network | None = None) -> float:
    """Microseconds an event."""
    micros = float(np.dot(terms(point), costs))
    if network is None or point.workers == 0:
        return micros
    sent = point.questions * network.round_trip + point.messages * point.workers * network.call
    size = BYTES * point.updates + HEAD * point.workers
    return micros + sent + size * (network.copy + network.wire)


def fit(points: Sequence[Point]) -> Costs:
    """The constants that fit these runs best, each error as a share of what was measured."""
    scale = np.array([1.0 / point.microseconds for point in points])
    matrix = np.array([terms(point) for point in points]) * scale[:, None]
    return Costs(*non_negative(matrix, np.ones(len(points))).tolist())


def non_negative(matrix: Floats, wanted: Floats) -> Floats:
    """Least squares without negative solutions.

    Every set of columns that may be above zero is tried; with six columns these are 63.

    >>> non_negative(np.eye(2), np.array([2.0, -1.0])).tolist()
    [2.0, 0.0]
    """
    columns = matrix.shape[1]
    best, least = np.zeros(columns), float(wanted @ wanted)
    for chosen in range(1, 1 << columns):
        used = [c for c in range(columns) if chosen >> c & 1]
        found, *_ = np.linalg.lstsq(matrix[:, used], wanted, rcond=None)
        rest = matrix[:, used] @ found - wanted
        if (found >= 0.0).all() and float(rest @ rest) < least:
            best, least = np.zeros(columns), float(rest @ rest)
            best[used] = found
    return best


def errors(costs: Costs, points: Sequence[Point]) -> list[float]:
    """How far off the model is at these runs, as a share of what was measured."""
    return [predicted(costs, p) / p.microseconds - 1.0 for p in points]


def speed_up(costs: Costs, point: Point, network: Network | None = None) -> float:
    """How many times as fast as alone."""
    alone = predicted(costs, point._replace(workers=0))
    return alone / predicted(costs, point, network)


def pays_from(costs: Costs, like: Point, network: Network | None = None) -> int | None:
    """The fewest attributes from which workers are faster than none; None where they never are.

    Every attribute of an event is updated, as dense events have it.
    """
    for attributes in np.unique(np.geomspace(10, 10_000_000, 500).astype(int)).tolist():
        point = like._replace(attributes=attributes, updates=float(attributes))
        if speed_up(costs, point, network) > 1.0:
            return int(attributes)
    return None
