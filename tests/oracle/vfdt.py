"""VFDT with periodic attempts, event by event, over dictionaries.

Domingos and Hulten 2000 as the learner's documentation refines it.  Rows are dictionaries
feature index -> value (float, value code, frozenset of token codes); an absent key is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.oracle import criterion as crit
from tests.oracle.leaf import (
    DOUBT,
    NOMINAL,
    NUMERIC,
    SPARSE,
    Leaf,
    Options,
    Row,
    Verdict,
    judge,
    naive_bayes,
    tokens_of,
    uses_naive_bayes,
)
from tests.oracle.observers import Candidate

__all__ = ["NOMINAL", "NUMERIC", "SPARSE", "Leaf", "Options", "OracleTree", "Row", "Split"]

OTHER = -1  # key of the branch for missing and unseen nominal values


@dataclass
class Split:
    """An inner node: a test, its children by branch key, and the votes frozen at the split."""

    id: int
    depth: int
    parent: int | None
    kind: str
    feature: int
    token: int
    threshold: float | None
    values: tuple[int, ...]
    votes: dict[int, float]
    removed: frozenset[int]
    children: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SplitEvent:
    """One structural change."""

    event: int
    node: int
    depth: int
    kind: str
    feature: int
    n: float
    merit: float
    second_merit: float
    bound: float
    delay: float


def splitmix64(z: int) -> int:
    """Steele, Lea and Flood's finaliser; spreads consecutive ids over 64 bits."""
    mask = (1 << 64) - 1
    z = (z + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


@dataclass
class OracleTree:
    """The tree as a dictionary id -> node; `kinds` are the features' kinds in schema order."""

    kinds: list[str]
    declared_classes: int = 0
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self.nodes: dict[int, Leaf | Split] = {0: Leaf(0, 0, None, {}, frozenset())}
        self.routed: dict[int, float] = {0: 0.0}
        self.splits: list[SplitEvent] = []
        self.known_classes = self.declared_classes
        self.values_met: dict[int, int] = {}
        self.tokens_met = 0
        self.doubtful_now = False
        self.events = 0
        self.weight = 0.0
        self.attempts = self.no_split = self.pure_checks = 0
        self.attribute_evaluations = self.audited_splits = 0
        self.deactivated = self.reactivated = self.memory_checks = 0

    # learning -----------------------------------------------------------------------------

    def learn(self, x: Row, y: int, w: float = 1.0) -> None:
        """One labelled event."""
        self.doubtful_now = False
        leaf = self._route_to_learn(x, w)
        self._score_predictors(leaf, x, y, w)
        leaf.add(x, y, w, self.kinds)
        self.events += 1
        self.weight += w
        self.known_classes = max(self.known_classes, y + 1)
        self._meet_values(x)
        if leaf.active:
            self._audit(leaf)
            if leaf.n - leaf.n_last >= self.options.n_min:
                self._check(leaf)
        o = self.options
        if o.max_memory_bytes and self.events % o.memory_check_every == 0:
            self._bound_memory()

    def _meet_values(self, x: Row) -> None:
        for i, kind in enumerate(self.kinds):
            value = x.get(i)
            if kind == SPARSE:
                self.tokens_met = max(self.tokens_met, *(t + 1 for t in tokens_of(value)), 0)
            elif kind == NOMINAL and isinstance(value, int):
                self.values_met[i] = max(self.values_met.get(i, 0), value + 1)

    def _route_to_learn(self, x: Row, w: float) -> Leaf:
        node = self.nodes[0]
        self.routed[0] += w
        while isinstance(node, Split):
            key = self._branch(node, x)
            value = x.get(node.feature)
            if key == OTHER and self.options.unseen == "grow" and isinstance(value, int):
                key = value
            if key not in node.children:
                child = len(self.nodes)
                self.nodes[child] = Leaf(child, node.depth + 1, node.id, {}, node.removed)
                self.routed[child] = 0.0
                node.children[key] = child
            self.routed[node.children[key]] += w
            node = self.nodes[node.children[key]]
        return node

    def _branch(self, node: Split, x: Row) -> int:
        """Key of the branch that x takes; it may not exist yet at a multiway split."""
        value = x.get(node.feature)
        if node.kind == SPARSE:
            return int(node.token in tokens_of(value))
        if node.kind == NUMERIC:
            if isinstance(value, float):
                assert node.threshold is not None
                return int(value > node.threshold)
            left, right = (self.routed[node.children[b]] for b in (0, 1))
            if left != right and abs(left - right) < DOUBT * (left + right):
                self.doubtful_now = True
            return int(right > left)
        if node.kind == "equal":
            return int(value is None or value != node.values[0])
        return value if isinstance(value, int) and value in node.children else OTHER

    def _score_predictors(self, leaf: Leaf, x: Row, y: int, w: float) -> None:
        if self.options.leaf_predictor != "nba" or leaf.n <= 0.0 or not leaf.active:
            return
        if crit.majority(leaf.votes()) == y:
            leaf.mc_ok += w
        if crit.majority(naive_bayes(leaf, x)) == y:
            leaf.nb_ok += w

    def _classes(self) -> int:
        return max(2, self.known_classes)

    def _check(self, leaf: Leaf) -> None:
        leaf.n_last = leaf.n
        counted = leaf.counted(self.options)
        self.doubtful_now |= leaf.doubtful or any(0.0 < v < DOUBT for v in counted.values())
        if leaf.is_pure(self.options):
            self.pure_checks += 1
            return
        verdict = judge(leaf, self._classes(), self.options)
        self.attempts += 1
        self.attribute_evaluations += verdict.evaluations
        self.doubtful_now |= verdict.doubtful
        if verdict.kind == "none":
            self.no_split += 1
            self._remove_poor(leaf, verdict)
        else:
            self._split(leaf, verdict)

    def _remove_poor(self, leaf: Leaf, verdict: Verdict) -> None:
        """Bar attributes too far behind; one without an admissible split has no gain and stays."""
        if not self.options.remove_poor:
            return
        for candidate in verdict.ranked:
            behind = verdict.merit - candidate.gain - verdict.bound
            leaf.doubtful |= abs(behind) < DOUBT
            if behind > 0.0:
                leaf.poor.add((candidate.feature, candidate.token))

    def _split(self, leaf: Leaf, verdict: Verdict) -> None:
        best = verdict.best
        assert best is not None
        self.splits.append(
            SplitEvent(
                self.events, leaf.id, leaf.depth, verdict.kind, best.feature, leaf.n,
                verdict.merit, verdict.second_merit, verdict.bound, self._delay(leaf),
            )
        )  # fmt: skip
        self.audited_splits += self.splits[-1].delay >= 0.0
        removed = leaf.removed | {best.feature} if best.kind == "multiway" else leaf.removed
        node = Split(
            leaf.id, leaf.depth, leaf.parent, best.kind, best.feature, best.token,
            best.threshold, best.values, leaf.votes(), removed,
        )  # fmt: skip
        self.nodes[leaf.id] = node
        for key, branch in zip(branch_keys(best), best.branches, strict=True):
            child = len(self.nodes)
            prior = {} if self.options.new_leaf == "empty" else dict(branch)
            self.nodes[child] = Leaf(child, leaf.depth + 1, leaf.id, prior, removed)
            self.routed[child] = crit.total(branch)
            node.children[key] = child

    # audit --------------------------------------------------------------------------------

    def is_audited(self, leaf: Leaf) -> bool:
        """A fixed share of the ids."""
        return splitmix64(leaf.id) / 2.0**64 < self.options.audit_fraction

    def _audit(self, leaf: Leaf) -> None:
        step = self.options.audit_step or (10 if NUMERIC in self.kinds else 1)
        if leaf.audit_passed is not None or leaf.count % step or not self.is_audited(leaf):
            return
        if not leaf.is_pure(self.options):
            verdict = judge(leaf, self._classes(), self.options)
            if verdict.kind != "none":
                leaf.audit_passed = leaf.n

    def _delay(self, leaf: Leaf) -> float:
        if not self.is_audited(leaf):
            return -1.0
        return 0.0 if leaf.audit_passed is None else leaf.n - leaf.audit_passed

    # memory -------------------------------------------------------------------------------

    def leaves(self) -> list[Leaf]:
        """All leaves by id."""
        return [node for _, node in sorted(self.nodes.items()) if isinstance(node, Leaf)]

    def _bytes_per_node_and_leaf(self) -> tuple[int, int]:
        classes = self.known_classes
        numeric, nominal = self.kinds.count(NUMERIC), self.kinds.count(NOMINAL)
        cells = 5 * numeric + sum(self.values_met.values()) + self.tokens_met
        observers = numeric + nominal + self.tokens_met
        return 256 + 16 * classes, 8 * classes * cells + 64 * observers

    def model_bytes(self) -> int:
        """The byte model of the memory bound."""
        node, leaf = self._bytes_per_node_and_leaf()
        return node * len(self.nodes) + leaf * sum(x.active for x in self.leaves())

    def _bound_memory(self) -> None:
        self.memory_checks += 1
        node_bytes, leaf_bytes = self._bytes_per_node_and_leaf()
        room = self.options.max_memory_bytes - node_bytes * len(self.nodes)
        fits = max(1, math.floor(room / leaf_bytes)) if leaf_bytes else len(self.nodes)
        ranked = sorted(
            self.leaves(), key=lambda x: (-(x.n - max(x.seen.values(), default=0.0)), x.id)
        )
        for place, leaf in enumerate(ranked):
            if place >= fits and leaf.active:
                self._deactivate(leaf)
            elif place < fits and not leaf.active:
                self._reactivate(leaf)

    def _deactivate(self, leaf: Leaf) -> None:
        self.deactivated += 1
        leaf.active = False
        leaf.observers.clear()
        leaf.missing.clear()

    def _reactivate(self, leaf: Leaf) -> None:
        self.reactivated += 1
        self.nodes[leaf.id] = Leaf(
            leaf.id, leaf.depth, leaf.parent, leaf.votes(), leaf.removed,
            mc_ok=leaf.mc_ok, nb_ok=leaf.nb_ok,
        )  # fmt: skip

    # predicting ---------------------------------------------------------------------------

    def find(self, x: Row) -> Leaf | Split:
        """The leaf of x, or the split node whose branch for x does not exist."""
        node = self.nodes[0]
        while isinstance(node, Split):
            key = self._branch(node, x)
            if key not in node.children:
                return node
            node = self.nodes[node.children[key]]
        return node

    def standing(self, x: Row) -> dict[int, float]:
        """Votes or posterior that answer for x; all zero where nothing is known."""
        node = self.find(x)
        if isinstance(node, Leaf) and uses_naive_bayes(node, self.options):
            return naive_bayes(node, x)
        return self.effective_votes(node)

    def effective_votes(self, node: Leaf | Split) -> dict[int, float]:
        """Votes of the node, or of the nearest ancestor that has any."""
        votes = node.votes() if isinstance(node, Leaf) else node.votes
        while crit.total(votes) <= 0.0 and node.parent is not None:
            if self.options.new_leaf == "empty":
                break
            above = self.nodes[node.parent]
            assert isinstance(above, Split)
            node, votes = above, above.votes
        return votes

    def probabilities(self, x: Row) -> list[float]:
        """One number per known class; uniform when the tree is empty."""
        standing = self.standing(x)
        count = self.known_classes
        if crit.total(standing) <= 0.0:
            return [1.0 / count] * count
        shares = crit.normalised(standing)
        return [shares.get(k, 0.0) for k in range(count)]

    def predict(self, x: Row) -> int:
        """Class code, -1 when no class is known."""
        standing = self.standing(x)
        if crit.total(standing) > 0.0:
            return crit.majority(standing)
        return 0 if self.known_classes else -1


def branch_keys(best: Candidate) -> tuple[int, ...]:
    """Branch numbers of a binary test, values of a multiway one."""
    return best.values if best.kind == "multiway" else (0, 1)
