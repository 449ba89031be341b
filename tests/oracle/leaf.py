"""A leaf of the slow twin: its statistics, its verdict about splitting and its prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from tests.oracle import criterion as crit
from tests.oracle.observers import Candidate, Nominal, Numeric, Observer, Tokens

NUMERIC, NOMINAL, SPARSE = "numeric", "nominal", "sparse_binary"
DOUBT = 1e-9  # two computed numbers closer than this may be ordered either way by rounding
Row = dict[int, object]
Attribute = tuple[int, int]  # feature, token (-1 where the feature itself is the attribute)


@dataclass(frozen=True)
class Options:
    """Parameters of VFDT under the learner's names."""

    n_min: float = 200.0
    delta: float = 1e-7
    tau: float = 0.05
    criterion: str = "info_gain"
    gini_range: str = "one"
    leaf_predictor: str = "mc"
    new_leaf: str = "separate"
    null_merit: str = "zero"
    nominal_split: str = "multiway"
    unseen: str = "other"
    min_branch_fraction: float = 0.01
    min_merit: float = 1e-10
    split_points: int = 10
    bound_n: str = "weight"
    remove_poor: bool = False
    max_memory_bytes: int = 0
    memory_check_every: int = 10_000
    audit_fraction: float = 0.01
    audit_step: int = 0


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

    def add(self, x: Row, y: int, w: float, kinds: list[str]) -> None:
        """Count one event; inactive leaves keep only class weights."""
        self.seen[y] = self.seen.get(y, 0.0) + w
        self.n += w
        self.squares += w * w
        self.count += 1
        if not self.active:
            return
        for i, kind in enumerate(kinds):
            value = x.get(i)
            if kind == SPARSE:
                tokens = self.observers.setdefault(i, Tokens())
                assert isinstance(tokens, Tokens)
                for token in tokens_of(value):
                    tokens.add(token, y, w)
            elif value is None:
                self.missing[i] = self.missing.get(i, 0.0) + w
            elif kind == NUMERIC:
                numeric = self.observers.setdefault(i, Numeric())
                assert isinstance(numeric, Numeric)
                assert isinstance(value, float)
                numeric.add(value, y, w)
            else:
                nominal = self.observers.setdefault(i, Nominal())
                assert isinstance(nominal, Nominal)
                assert isinstance(value, int)
                nominal.add(value, y, w)


def tokens_of(value: object) -> frozenset[int]:
    """Tokens of a sparse value; a missing value holds none."""
    if value is None:
        return frozenset()
    assert isinstance(value, frozenset)
    return value


def candidates(leaf: Leaf, o: Options) -> tuple[list[Candidate], int, bool]:
    """Best candidate of every attribute in order of merit, attributes evaluated, any doubt."""
    found: list[Candidate] = []
    evaluations = 0
    doubtful = False
    for i in sorted(leaf.observers):
        observer = leaf.observers[i]
        tokens = sorted(observer.table) if isinstance(observer, Tokens) else [-1]
        for token in tokens:
            if i in leaf.removed or (i, token) in leaf.poor:
                continue
            evaluations += 1
            options = proposals(leaf, i, token, observer, o)
            doubtful = doubtful or any(near_the_edge(option, o) for option in options)
            options = [p for p in options if crit.is_admissible(p.branches, o.min_branch_fraction)]
            if options:
                best = max(options, key=lambda p: p.gain)
                rivals = [p.gain for p in options if not same_counts(p, best)]
                found.append(replace(best, rival=max(rivals, default=-math.inf)))
    return sorted(found, key=Candidate.place), evaluations, doubtful


