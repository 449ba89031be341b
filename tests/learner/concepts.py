"""Small random streams with something to learn: mixed kinds, gaps, weights, late values."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from learner import Feature, Kind, Schema, Value

Event = tuple[list[object], Value, float]  # row in schema order, label, weight


@dataclass(frozen=True)
class Concept:
    """What a stream looks like; the same concept gives the same events."""

    seed: int = 0
    numeric: int = 1
    nominal: int = 1
    sparse: int = 0
    classes: int = 2
    values: int = 3
    missing: float = 0.0
    noise: float = 0.1
    weights: str = "one"  # "one", "quarters" (sums stay exact) or "real"
    late_classes: bool = False
    declared: bool = True

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of the features in schema order, mixed so that positions and columns differ."""
        kinds = [Kind.NUMERIC] * self.numeric + [Kind.NOMINAL] * self.nominal
        kinds += [Kind.SPARSE] * self.sparse
        random.Random(self.seed).shuffle(kinds)
        return kinds

    def schema(self) -> Schema:
        """Feature f0, f1, ...; values and classes declared or left to be met."""
        features = []
        for i, kind in enumerate(self.kinds):
            known = self.declared and kind == Kind.NOMINAL
            values = tuple(f"v{v}" for v in range(self.values)) if known else ()
            features.append(Feature(f"f{i}", kind, values))
        classes = tuple(f"c{k}" for k in range(self.classes)) if self.declared else ()
        return Schema(tuple(features), classes)

    def events(self, count: int) -> Iterator[Event]:
        """Labelled events; the label follows two features at a time, blurred by noise."""
        rng = random.Random(self.seed + 1)
        kinds = self.kinds
        salt = [rng.randrange(1 << 20) for _ in range(64)]
        cuts = [rng.gauss(0.0, 0.6) for _ in kinds]
        strong = [rng.randrange(len(kinds)) for _ in range(2)]
        for event in range(count):
            late = event > count // 3
            row: list[object] = []
            signs: list[int] = []
            for i, kind in enumerate(kinds):
                value, sign = self._draw(rng, kind, cuts[i], late)
                row.append(None if rng.random() < self.missing else value)
                signs.append(sign)
            pattern = signs[strong[0]] * 7 + signs[strong[1]]
            label = salt[pattern % 64] % self.classes
            if rng.random() < self.noise:
                label = rng.randrange(self.classes)
            if self.late_classes and not late:
                label = min(label, 1)
            yield row, f"c{label}", self._weight(rng)

    def _draw(self, rng: random.Random, kind: Kind, cut: float, late: bool) -> tuple[object, int]:
        if kind == Kind.NUMERIC:
            x = rng.gauss(0.0, 1.0)
            return x, int(x > cut)
        values = self.values + (2 if late and not self.declared else 0)
        if kind == Kind.NOMINAL:
            v = rng.randrange(values)
            return f"v{v}", v
        tokens = [t for t in range(values) if rng.random() < 0.4]
        return [f"t{t}" for t in tokens], int(0 in tokens)

    def _weight(self, rng: random.Random) -> float:
        if self.weights == "one":
            return 1.0
        return rng.randrange(1, 9) / 4.0 if self.weights == "quarters" else rng.uniform(0.1, 3.0)
