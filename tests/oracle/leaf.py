"""A leaf of the slow twin: its statistics, its verdict about splitting and its prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.oracle import criterion as crit
from tests.oracle import normal
from tests.oracle.intervals import Bins, IntervalHistogram, promising
from tests.oracle.intervals import prune_after_failure as prune_after_failure
from tests.oracle.normal import DOUBT as DOUBT
from tests.oracle.observers import (
    Candidate,
    Nominal,
    Numeric,
    Observer,
    Ordered,
    Sample,
    Tokens,
    fresh_numeric,
)

NUMERIC, NOMINAL, SPARSE = "numeric", "nominal", "sparse_binary"
Row = dict[int, object]
Attribute = tuple[int, int]  # feature, token (-1 where the feature itself is the attribute)


@dataclass(frozen=True)
class Options:
    """Parameters of every variant under the learner's names."""

    timing: str = "periodic"
    n_min: float = 200.0
    n_first: float = 0.0
    max_wait: float = 100_000.0
    mu: float = 200.0
    candidates: int = 0
    mu_swaps: str = "one"
    min_attempt_gap: float = 1.0
    policy: str = "commit_once"
    reevaluate_every: float = 2000.0
    refine_threshold: bool = False
    collapse_after: float = 0.0
    split_test: str = "hoeffding"
    covariance: str = "independent"
    delta: float = 1e-7
    tau: float = 0.05
    criterion: str = "info_gain"
    gini_range: str = "one"
    null_merit: str = "zero"
    min_merit: float = 1e-10
    min_branch_fraction: float = 0.01
    bound_n: str = "weight"
    numeric_observer: str = "gaussian"
    split_points: int = 10
    max_distinct: int = 20_000
    intervals: int = 500
    interval_details: str = "keep"
    interval_bound: str = "auto"
    nominal_split: str = "multiway"
    unseen: str = "other"
    leaf_predictor: str = "mc"
    new_leaf: str = "separate"
    remove_poor: bool = False
    max_memory_bytes: int = 0
    memory_check_every: int = 10_000
    queue_bytes: int = 0
    queue_order: str = "fifo"
    stop_purity: float = 0.95
    stop_depth: int = 12
    stop_share: float = 0.01
    reopen: bool = False
    audit_fraction: float = 0.01
    audit_step: int = 0
    reference_from: float = 0.0


PLAIN = Options()


@dataclass(frozen=True)
class Verdict:
    """Outcome of one evaluation of all attributes of a leaf."""

    kind: str  # "bound", "tie" or "none"
    best: Candidate | None
    merit: float
    second_merit: float
    bound: float
    ranked: list[Candidate]
    evaluations: int
    doubtful: bool
    second: Candidate | None = None  # None is the null split X_0
    spread: float = 0.0  # quantile times joint spread of the two best, 0 under Hoeffding's test
    bias: float = 0.0  # of the lead
    reason: str = ""  # "bound" or "tie", where a split is looked at again