def proposals(leaf: Leaf, i: int, token: int, observer: Observer, o: Options) -> list[Candidate]:
    """Every split of one attribute, in order of threshold or value."""
    raw: list[tuple[str, float | None, tuple[int, ...], tuple[dict[int, float], ...]]]
    if isinstance(observer, Tokens):
        known: crit.Weights = leaf.seen
        raw = [(SPARSE, None, (token,), observer.presence(token, leaf.seen))]
    elif isinstance(observer, Numeric):
        known = observer.known()
        raw = [(NUMERIC, t, (), parts) for t, parts in observer.splits(o.split_points)]
    elif o.nominal_split == "multiway":
        known = observer.known()
        values, branches = observer.multiway()
        raw = [("multiway", None, values, branches)]
    else:
        known = observer.known()
        raw = [("equal", None, (v,), observer.against_rest(v)) for v in sorted(observer.table)]
    if o.new_leaf == "inherit":
        before, scale = leaf.votes(), 1.0
    else:
        before, scale = dict(known), crit.total(known) / leaf.n
    return [
        Candidate(
            kind, i, token, threshold, values, tuple(branches),
            crit.gain(before, branches, criterion=o.criterion, scale=scale),
        )
        for kind, threshold, values, branches in raw
    ]  # fmt: skip


def near_the_edge(candidate: Candidate, o: Options) -> bool:
    """Rounding could decide whether a branch is heavy enough."""
    weights = [crit.total(branch) for branch in candidate.branches]
    edge = o.min_branch_fraction * sum(weights)
    return any(weight != edge and abs(weight - edge) <= DOUBT * sum(weights) for weight in weights)


def same_counts(a: Candidate, b: Candidate) -> bool:
    """Equal gains are equal to the last digit: the same branches, or the same ones swapped.

    Swapped branches are compared in quarters only, where sums are exact in any order.
    """
    if a.feature == b.feature and a.branches == b.branches:
        return True

    def table(candidate: Candidate) -> list[list[tuple[int, float]]]:
        return sorted(sorted(branch.items()) for branch in candidate.branches)

    exact = all((4.0 * w).is_integer() for branch in a.branches for w in branch.values())
    return exact and table(a) == table(b)


def judge(leaf: Leaf, classes: int, o: Options) -> Verdict:
    """Rank all candidates and the null split, and apply the test."""
    ranked, evaluations, doubtful = candidates(leaf, o)
    null = 0.0 if o.null_merit == "zero" else -math.inf
    value_range = crit.gain_range(classes, criterion=o.criterion, gini_range=o.gini_range)
    bound = crit.hoeffding(value_range, o.delta, bound_weight(leaf, o))
    best = ranked[0] if ranked and ranked[0].gain >= null else None
    if best is None:
        merit, second = null, ranked[0].gain if ranked else -math.inf
        doubtful = doubtful or (bool(ranked) and null - ranked[0].gain < DOUBT)
        return Verdict("none", None, merit, second, bound, ranked, evaluations, doubtful)
    second = max(null, ranked[1].gain if len(ranked) > 1 else -math.inf)
    lead = best.gain - second
    if best.gain <= o.min_merit:
        kind = "none"
    elif lead > bound:
        kind = "bound"
    else:
        kind = "tie" if bound < o.tau else "none"
    doubtful = doubtful or (
        DOUBT / 1000.0 < abs(best.gain) < o.min_merit + DOUBT
        or abs(lead - bound) < DOUBT
        or abs(bound - o.tau) < DOUBT
        or (len(ranked) > 1 and lead < DOUBT and not same_counts(best, ranked[1]))
        or best.gain - best.rival < DOUBT
    )
    return Verdict(kind, best, best.gain, second, bound, ranked, evaluations, doubtful)


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
            else:
                logs[k] += observer.log_likelihood(value, k) if isinstance(value, float) else 0.0
    top = max(logs.values())
    return crit.normalised({k: math.exp(value - top) for k, value in logs.items()})


def uses_naive_bayes(leaf: Leaf, o: Options) -> bool:
    """Whether this leaf answers by naive Bayes now."""
    if not leaf.active or leaf.n <= 0.0 or o.leaf_predictor == "mc":
        return False
    return o.leaf_predictor == "nb" or leaf.nb_ok >= leaf.mc_ok
