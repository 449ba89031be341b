"""The nearest record with another answer, found by asking about all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from typing import Any

from learner import Kind, Snapshot, Value

Record = Mapping[str, Any]
Attribute = tuple[str, Value | None]  # feature, and the token if it is about one
MOST_ROWS = 20_000


def thresholds(snapshot: Snapshot) -> dict[str, list[float]]:
    """Numbers that the tree compares every numeric feature with."""
    found: dict[str, list[float]] = {}
    for view in snapshot.walk():
        if view.threshold is not None:
            found.setdefault(str(view.feature), []).append(view.threshold)
    return found


def distance(cuts: list[float], before: float | None, after: float | None) -> float:
    """Of two numbers, in units of the range of thresholds and the first number; at most 1."""
    if before is None or after is None:
        return 1.0
    reach = max(*cuts, before) - min(*cuts, before)
    return min(abs(after - before) / reach, 1.0) if reach > 0.0 else 1.0


def moves(
    snapshot: Snapshot, record: Record, frozen: Collection[str]
) -> dict[Attribute, list[tuple[Any, float]]]:
    """For every attribute that a test looks at, what else it could be and what that costs."""
    cuts, features = thresholds(snapshot), {f.name: f for f in snapshot.schema.features}
    tested = {view.feature for view in snapshot.walk() if view.feature} - set(frozen)
    found: dict[Attribute, list[tuple[Any, float]]] = {}
    for name in sorted(tested):
        feature, own = features[name], record.get(name)
        if feature.kind == Kind.NUMERIC:
            numbers = {each for cut in cuts[name] for each in (cut, math.nextafter(cut, math.inf))}
            others: list[Any] = [*sorted(numbers - {own}), *([None] if own is not None else [])]
            found[name, None] = [(other, distance(cuts[name], own, other)) for other in others]
        elif feature.kind == Kind.NOMINAL:
            others = [v for v in (*feature.values, None) if v != own]
            found[name, None] = [(other, 1.0) for other in others]
        else:
            tokens = {t for v in snapshot.walk() if v.feature == name for t in v.values}
            for token in sorted(map(str, tokens)):
                found[name, token] = [(None, 1.0)]
    return found


def changed(record: Record, steps: Collection[tuple[Attribute, Any]]) -> dict[str, Any]:
    """The record after some changes; a token is added or taken away."""
    after = dict(record)
    for (name, token), value in steps:
        if token is None:
            after[name] = value
        else:
            held = list(after.get(name) or [])
            after[name] = [t for t in held if t != token] if token in held else [*held, token]
    return after


def nearest(
    snapshot: Snapshot, record: Record, wanted: Collection[Value], frozen: Collection[str] = ()
) -> tuple[int, float] | None:
    """Changes and distance of the nearest record; None if there is none. Raises if too many."""
    possible = moves(snapshot, record, frozen)
    for count in range(len(possible) + 1):
        best = math.inf
        for chosen in itertools.combinations(possible, count):
            best = min(best, _best_of(snapshot, record, wanted, possible, chosen))
        if best < math.inf:
            return count, best
    return None


def _best_of(
    snapshot: Snapshot,
    record: Record,
    wanted: Collection[Value],
    possible: Mapping[Attribute, list[tuple[Any, float]]],
    chosen: tuple[Attribute, ...],
) -> float:
    """The cheapest way to a wanted answer by changing exactly these attributes."""
    ways = list(itertools.product(*(possible[each] for each in chosen)))
    if len(ways) > MOST_ROWS:
        raise OverflowError(f"{len(ways)} records are too many to ask about")
    rows = [
        changed(record, [(each, value) for each, (value, _) in zip(chosen, way, strict=True)])
        for way in ways
    ]
    labels = [snapshot.classes[code] for code in snapshot.predict(snapshot.encode_records(rows))]
    costs = (sum(cost for _, cost in way) for way in ways)
    good = (cost for cost, label in zip(costs, labels, strict=True) if label in wanted)
    return min(good, default=math.inf)