@dataclass
class Leaf:
    """A learning node: everything counted since it was created."""

    id: int
    depth: int
    parent: int | None
    prior: dict[int, float]
    removed: frozenset[int]
    active: bool = True
    seen: dict[int, float] = field(default_factory=dict)
    n: float = 0.0
    squares: float = 0.0
    count: int = 0
    n_last: float = 0.0
    observers: dict[int, Observer] = field(default_factory=dict)
    missing: dict[int, float] = field(default_factory=dict)
    poor: set[Attribute] = field(default_factory=set)
    bins: dict[int, Bins] = field(default_factory=dict)
    built: float = 0.0
    mc_ok: float = 0.0
    nb_ok: float = 0.0
    audit_passed: float | None = None
    doubtful: bool = False

    def votes(self) -> dict[int, float]:
        """Class weights used to predict."""
        return crit.merged([self.prior, self.seen])

    def counted(self, o: Options) -> dict[int, float]:
        """Class weights used for gains, bound and purity."""
        return self.votes() if o.new_leaf == "inherit" else self.seen

    def is_pure(self, o: Options) -> bool:
        """Fewer than two classes have weight."""
        return sum(weight > 0.0 for weight in self.counted(o).values()) < 2

    def is_barred(self, i: int, token: int = -1) -> bool:
        """The attribute was tested above, or is too far behind."""
        return i in self.removed or (i, token) in self.poor

    def add(self, x: Row, y: int, w: float, kinds: list[str], o: Options = PLAIN) -> None:
        """Count one event; inactive leaves keep only class weights."""
        self.seen[y] = self.seen.get(y, 0.0) + w
        self.n += w
        self.squares += w * w
        self.count += 1
        if not self.active:
            return
        for i, kind in enumerate(kinds):
            self._observe(i, kind, x.get(i), y, w, o)
        if o.leaf_predictor != "mc" and self.n - self.built >= min(o.n_min, max(1.0, self.built)):
            self._build_bins()

    def _observe(self, i: int, kind: str, value: object, y: int, w: float, o: Options) -> None:
        if kind == SPARSE:
            tokens = self.observers.setdefault(i, Tokens())
            assert isinstance(tokens, Tokens)
            for token in tokens_of(value):
                tokens.add(token, y, w)
        elif value is None:
            self.missing[i] = self.missing.get(i, 0.0) + w
        elif kind == NUMERIC:
            numeric = self.observers.setdefault(i, fresh_numeric(o.numeric_observer))
            assert not isinstance(numeric, Nominal | Tokens)
            assert isinstance(value, float)
            numeric.add(value, y, w)
        else:
            nominal = self.observers.setdefault(i, Nominal())
            assert isinstance(nominal, Nominal)
            assert isinstance(value, int)
            nominal.add(value, y, w)

    def _build_bins(self) -> None:
        """Make naive Bayes' tables of the numeric features anew."""
        self.built = self.n
        for i, observer in self.observers.items():
            if isinstance(observer, Ordered | Sample | IntervalHistogram):
                self.bins[i] = observer.bins()

    def gain(
        self,
        known: crit.Weights,
        branches: Sequence[crit.Weights],
        o: Options,
        over: float | None = None,
    ) -> float:
        """Gain of a split of the events whose value is known."""
        if o.new_leaf == "inherit":
            before, scale = self.votes(), 1.0
        else:
            before, scale = dict(known), crit.total(known) / self.n
        return crit.gain(before, branches, criterion=o.criterion, scale=scale, over=over)

    def hoeffding(self, classes: int, o: Options) -> float:
        """Radius of Hoeffding's bound."""
        value_range = crit.gain_range(classes, criterion=o.criterion, gini_range=o.gini_range)
        return crit.hoeffding(value_range, o.delta, bound_weight(self, o))


def tokens_of(value: object) -> frozenset[int]:
    """Tokens of a sparse value; a missing value holds none."""
    if value is None:
        return frozenset()
    assert isinstance(value, frozenset)
    return value


def candidates(
    leaf: Leaf, classes: int, o: Options, *, settle: bool = True
) -> tuple[list[Candidate], int, bool]:
    """Best candidate of every attribute in order of merit, attributes evaluated, any doubt.

    An evaluation that settles may lay intervals and reopen pruned ones; one that only looks on,
    as an audit does, leaves the observers as they are.
    """
    attributes = available(leaf)
    if settle:
        lay_intervals(leaf, o)
    fits = {attribute: fit(leaf, *attribute, classes, o) for attribute in attributes}
    doubtful = any(doubt for _, doubt in fits.values())
    best = max((found.gain for found, _ in fits.values() if found), default=-math.inf)
    for i, token in attributes:
        observer = leaf.observers[i]
        if not isinstance(observer, IntervalHistogram):
            continue
        opened, doubt = promising(leaf, observer, best, classes, o)
        if opened:
            fits[i, token] = fit(leaf, i, token, classes, o, opened)
        doubtful = doubtful or doubt or fits[i, token][1]
        if settle:
            observer.pruned -= opened
            leaf.doubtful |= doubt
    ranked = [found for found, _ in fits.values() if found]
    return sorted(ranked, key=Candidate.place), len(attributes), doubtful


