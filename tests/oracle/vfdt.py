"""VFDT event by event, over dictionaries: one tree for every timing of split attempts.

Domingos and Hulten 2000 as the learner's documentation refines it.  Rows are dictionaries
feature index -> value (float, value code, frozenset of token codes); an absent key is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from tests.oracle import criterion as crit
from tests.oracle.history import History, split_weight
from tests.oracle.imac import Followed, room_for_candidates
from tests.oracle.intervals import prune_after_failure
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
from tests.oracle.timing import Wait, first_wait, wait_after_failure

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
    counts_on_the_way: ClassVar[bool] = False  # an event counts before it has reached its leaf

    def __post_init__(self) -> None:
        self.nodes: dict[int, Leaf | Split] = {0: Leaf(0, 0, None, {}, frozenset())}
        self.routed: dict[int, float] = {0: 0.0}
        self.next_id = 1
        self.waits: dict[int, Wait] = {}
        self.followed: dict[int, Followed] = {}
        self.splits: list[SplitEvent] = []
        self.history = History()
        self.known_classes = self.declared_classes
        self.values_met: dict[int, int] = {}
        self.tokens_met = 0
        self.doubtful_now = False
        self.doubtful_ever = False
        self.events = 0
        self.weight = 0.0
        self.attempts = self.no_split = self.pure_checks = 0
        self.attribute_evaluations = self.audited_splits = 0
        self.candidate_checks = self.reevaluations = 0
        self.splits_replaced = self.thresholds_moved = self.subtrees_collapsed = 0
        self.deactivated = self.reactivated = self.memory_checks = 0

    # learning -----------------------------------------------------------------------------

    def learn(self, x: Row, y: int, w: float = 1.0) -> None:
        """One labelled event."""
        self._begin(x, y, w)
        node = self.nodes[0]
        while isinstance(node, Split):
            node = self._step(node, x, w)
        self._learn_at(node, x, y, w)
        self._end()

    def _begin(self, x: Row, y: int, w: float) -> None:
        """Count the event for the tree as a whole."""
        self.doubtful_now = False
        self.events += 1
        self.weight += w
        self.routed[0] += w
        self.known_classes = max(self.known_classes, y + 1)
        for i, kind in enumerate(self.kinds):
            value = x.get(i)
            if kind == SPARSE:
                self.tokens_met = max(self.tokens_met, *(t + 1 for t in tokens_of(value)), 0)
            elif kind == NOMINAL and isinstance(value, int):
                self.values_met[i] = max(self.values_met.get(i, 0), value + 1)

    def _end(self) -> None:
        o = self.options
        if o.max_memory_bytes and self.events % o.memory_check_every == 0:
            self._bound_memory()

    def _doubt(self, doubtful: bool, *, lasting: bool = False) -> None:
        """Rounding may have decided; a lasting doubt may show much later."""
        self.doubtful_now |= doubtful
        self.doubtful_ever |= doubtful and lasting

    def _learn_at(self, leaf: Leaf, x: Row, y: int, w: float) -> None:
        """The event has reached its leaf."""
        self._score_predictors(leaf, x, y, w)
        self._observe(leaf, x, y, w)
        if leaf.active:
            self._audit(leaf)
            self._consider(leaf)

    def _observe(self, leaf: Leaf, x: Row, y: int, w: float) -> None:
        """Count the event in the statistics of a node and of its candidates."""
        leaf.add(x, y, w, self.kinds, self.options)
        if leaf.id in self.followed:
            self.followed[leaf.id].count(x, y, w)

    def _step(self, node: Split, x: Row, w: float) -> Leaf | Split:
        """The child that learns x; a branch for missing or unseen values is made on first use."""
        key = self._branch(node, x)
        value = x.get(node.feature)
        if key == OTHER and self.options.unseen == "grow" and isinstance(value, int):
            key = value
        if key not in node.children:
            made = node.children[key] = self._new_leaf(node, {}, 0.0)
            self.history.created[made] = self.events - (not self.counts_on_the_way)
        child = node.children[key]
        self.routed[child] += w
        return self.nodes[child]

    def _new_leaf(self, parent: Split, prior: dict[int, float], routed: float) -> int:
        """Id of a new leaf; ids are never used again."""
        child = self.next_id
        self.next_id += 1
        self.nodes[child] = Leaf(child, parent.depth + 1, parent.id, prior, parent.removed)
        self.routed[child] = routed
        self.history.created[child] = self.events
        return child

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
            close = left != right and abs(left - right) < DOUBT * (left + right)
            self._doubt(close, lasting=True)
            return int(right > left)
        if node.kind == "equal":
            return int(value is None or value != node.values[0])
        if node.kind == "subset":
            return int(value not in node.values)
        return value if isinstance(value, int) and value in node.children else OTHER

    def _score_predictors(self, leaf: Leaf, x: Row, y: int, w: float) -> None:
        if self.options.leaf_predictor != "nba" or leaf.n <= 0.0 or not leaf.active:
            return
        if crit.majority(leaf.votes()) == y:
            leaf.mc_ok += w
        posterior = naive_bayes(leaf, x)
        first, second = [*sorted(posterior.values(), reverse=True), 0.0][:2]
        self._doubt(first - second < DOUBT, lasting=True)
        if crit.majority(posterior) == y:
            leaf.nb_ok += w

    def _classes(self) -> int:
        return max(2, self.known_classes)

    # timing -------------------------------------------------------------------------------

    def _consider(self, leaf: Leaf) -> None:
        """Attempt to split if the timing says so."""
        if self.options.timing != "imac":
            if self._is_due(leaf):
                self._check(leaf)
        elif not leaf.is_pure(self.options):
            asks = self._is_triggered if leaf.id in self.followed else self._is_due
            if asks(leaf):
                self._attempt(leaf)

    def _is_due(self, leaf: Leaf) -> bool:
        wait = self.waits.get(leaf.id, first_wait(self.options))
        passed = leaf.n - leaf.n_last
        self._doubt(wait.is_doubtful_at(passed), lasting=True)
        return wait.is_over(passed)

    def _is_triggered(self, leaf: Leaf) -> bool:
        """The candidates ask for an attempt, at once or after a check of the candidates."""
        followed = self.followed[leaf.id]
        triggered = followed.is_triggered(self._classes())
        if not triggered and followed.is_check_due():
            self.candidate_checks += 1
            self.attribute_evaluations += followed.check(self._classes())
            triggered = followed.is_triggered(self._classes())
        self._doubt(followed.doubtful, lasting=True)
        return triggered and leaf.n - leaf.n_last >= self.options.min_attempt_gap

    def _check(self, leaf: Leaf) -> None:
        if leaf.is_pure(self.options):
            leaf.n_last = leaf.n
            self.pure_checks += 1
            self.waits[leaf.id] = Wait(self.options.n_min)
            self._doubt_purity(leaf)
        else:
            self._attempt(leaf)

    def _doubt_purity(self, leaf: Leaf) -> None:
        weights = leaf.counted(self.options).values()
        self._doubt(leaf.doubtful or any(0.0 < weight < DOUBT for weight in weights))

    # splitting ----------------------------------------------------------------------------

    def _judge(self, leaf: Leaf, *, settle: bool = True) -> Verdict:
        return judge(leaf, self._classes(), self.options, settle=settle)

    def _attempt(self, leaf: Leaf) -> None:
        """Evaluate all attributes and split if the test passes."""
        leaf.n_last = leaf.n
        self._doubt_purity(leaf)
        verdict = self._judge(leaf)
        self.attempts += 1
        self.attribute_evaluations += verdict.evaluations
        self._doubt(verdict.doubtful, lasting=self._keeps_doubts())
        if verdict.kind == "none":
            self._refuse(leaf, verdict)
        else:
            self._accept(leaf, verdict)

    def _keeps_doubts(self) -> bool:
        """Which attribute an attempt found best decides about later attempts."""
        o = self.options
        return o.timing in ("osm", "imac") or (o.timing == "cgd" and o.split_test != "hoeffding")

    def _refuse(self, leaf: Leaf, verdict: Verdict) -> None:
        """A failed attempt: what is dropped, and when the next one is due."""
        self.no_split += 1
        self.history.forecast[leaf.id] = split_weight(verdict, leaf, self._classes(), self.options)
        self._remove_poor(leaf, verdict)
        if self.options.numeric_observer == "intervals":
            prune_after_failure(leaf, verdict, self._classes(), self.options)
        if self.options.timing == "imac":
            self._follow(leaf, verdict)
        else:
            wait = wait_after_failure(verdict, leaf, self._classes(), self.options)
            self._doubt(wait.doubtful, lasting=True)
            self.waits[leaf.id] = wait

    def _follow(self, leaf: Leaf, verdict: Verdict) -> None:
        """Choose candidates; without any, wait as long as for a check of candidates."""
        followed = self._new_followed(leaf)
        followed.start(verdict, self._room())
        self._doubt(followed.doubtful, lasting=True)
        self.followed.pop(leaf.id, None)
        if followed.candidates:
            self.followed[leaf.id] = followed
        else:
            self.waits[leaf.id] = Wait(self.options.mu)

    def _new_followed(self, leaf: Leaf) -> Followed:
        return Followed(leaf, self.options)

    def _room(self) -> int:
        return room_for_candidates(self.kinds, self.tokens_met, self.options)

    def _remove_poor(self, leaf: Leaf, verdict: Verdict) -> None:
        """Bar attributes too far behind; one without an admissible split has no gain and stays."""
        if not self.options.remove_poor:
            return
        for candidate in verdict.ranked:
            behind = verdict.merit - candidate.gain - verdict.bound
            leaf.doubtful |= abs(behind) < DOUBT
            if behind > 0.0:
                leaf.poor.add((candidate.feature, candidate.token))

    def _accept(self, leaf: Leaf, verdict: Verdict) -> None:
        """A passed attempt."""
        best = verdict.best
        assert best is not None
        self._record(
            leaf, verdict.kind, best.feature, verdict.merit, verdict.second_merit, verdict.bound,
            self._delay(leaf),
        )  # fmt: skip
        self._forget_timing(leaf.id)
        self.history.note(self.events, leaf, verdict, verdict.kind)
        self._install(leaf, best)

    def _record(
        self,
        leaf: Leaf,
        kind: str,
        feature: int,
        merit: float,
        second_merit: float,
        bound: float,
        delay: float,
    ) -> None:
        """One structural change at the node of these statistics."""
        self.splits.append(
            SplitEvent(
                self.events, leaf.id, leaf.depth, kind, feature, leaf.n,
                merit, second_merit, bound, delay,
            )
        )  # fmt: skip
        self.history.changed(leaf.id)
        self.audited_splits += delay >= 0.0

    def _install(self, leaf: Leaf, best: Candidate) -> Split:
        """Put a split with new leaves in the place of the leaf."""
        removed = leaf.removed | {best.feature} if best.kind == "multiway" else leaf.removed
        node = Split(
            leaf.id, leaf.depth, leaf.parent, best.kind, best.feature, best.token,
            best.threshold, best.values, leaf.votes(), removed,
        )  # fmt: skip
        self.nodes[leaf.id] = node
        for key, branch in zip(branch_keys(best), best.branches, strict=True):
            prior = {} if self.options.new_leaf == "empty" else dict(branch)
            node.children[key] = self._new_leaf(node, prior, crit.total(branch))
        return node

    def _forget_timing(self, node: int) -> None:
        self.waits.pop(node, None)
        self.followed.pop(node, None)
        self.history.forecast.pop(node, None)

    # audit --------------------------------------------------------------------------------

    def is_audited(self, leaf: Leaf) -> bool:
        """A fixed share of the ids."""
        return splitmix64(leaf.id) / 2.0**64 < self.options.audit_fraction

    def _audit(self, leaf: Leaf) -> None:
        step = self.options.audit_step or (10 if NUMERIC in self.kinds else 1)
        if leaf.audit_passed is not None or leaf.count % step or not self.is_audited(leaf):
            return
        if not leaf.is_pure(self.options):
            verdict = self._judge(leaf, settle=False)
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
        learning = sum(x.active for x in self.leaves()) + self._inner_statistics()
        return node * len(self.nodes) + leaf * learning

    def _inner_statistics(self) -> int:
        """Inner nodes that keep the statistics of a leaf."""
        return 0

    def _bound_memory(self) -> None:
        self.memory_checks += 1
        node_bytes, leaf_bytes = self._bytes_per_node_and_leaf()
        room = self.options.max_memory_bytes - node_bytes * len(self.nodes)
        fits = math.floor(room / leaf_bytes) if leaf_bytes else len(self.nodes)
        fits = max(1, fits - self._inner_statistics())
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
        self.history.activity.append((self.events, leaf.id, "deactivate"))
        self._forget_timing(leaf.id)
        leaf.active = False
        leaf.observers.clear()
        leaf.missing.clear()

    def _reactivate(self, leaf: Leaf) -> None:
        self.reactivated += 1
        self.history.activity.append((self.events, leaf.id, "reactivate"))
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
        votes = self._own_votes(node)
        while crit.total(votes) <= 0.0 and node.parent is not None:
            if self.options.new_leaf == "empty":
                break
            node = self.nodes[node.parent]
            votes = self._own_votes(node)
        return votes

    def _own_votes(self, node: Leaf | Split) -> dict[int, float]:
        return node.votes() if isinstance(node, Leaf) else node.votes

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
