"""StreamTree's queues (Jin and Agrawal 2003): only as many nodes learn as fit into memory.

The others wait for their turn with class weights only, and a node that is done never learns again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.oracle.leaf import DOUBT, NOMINAL, NUMERIC, Leaf, Row
from tests.oracle.observers import Candidate, Nominal, Tokens
from tests.oracle.vfdt import OracleTree, Split

ACTIVE, QUEUED, PURE, ENDED = "active", "queued", "pure", "ended"
ENOUGH_FOR_PURITY = 1000.0  # weight
ENOUGH_FOR_SHARE = 100.0  # events that a node with the least share would have got


def model_bytes_of(tree: StreamTreeOracle, leaf: Leaf) -> float:
    """Bytes of a leaf's statistics by the model: 8 a number, 64 an observer, 24 a stored value."""
    numeric, nominal = tree.kinds.count(NUMERIC), tree.kinds.count(NOMINAL)
    numbers = 5 * numeric + sum(tree.values_met.values()) + tree.tokens_met
    observers = numeric + nominal + tree.tokens_met
    stored = sum(
        observer.entries()
        for observer in leaf.observers.values()
        if not isinstance(observer, Nominal | Tokens)
    )
    return 8.0 * tree.known_classes * numbers + 64.0 * observers + 24.0 * stored


def mean_of_peaks(tree: StreamTreeOracle) -> float:
    """Bytes set aside for the next node: what others needed at most, at least an empty leaf's."""
    empty = tree.bytes_of(tree, Leaf(-1, 0, None, {}, frozenset()))
    peaks = tree.given_back
    return max(empty, sum(peaks) / len(peaks)) if peaks else empty


@dataclass
class Place:
    """Where a leaf stands between the queue and its end."""

    state: str
    ticket: int = 0
    since: int = 0  # events of the stream when it became active
    arrivals: int = 0  # events that it got since then
    peak: float = 0.0  # bytes at most since then