def available(leaf: Leaf) -> list[Attribute]:
    """Attributes that may be tested here, in order."""
    found: list[Attribute] = []
    for i in sorted(leaf.observers):
        observer = leaf.observers[i]
        tokens = sorted(observer.table) if isinstance(observer, Tokens) else [-1]
        found += [(i, token) for token in tokens if not leaf.is_barred(i, token)]
    return found


def lay_intervals(leaf: Leaf, o: Options) -> None:
    """Tables of numeric features with too many values become intervals."""
    inside = o.numeric_observer == "intervals"
    room = o.intervals if inside else o.max_distinct
    for i, _ in available(leaf):
        observer = leaf.observers[i]
        if isinstance(observer, Ordered) and len(observer.table) > room:
            laid = IntervalHistogram.laid(observer.table, o.intervals, details=inside)
            leaf.observers[i] = laid


def fit(
    leaf: Leaf,
    i: int,
    token: int,
    classes: int,
    o: Options,
    opened: frozenset[int] = frozenset(),
) -> tuple[Candidate | None, bool]:
    """One attribute's best admissible split as its observer is now, and any doubt about it."""
    every = proposals(leaf, i, token, classes, o, opened)
    options = [p for p in every if crit.is_admissible(p.branches, o.min_branch_fraction)]
    best = max(options, key=lambda p: p.gain, default=None)
    needed = -math.inf if best is None else best.gain - DOUBT
    doubtful = any(p.gain >= needed and near_the_edge(p, o) for p in every)
    if best is not None:
        rivals = [p.gain for p in options if not same_counts(p, best)]
        best = replace(best, rival=max(rivals, default=-math.inf))
    observer = leaf.observers[i]
    if isinstance(observer, Nominal) and o.nominal_split == "subset":
        shares = [share for share, _ in observer.shares()]
        doubtful |= any(0.0 < b - a < DOUBT for a, b in pairwise(shares))
    return best, doubtful


def proposals(
    leaf: Leaf,
    i: int,
    token: int,
    classes: int,
    o: Options,
    opened: frozenset[int] = frozenset(),
) -> list[Candidate]:
    """Every split of one attribute, in order of threshold or value."""
    observer = leaf.observers[i]
    if isinstance(observer, Tokens):
        return [measured(leaf, SPARSE, i, token, None, (), o)]
    if isinstance(observer, Nominal):
        kind, tests = nominal_tests(observer, classes, o)
        return [measured(leaf, kind, i, -1, None, values, o) for values in tests]
    if isinstance(observer, Numeric):
        cuts = observer.cuts(o.split_points)
    elif isinstance(observer, IntervalHistogram):
        cuts = observer.cuts(opened)
    else:
        cuts = observer.cuts()
    known, summed = observer.known(), not isinstance(observer, Numeric)
    return [
        Candidate(NUMERIC, i, -1, t, (), sides, leaf.gain(known, sides, o), summed=summed)
        for t, sides in cuts
    ]


def nominal_tests(observer: Nominal, classes: int, o: Options) -> tuple[str, list[tuple[int, ...]]]:
    """Kind of a nominal feature's tests, and the values of each."""
    values = tuple(sorted(observer.table))
    if o.nominal_split == "multiway":
        return "multiway", [values]
    if o.nominal_split == "subset" and classes <= 2:
        return "subset", observer.prefixes()
    return "equal", [(v,) for v in values]


