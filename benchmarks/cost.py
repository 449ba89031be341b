"""What the timing of attempts costs: vfdt, cgd, osm and imac over attributes, values and classes.

python -m benchmarks.cost [--json] [--quick] [--rounds N] [--events N]

Random trees of d attributes; every variant learns the same events, in batches of 1,000. ``ratio``
is how many times as fast as vfdt a variant is. Beside it attempts, accuracy and the paper's
condition: imac should win where attempts(imac) / attempts(vfdt) is below

    phi = 1 - K n_min / (mu d) - K n_min / (d v c)        K candidates, v values, c classes  [SJH20]

(v = 10 cuts where attributes are numeric). phi counts the update of a candidate like one cell of an
evaluation; what both cost here is measured on labels without any rule, where no leaf splits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from time import thread_time
from typing import NamedTuple

import numpy as np

from benchmarks.measurement import Measurement, interleaved, options, report
from learner import Batch, Codes, Encoder, Schema, StreamingTree
from streams import open_stream

VARIANTS = ("vfdt", "cgd", "osm", "imac")
WIDTHS = (24, 50, 100, 200, 400)
N_MIN = MU = 200.0
CUTS = 10  # of a numeric attribute


class Case(NamedTuple):
    """A stream of so many attributes of one kind."""

    kind: str
    d: int
    values: int = 5
    classes: int = 10

    def name(self) -> str:
        """As in the table."""
        values = f" of {self.values} values" if self.kind == "nominal" else ""
        return f"{self.d} {self.kind}{values}, {self.classes} classes"

    @property
    def candidates(self) -> int:
        """K, a tenth of the attributes from 5 to 10."""
        return min(max(-(-self.d // 10), 5), 10)

    @property
    def phi(self) -> float:
        """The paper's condition."""
        cells = (self.values if self.kind == "nominal" else CUTS) * self.classes
        K = self.candidates
        return 1.0 - K * N_MIN / (MU * self.d) - K * N_MIN / (self.d * cells)

    def rows(self, events: int) -> tuple[Schema, Batch, Codes]:
        """Its events."""
        nominal, numeric = (self.d, 0) if self.kind == "nominal" else (0, self.d)
        depth = 5 if self.values <= 10 else 4  # the labelling tree must not become too large
        stream = open_stream(
            "rtg", classes=self.classes, nominal=nominal, numeric=numeric, values=self.values,
            depth=depth,
        )  # fmt: skip
        return stream.schema, *stream.take(events)


class Run(NamedTuple):
    """One variant on one case."""

    nanoseconds: float  # an event
    attempts: int
    evaluations: int
    accuracy: float
    leaves: int


def run(schema: Schema, batch: Batch, y: Codes, variant: str, n_min: float = N_MIN) -> Run:
    """Learn all events, each predicted before."""
    tree = StreamingTree(Encoder(schema), variant, n_min=n_min)
    parts = [(batch.part(at, at + 1000), y[at : at + 1000]) for at in range(0, len(y), 1000)]
    guesses = np.empty(len(y), np.int32)
    began = thread_time()
    for i, (part, labels) in enumerate(parts):
        tree.learn(part, labels, predicted=guesses[1000 * i : 1000 * (i + 1)])
    seconds = thread_time() - began
    counters = tree.counters()
    return Run(
        seconds / len(y) * 1e9, counters.split_attempts, counters.attribute_evaluations,
        float((guesses == y).mean()), tree.shape().leaves,
    )  # fmt: skip


def compare(case: Case, events: int, rounds: int) -> dict[str, Run]:
    """The best round of every variant."""
    rows = case.rows(events)
    results = interleaved(
        {variant: lambda v=variant: run(*rows, v) for variant in VARIANTS},  # type: ignore[misc]
        rounds,
        case.name(),
    )
    return {name: min(runs) for name, runs in results.items()}