@dataclass
class StreamTreeOracle(OracleTree):
    """A tree with queues; what a leaf's statistics weigh can be replaced."""

    bytes_of: Callable[[StreamTreeOracle, Leaf], float] = model_bytes_of
    reserve_of: Callable[[StreamTreeOracle], float] = mean_of_peaks

    def __post_init__(self) -> None:
        """The root learns at once."""
        super().__post_init__()
        self.places: dict[int, Place] = {0: Place(ACTIVE)}
        self.given_back: list[float] = []
        self.tickets = 0
        self.events_counted = 0
        self.events_until_done = 0

    def in_state(self, state: str) -> list[Leaf]:
        """Leaves in a state, by id."""
        return [leaf for leaf in self.leaves() if self.places[leaf.id].state == state]

    def queue(self) -> list[int]:
        """Ids of the waiting leaves, the next one first."""
        by_promise = self.options.queue_order == "promise"

        def turn(leaf: Leaf) -> tuple[float, int]:
            promise = leaf.n - max(leaf.seen.values(), default=0.0)
            return (-promise if by_promise else 0.0, self.places[leaf.id].ticket)

        return [leaf.id for leaf in sorted(self.in_state(QUEUED), key=turn)]

    # learning -----------------------------------------------------------------------------

    def _step(self, node: Split, x: Row, w: float) -> Leaf | Split:
        """A child made on first use takes its turn before the event that made it is counted."""
        nodes = len(self.nodes)
        child = super()._step(node, x, w)
        if len(self.nodes) > nodes:
            self._fill(self.events - 1)
        return self.nodes[child.id]

    def _learn_at(self, leaf: Leaf, x: Row, y: int, w: float) -> None:
        place = self.places[leaf.id]
        if place.state == ACTIVE:
            self.events_counted += 1
            place.arrivals += 1
        super()._learn_at(leaf, x, y, w)
        if place.state == PURE and self.options.reopen and not self._is_mostly_one_class(leaf):
            self._enqueue(leaf)
            self._fill(self.events)

    def _consider(self, leaf: Leaf) -> None:
        """An active leaf has counted an event: it is done, or attempts to split when due."""
        place = self.places[leaf.id]
        place.peak = max(place.peak, self.bytes_of(self, leaf))
        if leaf.n >= ENOUGH_FOR_PURITY and self._is_mostly_one_class(leaf):
            self._stop(leaf, PURE)
        elif self._is_starved(place):
            self._stop(leaf, ENDED)
        else:
            super()._consider(leaf)

    def _end(self) -> None:
        super()._end()
        share = self.options.stop_share
        if share > 0.0 and self.events % math.ceil(ENOUGH_FOR_SHARE / share) == 0:
            for leaf in self.in_state(ACTIVE):
                if self._is_starved(self.places[leaf.id]):
                    self._stop(leaf, ENDED)
        self._bound_statistics()
        is_done = not self.in_state(ACTIVE) and not self.in_state(QUEUED)
        if is_done and not self.events_until_done:
            self.events_until_done = self.events

    # stopping -----------------------------------------------------------------------------

    def _is_mostly_one_class(self, leaf: Leaf) -> bool:
        """One class holds the share at which a node is done."""
        share = self.options.stop_purity
        if share <= 0.0:
            return False
        most, needed = max(leaf.seen.values(), default=0.0), share * leaf.n
        exact = (4.0 * leaf.n).is_integer()
        self._doubt(not exact and abs(most - needed) < DOUBT * leaf.n, lasting=True)
        return most >= needed

    def _is_starved(self, place: Place) -> bool:
        """A node that has long been active gets too little of the stream."""
        share, events = self.options.stop_share, self.events - place.since
        if share <= 0.0 or events < ENOUGH_FOR_SHARE / share:
            return False
        return place.arrivals / events < share

    def _stop(self, leaf: Leaf, state: str) -> None:
        self._give_back(leaf)
        self.places[leaf.id].state = state
        self._fill(self.events)

    def _give_back(self, leaf: Leaf) -> None:
        """The leaf keeps class weights only."""
        self.history.activity.append((self.events, leaf.id, "deactivate"))
        self.given_back.append(self.places[leaf.id].peak)
        self._forget_timing(leaf.id)
        leaf.active = False
        leaf.observers.clear()
        leaf.missing.clear()
        leaf.bins.clear()

    # queueing -----------------------------------------------------------------------------

    def _install(self, leaf: Leaf, best: Candidate) -> Split:
        """The children queue before the memory of the leaf is given to the next."""
        self.given_back.append(self.places[leaf.id].peak)
        node = super()._install(leaf, best)
        del self.places[leaf.id]
        self._fill(self.events)
        return node

    def _new_leaf(self, parent: Split, prior: dict[int, float], routed: float) -> int:
        child = super()._new_leaf(parent, prior, routed)
        leaf = self.nodes[child]
        assert isinstance(leaf, Leaf)
        leaf.active = False
        self.places[child] = Place(ENDED)
        if self.options.stop_depth == 0 or leaf.depth < self.options.stop_depth:
            self._enqueue(leaf)
        return child

    def _enqueue(self, leaf: Leaf) -> None:
        self.tickets += 1
        self.places[leaf.id] = Place(QUEUED, ticket=self.tickets)

    def memory(self) -> float:
        """Bytes of all statistics."""
        return sum(self.bytes_of(self, leaf) for leaf in self.in_state(ACTIVE))

    def _fill(self, since: int) -> None:
        """Let leaves of the queue learn while there is room; one may always learn."""
        while waiting := self.queue():
            room = self.options.queue_bytes - self.memory() - self.reserve_of(self)
            if self.in_state(ACTIVE) and room < 0.0:
                return
            self._activate(waiting[0], since)

    def _activate(self, name: int, since: int) -> None:
        """The leaf starts counting anew; what it saw so far are votes."""
        if since != self.history.created[name]:
            self.history.activity.append((since, name, "reactivate"))
        leaf = self._with_votes_only(name)
        leaf.active = True
        self.places[name] = Place(ACTIVE, since=since)

    def _with_votes_only(self, name: int) -> Leaf:
        """The leaf without any count of its own."""
        old = self.nodes[name]
        assert isinstance(old, Leaf)
        leaf = Leaf(
            name, old.depth, old.parent, old.votes(), old.removed,
            active=False, mc_ok=old.mc_ok, nb_ok=old.nb_ok,
        )  # fmt: skip
        self.nodes[name] = leaf
        return leaf

    def _bound_statistics(self) -> None:
        """While the statistics are too large the leaf that was activated last queues again."""
        while self.memory() > self.options.queue_bytes and len(self.in_state(ACTIVE)) > 1:
            last = max(
                self.in_state(ACTIVE), key=lambda leaf: (self.places[leaf.id].since, leaf.id)
            )
            self._give_back(last)
            self._enqueue(self._with_votes_only(last.id))