def measured(
    leaf: Leaf,
    kind: str,
    i: int,
    token: int,
    threshold: float | None,
    values: tuple[int, ...],
    o: Options,
) -> Candidate:
    """One test on the leaf's statistics as they are, admissible or not."""
    observer = leaf.observers[i]
    branches: tuple[dict[int, float], ...]
    if isinstance(observer, Tokens):
        known: crit.Weights = leaf.seen
        values, branches = (token,), observer.presence(token, leaf.seen)
    elif not isinstance(observer, Nominal):
        assert threshold is not None
        known, branches = observer.known(), observer.sides(threshold)
    else:
        known = observer.known()
        if kind == "multiway":
            values, branches = observer.multiway()
        elif kind == "equal":
            branches = observer.against_rest(values[0])
        else:
            branches = observer.inside(values)
    gain = leaf.gain(known, branches, o)
    return Candidate(kind, i, token, threshold, values, branches, gain)


def near_the_edge(candidate: Candidate, o: Options) -> bool:
    """Rounding could decide whether a branch is heavy enough."""
    weights = [crit.total(branch) for branch in candidate.branches]
    edge = o.min_branch_fraction * sum(weights)
    return any(weight != edge and abs(weight - edge) <= DOUBT * sum(weights) for weight in weights)


def same_counts(a: Candidate, b: Candidate) -> bool:
    """Equal gains are equal to the last digit: the same branches, or the same ones swapped.

    Swapped branches and sums of weights are compared in quarters only, where sums are exact in
    any order.
    """
    if a.feature == b.feature and a.branches == b.branches:
        return not a.summed or is_exact(a)

    def table(candidate: Candidate) -> list[list[tuple[int, float]]]:
        return sorted(sorted(branch.items()) for branch in candidate.branches)

    return table(a) == table(b) and is_exact(a)


def is_exact(candidate: Candidate) -> bool:
    """All weights are quarters."""
    return all((4.0 * w).is_integer() for branch in candidate.branches for w in branch.values())


def judge(leaf: Leaf, classes: int, o: Options, *, settle: bool = True) -> Verdict:
    """Rank all candidates and the null split, and test the best against the second best."""
    evaluated = candidates(leaf, classes, o, settle=settle)
    return decided(leaf, classes, o, evaluated, only_null=False)


def judge_against_null(leaf: Leaf, classes: int, o: Options, *, settle: bool = True) -> Verdict:
    """The anytime policies' test of a leaf: the best candidate against the null split."""
    evaluated = candidates(leaf, classes, o, settle=settle)
    return decided(leaf, classes, o, evaluated, only_null=True)


def decided(
    leaf: Leaf,
    classes: int,
    o: Options,
    evaluated: tuple[list[Candidate], int, bool],
    *,
    only_null: bool,
) -> Verdict:
    """The verdict about an evaluation."""
    ranked, evaluations, doubtful = evaluated
    best, second = two_best(ranked, o, only_null=only_null)
    merit, second_merit = merit_of(best, o), merit_of(second, o)
    if best is None and second is None:
        second_merit = -math.inf
    duel = duel_of(leaf, best, second, merit - second_merit, classes, o)
    if best is None or merit <= o.min_merit:
        kind = "none"
    else:
        kind = "bound" if o.policy == "anytime_eager" and only_null else duel.kind(o.tau)
    places = 1 if only_null or o.split_test == "hoeffding" else 2
    doubtful = doubtful or is_doubtful(ranked, places, duel, o)
    return Verdict(
        kind, best, merit, second_merit, duel.radius, ranked, evaluations, doubtful,
        second, duel.spread, duel.bias,
    )  # fmt: skip


def null_merit(o: Options) -> float:
    """Gain of the null split."""
    return 0.0 if o.null_merit == "zero" else -math.inf


def merit_of(candidate: Candidate | None, o: Options) -> float:
    """Gain of a candidate; None is the null split."""
    return null_merit(o) if candidate is None else candidate.gain


