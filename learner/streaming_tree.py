"""The object shell of a tree: validates, calls the kernels, grows the arrays, reports."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.archive import Pieces, seal
from learner.batch import HEAVIEST, Batch, dense_batch
from learner.encoder import Encoder
from learner.errors import LearnerError, ParamsError
from learner.kernels.counting import look_over
from learner.kernels.jit import entry_of
from learner.kernels.nodes import new_leaf
from learner.kernels.numeric.entries import open_new_columns
from learner.kernels.rules import COMMIT_ONCE, GAUSSIAN, HOEFFDING, MAJORITY, PERIODIC
from learner.kernels.tally import count_late, count_nodes
from learner.kernels.tree import (
    CLASSES,
    EVENTS,
    LEAF,
    LOGGED,
    MEMORY_CHECKS,
    NOWHERE,
    PENDING,
    SHORT_OF_ROOM,
    UNLOGGED,
    Tree,
)
from learner.loop import learn_at_leaves
from learner.memory import enforce_memory, give_statistics, model_bytes
from learner.model_bytes import model_pieces, unpack_model
from learner.params import TreeParams
from learner.paths import learn_along_paths
from learner.prospect import LeafCopy, place_of_leaf
from learner.publication import Publisher
from learner.reading import CHANGE_NAMES, REASON_NAMES, attribute_name, test_text
from learner.schema import Kind
from learner.scratch import new_scratch
from learner.snapshot import Counters, Shape, Snapshot, counters_of
from learner.state import (
    Sizes,
    first_sizes,
    keeping_nodes,
    layout_for,
    layout_reference,
    new_tree,
    parts_of,
    resize_arrays,
    rules_reference,
    scratch_reference,
    sizes_for,
    tree_reference,
    with_room,
)
from learner.variants import VARIANTS

KEPT_SPLITS = 100_000  # while nobody asks for them
NOT_FITTED = -1  # no revision of an encoder
_NOBODY, _ALL_ONE = np.empty(0, np.int32), np.empty(0)


class SplitRecord(NamedTuple):
    """One structural change of the tree."""

    event: int  # events learned when it happened
    node: int  # id
    depth: int
    kind: str  # bound, tie; replace, move, collapse; deactivate, reactivate of statistics
    feature: str  # empty where there is no test
    test: str
    n: float  # weight the leaf had observed
    merit: float
    second_merit: float
    bound: float
    delay: float  # events since the test would first have passed; -1 where not audited
    reason: str | None  # bound, tie
    second: str | None  # test of the runner-up; None: not to split
    forecast: float  # n at which the last failed attempt foresaw the split; -1 where it did not


class StreamingTree:
    """A decision tree that learns one event at a time, for ever.

    >>> from learner import Encoder, Schema
    >>> tree = StreamingTree(Encoder(Schema.infer([{"x": 0.5}])), n_min=10)
    >>> y = tree.encoder.encode_labels(["no", "yes"] * 500)
    >>> X = tree.encoder.encode_records([{"x": 0.1}, {"x": 0.9}] * 500)
    >>> tree.learn(X, y)
    >>> tree.shape()
    Shape(nodes=3, leaves=2, active_leaves=2, depth=1)
    """

    def __init__(self, encoder: Encoder, variant: str = "vfdt", **params: Any) -> None:
        if variant not in VARIANTS:
            known = ", ".join(VARIANTS)
            raise ParamsError([f"variant is {variant!r}; expected one of {known}"])
        params_given = VARIANTS[variant].params_from(params)
        sizes = first_sizes(encoder, parts_of(params_given.rules(has_numeric=True)))
        self._hold(encoder, variant, params_given, sizes, new_tree(sizes))
        self._fit()
        self._tree.counts[CLASSES] = len(encoder.classes)
        new_leaf(self._handles[0], self._handles[2], NOWHERE)

    def _hold(
        self, encoder: Encoder, variant: str, params: TreeParams, sizes: Sizes, tree: Tree
    ) -> None:
        """Take arrays as they are; room for what comes next is made when something comes."""
        self.encoder = encoder
        self.variant = variant
        self.params = params
        self._sizes = sizes
        self._tree = tree
        self._layout = layout_for(encoder, sizes)
        self._rules = params.rules(has_numeric=sizes.numeric > 0)
        self._fitted = NOT_FITTED
        self._split_lines: deque[list[float]] = deque(maxlen=KEPT_SPLITS)
        self._unlogged = 0
        self._values_learned = np.array(encoder.value_counts(), np.int64)
        self._publisher = Publisher()
        self._underway: dict[str, npt.NDArray[Any]] = {}  # decisions, where workers were asked

    def _keep_up(self) -> None:
        """Follow the encoder, which may have met something new since the last event."""
        if self.encoder.revision != self._fitted:
            self._fit()

    def _fit(self, leaves: int = 0) -> None:
        """Arrays and working space for all that the encoder knows, and for what comes next.

        ``leaves`` is how many are about to get statistics.
        """
        sizes = sizes_for(self.encoder, self._sizes)
        sizes = with_room(sizes, self._tree, leaves)
        had = self._sizes.numeric
        if sizes != self._sizes:
            arrays = self._tree._asdict()
            del self._tree  # and the handles: what nobody else holds grows where it is
            self.__dict__.pop("_handles", None)
            self._publisher.let_go()
            try:
                resize_arrays(arrays, self._sizes, sizes)
                self._sizes = sizes
            finally:
                self._tree = Tree(**arrays)
        self._layout = layout_for(self.encoder, sizes)
        self._fitted = self.encoder.revision
        self._rules = self.params.rules(has_numeric=sizes.numeric > 0)
        self._scratch = new_scratch(sizes, self._rules)
        self._handles = (
            tree_reference(self._tree),
            layout_reference(self._layout),
            rules_reference(self._rules),
            scratch_reference(self._scratch),
        )
        self._parts = self._parts_needed()
        self._entry: Any = None  # the kernel for these arrays, from the first event on
        if sizes.parts.entries and sizes.numeric > had:
            for slot in self._tree.node["slot"][np.flatnonzero(keeping_nodes(self._tree))]:
                open_new_columns(self._handles[0], int(slot), had)

    def learn(
        self,
        X: Batch | npt.ArrayLike,  # noqa: N803 (the usual name of a data matrix)
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        predicted: npt.NDArray[np.int32] | None = None,
    ) -> None:
        """Learn events in their order.

        Parameters
        ----------
        X
            A batch from this tree's encoder, or a matrix in schema order (codes for nominal).
        y
            Class codes from this tree's encoder.
        w
            Weights above 0, at most HEAVIEST; None means that every event weighs 1.
        predicted
            If given, takes the class code predicted before each event is learned.
        """
        batch, codes, weights, no_gaps = self._checked(X, y, w)
        if self._underway:
            raise LearnerError(
                "the model has decisions of workers under way; expected a tree with workers, in "
                "the mode that it was learned in"
            )
        out = room_for_answers(predicted, len(codes))
        self._keep_up()
        row = 0
        while row < len(codes) or self._is_unfinished():
            start = row
            given = (*self._handles, batch, codes, weights, start, out, no_gaps, *self._parts)
            if self._entry is None:
                along = self._counts_along_paths()
                self._entry = entry_of(learn_along_paths if along else learn_at_leaves, *given)
            row = self._entry(*given)
            del given  # arrays may grow now
            self._drain_log()
            if self._rules.max_memory_bytes > 0:
                self._note_values(batch.nominal[start:row])
            if self._memory_check_is_due():
                self._check_memory()
            if row < len(codes) or self._is_unfinished():
                self._fit()

    def _parts_needed(self) -> tuple[bool | None, ...]:
        """Which parts learn_at_leaves is compiled with: more than VFDT's own, naive Bayes."""
        if self._counts_along_paths():
            return ()
        majority = self._rules.predictor == MAJORITY
        return None if self._is_plain() else True, None if majority else True

    def _is_plain(self) -> bool:
        """Whether VFDT's own parts are enough."""
        rules = self._rules
        own = rules.observer == GAUSSIAN and rules.timing == PERIODIC and rules.queue_bytes == 0
        return own and rules.split_test == HOEFFDING

    def _counts_along_paths(self) -> bool:
        """Whether inner nodes keep statistics too."""
        return self._rules.policy != COMMIT_ONCE or self._rules.reference_from > 0.0

    def _is_unfinished(self) -> bool:
        """Whether the last event left something that waits for room."""
        return bool(self._tree.counts[PENDING] or self._tree.counts[SHORT_OF_ROOM])

    def _note_values(self, nominal: npt.NDArray[np.int32]) -> None:
        """The memory bound counts the values of the events learned, not of those still to come."""
        learned = np.zeros(nominal.shape[1], np.int64)
        learned[: len(self._values_learned)] = self._values_learned
        highest = nominal.max(axis=0, initial=-1) + 1
        self._values_learned = np.maximum(learned, highest)

    def _memory_check_is_due(self) -> bool:
        events, every = int(self._tree.counts[EVENTS]), self._rules.memory_check_every
        checked = int(self._tree.counts[MEMORY_CHECKS])
        due = self._rules.max_memory_bytes > 0 and events // every > checked
        return due and not self._tree.counts[PENDING]

    def _check_memory(self) -> None:
        self._fit()
        values = int(self._values_learned.sum())
        handles = self._handles[:2]
        chosen = enforce_memory(self._tree, handles, self._layout, self._rules, values)
        del handles
        if chosen:
            self._fit(len(chosen))
            give_statistics(self._tree, self._handles[:3], chosen)
        self._drain_log()

    def _checked(
        self,
        X: Batch | npt.ArrayLike,  # noqa: N803
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
    ) -> tuple[Batch, npt.NDArray[np.int32], npt.NDArray[np.float64], bool]:
        """The events as kernels take them, and whether no number is missing."""
        batch, codes, weights = self._checked_shape(X, y, w)
        classes = len(self.encoder.classes)
        no_gaps, highest = look_over(batch.numeric, codes)
        if highest >= classes:
            wrong = codes.min() if codes.min() < 0 else codes.max()
            raise LearnerError(f"y holds the class code {wrong}; expected 0 to {classes - 1}")
        if not no_gaps and np.isinf(batch.numeric).any():
            raise LearnerError("X holds an infinite number; expected finite ones, NaN = missing")
        return batch, codes, weights, no_gaps

    def _checked_shape(
        self,
        X: Batch | npt.ArrayLike,  # noqa: N803
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
    ) -> tuple[Batch, npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Contiguous arrays that belong together, with weights that are some."""
        batch = X if isinstance(X, Batch) else dense_batch(self.encoder.schema, X)
        batch = Batch(
            np.ascontiguousarray(batch.numeric, np.float64),
            np.ascontiguousarray(batch.nominal, np.int32),
            np.ascontiguousarray(batch.sparse_start, np.int64),
            np.ascontiguousarray(batch.sparse_index, np.int32),
        )
        codes = np.ascontiguousarray(y, np.int32)
        weights = _ALL_ONE if w is None else np.ascontiguousarray(w, np.float64)
        check_batch(self.encoder, batch)
        if len(codes) != batch.rows:
            raise LearnerError(f"y has {len(codes)} entries; expected {batch.rows}, one a row")
        if w is not None:
            if len(weights) != len(codes):
                raise LearnerError(f"w has {len(weights)} entries; expected {len(codes)}")
            if not ((weights > 0) & (weights <= HEAVIEST)).all():
                wrong = weights[~((weights > 0) & (weights <= HEAVIEST))][0]
                raise LearnerError(
                    f"w holds {wrong}; expected weights above 0 and at most {HEAVIEST:g}"
                )
        return batch, codes, weights

    def _drain_log(self) -> None:
        counts = self._tree.counts
        if counts[LOGGED]:
            self._split_lines += self._tree.log[: counts[LOGGED]].tolist()
            counts[LOGGED] = 0
        self._unlogged += int(counts[UNLOGGED])
        counts[UNLOGGED] = 0

    def take_splits(self) -> list[SplitRecord]:
        """Structural changes since the last call, at most the last KEPT_SPLITS."""
        records = [self._split_record(*line) for line in self._split_lines]
        self._split_lines.clear()
        return records

    def take_unlogged(self) -> int:
        """Leaves that lost or got statistics since the last call, too many at once to be told."""
        unlogged, self._unlogged = self._unlogged, 0
        return unlogged

    def _split_record(
        self, event: float, node: float, depth: float, change: float, kind: float, column: float,
        cut: float, n: float, merit: float, second_merit: float, bound: float, delay: float,
        reason: float, second_kind: float, second_column: float, second_cut: float,
        forecast: float,
    ) -> SplitRecord:  # fmt: skip
        second = test_text(self.encoder, int(second_kind), int(second_column), second_cut)
        return SplitRecord(
            int(event),
            int(node),
            int(depth),
            CHANGE_NAMES[int(change)],
            attribute_name(self.encoder, int(kind), int(column)),
            test_text(self.encoder, int(kind), int(column), cut),
            n,
            merit,
            second_merit,
            bound,
            delay,
            REASON_NAMES.get(int(reason)),
            second or None,
            forecast,
        )

    def counters(self) -> Counters:
        """What happened since the tree began."""
        return counters_of(self._tree)

    def shape(self) -> Shape:
        """Nodes, leaves and depth, counted from the tree."""
        self._keep_up()
        return Shape(*map(int, count_nodes(self._handles[0])))

    def late_leaves(self) -> int:
        """Audited leaves whose test has passed already and that have not split yet."""
        self._keep_up()
        return int(count_late(self._handles[0], self._rules.audit_fraction))

    def unresolved(self) -> int:
        """Splits of the reference that the variant's own timing has not made yet."""
        nodes = self._tree.node[np.flatnonzero(keeping_nodes(self._tree))]
        return int(((nodes["kind"] != LEAF) & (self._rules.reference_from > 0.0)).sum())

    def memory_bytes(self) -> int:
        """Bytes of the model by the byte model of the memory bound."""
        return model_bytes(self._tree, self._layout, sum(self.encoder.value_counts()))

    def snapshot(self) -> Snapshot:
        """The tree as it is now, to predict with; it does not move when the tree learns on.

        Costs as much as has changed since the snapshot before.
        """
        self._keep_up()
        return self._publisher.publish(
            self._tree, self._handles[:2], self._sizes, self._layout, self.encoder,
            self.variant, self.params,
        )  # fmt: skip

    def copy_leaf(self, node_id: int) -> LeafCopy:
        """A leaf as it is now, which tells why it has not split; raises UnknownNode."""
        self._keep_up()
        node = place_of_leaf(self._tree, self.encoder, node_id)
        encoder = self._publisher.frozen(self.encoder)
        return LeafCopy(
            self._tree, self._sizes, self._layout, self._rules, encoder, node,
            plain=self._parts_needed()[:1] == (None,),
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """The whole model with its encoder; equal models give equal bytes."""
        parts = list(self.to_pieces())
        return b"".join([*parts, seal(parts)[0]])

    def to_pieces(self) -> Pieces:
        """The bytes of ``to_bytes`` without the digest at their end, not joined yet.

        Each is copied when its turn comes: the tree may learn on when one has gone through all of
        them, and those that one has kept do not move then. ``seal`` has their digest.
        """
        self._keep_up()
        return model_pieces(
            self._tree, self._sizes, self.encoder, self.variant, self.params, self._underway
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamingTree:
        """The tree that ``to_bytes`` wrote; it goes on as if it had never stopped."""
        model = unpack_model(data)
        tree = cls.__new__(cls)
        tree._hold(model.encoder, model.variant, model.params, model.sizes, model.tree)
        tree._underway = model.underway
        return tree

    def hash(self) -> str:
        """One name for the exact state: SHA-256 of the canonical bytes."""
        return seal(self.to_pieces())[1]


def room_for_answers(predicted: npt.NDArray[np.int32] | None, events: int) -> npt.NDArray[np.int32]:
    """Where predictions go, an empty array for nowhere; raises LearnerError if it does not fit."""
    if predicted is None:
        return _NOBODY
    fits = predicted.dtype == np.int32 and predicted.ndim == 1 and predicted.flags.c_contiguous
    if not fits or len(predicted) != events:
        raise LearnerError(
            f"predicted is {predicted.dtype}[{len(predicted)}]; "
            f"expected int32[{events}], one after the other in memory"
        )
    return predicted


def check_batch(encoder: Encoder, batch: Batch) -> None:
    """Raise unless the batch has this encoder's columns and codes."""
    expected = len(encoder.positions(Kind.NUMERIC)), len(encoder.positions(Kind.NOMINAL))
    found = batch.numeric.shape[1], batch.nominal.shape[1]
    if found != expected:
        raise LearnerError(
            f"the batch has {found[0]} numeric and {found[1]} nominal columns; "
            f"expected {expected[0]} and {expected[1]}, as its encoder has"
        )
    if len(batch.sparse_index) and batch.sparse_index.max() >= encoder.token_count:
        raise LearnerError(
            f"the batch holds the token column {batch.sparse_index.max()}; "
            f"its encoder knows {encoder.token_count} tokens"
        )