def unit_costs(case: Case, events: int, rounds: int) -> tuple[float, float]:
    """Nanoseconds of one attribute's evaluation, and of following one candidate over one event."""
    schema, batch, y = case.rows(events)
    y = np.random.default_rng(1).permutation(y)
    results = interleaved(
        {
            "counting": lambda: run(schema, batch, y, "vfdt", 1e9),
            "vfdt": lambda: run(schema, batch, y, "vfdt"),
            "imac": lambda: run(schema, batch, y, "imac"),
        },
        rounds,
        f"units, {case.name()}",
    )
    counting, vfdt, imac = (min(results[name]) for name in ("counting", "vfdt", "imac"))
    evaluation = (vfdt.nanoseconds - counting.nanoseconds) * events / max(1, vfdt.evaluations)
    followed = (imac.nanoseconds - counting.nanoseconds) * events - imac.evaluations * evaluation
    return evaluation, followed / events / case.candidates


def lines(case: Case, runs: dict[str, Run]) -> Iterator[Measurement]:
    """All variants on one case."""
    vfdt = runs["vfdt"]
    for variant, found in runs.items():
        facts = {
            "attempts": found.attempts,
            "evaluations": found.evaluations,
            "accuracy": found.accuracy,
            "leaves": found.leaves,
        }
        if variant == "imac":
            facts |= {"attempts_ratio": found.attempts / max(1, vfdt.attempts), "phi": case.phi}
        yield Measurement(
            "cost", variant, found.nanoseconds, "ns/event",
            vfdt.nanoseconds / found.nanoseconds, case.name(), facts=facts,
        )  # fmt: skip


def crossing(series: str, wins: dict[int, bool], foretold: dict[int, bool]) -> Measurement:
    """From which width on imac is faster than vfdt, and from which it should be."""
    measured, by_phi = _from(wins), _from(foretold)
    return Measurement(
        "cost, crossing", "imac", measured, "attributes", case=series,
        facts={"by_phi": by_phi},
    )  # fmt: skip


def _from(holds: dict[int, bool]) -> float:
    """The least width from which on it always holds; inf = nowhere."""
    least = float("inf")
    for d in sorted(holds, reverse=True):
        if not holds[d]:
            break
        least = d
    return least


def measure(events: int, rounds: int, quick: bool) -> Iterator[Measurement]:
    """Widths first, then classes and values at one width, then what one unit costs."""
    widths = (24, 100) if quick else WIDTHS
    for kind in ("nominal", "numeric"):
        wins, foretold = {}, {}
        for d in widths:
            case = Case(kind, d)
            runs = compare(case, events, rounds)
            yield from lines(case, runs)
            imac, vfdt = runs["imac"], runs["vfdt"]
            wins[d] = imac.nanoseconds < vfdt.nanoseconds
            foretold[d] = imac.attempts / max(1, vfdt.attempts) < case.phi
        yield crossing(f"{kind}, 10 classes", wins, foretold)
    if not quick:
        for other in (
            *(Case("nominal", 100, classes=c) for c in (2, 25)),
            *(Case("nominal", 100, values=v) for v in (2, 20)),
            Case("numeric", 100, classes=2),
        ):
            yield from lines(other, compare(other, events, rounds))
    for kind in ("nominal", "numeric"):
        case = Case(kind, 100)
        evaluation, followed = unit_costs(case, events, rounds)
        saved = evaluation * case.d / N_MIN
        yield Measurement(
            "cost, one attribute", "an evaluation", evaluation, "ns", case=case.name(),
            facts={"vfdt_pays_an_event": saved, "imac_pays_an_event": followed * case.candidates},
        )  # fmt: skip
        yield Measurement("cost, one attribute", "a candidate and event", followed, "ns",
                          evaluation / max(followed, 1e-9), case.name())  # fmt: skip


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--events", type=int, help="events of each case; default 50,000")
    given = parser.parse_args(argv)
    events = given.events or (20_000 if given.quick else 50_000)
    report(measure(events, 2 if given.quick else given.rounds, given.quick), given.json)


if __name__ == "__main__":
    main(sys.argv[1:])