def two_best(
    ranked: list[Candidate], o: Options, *, only_null: bool
) -> tuple[Candidate | None, Candidate | None]:
    """First and second place with the null split (None) behind candidates of equal gain."""
    able = [candidate for candidate in ranked if candidate.gain >= null_merit(o)]
    if not able:
        return None, ranked[0] if ranked else None
    return able[0], able[1] if len(able) > 1 and not only_null else None


def duel_of(
    leaf: Leaf,
    best: Candidate | None,
    second: Candidate | None,
    lead: float,
    classes: int,
    o: Options,
) -> normal.Duel:
    """The split test between two candidates; None is the null split."""
    n, radius = bound_weight(leaf, o), leaf.hoeffding(classes, o)
    if o.split_test == "hoeffding":
        return normal.Duel(o.split_test, lead, n, radius)
    a, b = (None if split is None else split.branches for split in (best, second))
    sigmas = [normal.sigma(branches, leaf.n, o.criterion) for branches in (a, b)]
    spread = normal.quantile(o.delta) * normal.joint_spread(sigmas[0], sigmas[1], o.covariance)
    bias = normal.bias(a, n, o.criterion) - normal.bias(b, n, o.criterion)
    return normal.Duel(o.split_test, lead, n, radius, spread, bias)


def is_doubtful(ranked: list[Candidate], places: int, duel: normal.Duel, o: Options) -> bool:
    """Rounding could change the verdict, which depends on who holds the first places."""
    if not ranked:
        return False
    null, top = null_merit(o), ranked[0].gain
    if top < null:
        return null - top < DOUBT
    return (
        DOUBT / 1000.0 < abs(top) < o.min_merit + DOUBT
        or duel.is_doubtful(o.tau)
        or any(is_close(ranked, place) for place in range(places))
        or any(abs(candidate.gain - null) < DOUBT for candidate in ranked[1:places])
    )


def is_close(ranked: list[Candidate], place: int) -> bool:
    """Rounding could give a place to another attribute, or to another cut of the same one."""
    if place >= len(ranked):
        return False
    holder = ranked[place]
    behind = ranked[place + 1 : place + 2]
    return holder.gain - holder.rival < DOUBT or any(
        holder.gain - other.gain < DOUBT and not same_counts(holder, other) for other in behind
    )


def bound_weight(leaf: Leaf, o: Options) -> float:
    """The n of the bound."""
    if o.bound_n == "effective":
        return leaf.n * leaf.n / leaf.squares
    return crit.total(leaf.counted(o))


def naive_bayes(leaf: Leaf, x: Row) -> dict[int, float]:
    """Posterior of every class that has votes."""
    votes = leaf.votes()
    logs: dict[int, float] = {}
    for k in sorted(votes):
        if votes[k] <= 0.0:
            continue
        logs[k] = math.log(votes[k] / crit.total(votes))
        for i, observer in leaf.observers.items():
            value = x.get(i)
            if isinstance(observer, Tokens):
                n_k = leaf.seen.get(k, 0.0)
                logs[k] += observer.log_likelihood(tokens_of(value), k, n_k)
            elif isinstance(observer, Nominal):
                logs[k] += observer.log_likelihood(value, k) if isinstance(value, int) else 0.0
            elif isinstance(value, float):
                table = observer if isinstance(observer, Numeric) else leaf.bins.get(i)
                logs[k] += 0.0 if table is None else table.log_likelihood(value, k)
    top = max(logs.values())
    return crit.normalised({k: math.exp(value - top) for k, value in logs.items()})


def uses_naive_bayes(leaf: Leaf, o: Options) -> bool:
    """Whether this leaf answers by naive Bayes now."""
    if not leaf.active or leaf.n <= 0.0 or o.leaf_predictor == "mc":
        return False
    return o.leaf_predictor == "nb" or leaf.nb_ok >= leaf.mc_ok
