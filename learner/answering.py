"""Answers to rows from the arrays of one snapshot: few at a time, or many by a plan of the tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.bayes import class_width, slot_width
from learner.kernels.jit import JIT_DISABLED
from learner.kernels.predict import answer_by_votes, lay_tables, predict_few, predict_many
from learner.kernels.rules import MAJORITY, Rules
from learner.kernels.tree import CLASSES, NODES, SLOTS, Tree
from learner.kernels.walk import STEP, TOGETHER, Plan, lay_plan
from learner.scratch import new_scratch
from learner.state import Sizes, scratch_reference, tree_reference

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

MOST_TABLE_BYTES = 1 << 26  # of naive Bayes, beside a snapshot


class Answering:
    """Predicts with a tree that does not change; any thread may ask."""

    def __init__(
        self,
        tree: Tree,
        handles: tuple[Any, Any],
        sizes: Sizes,
        rules: Rules,
        spare: list[Any],
    ) -> None:
        self._tree, self._handles, self._sizes, self._rules = tree, handles, sizes, rules
        self._classes = int(tree.counts[CLASSES])
        self._spare = spare  # working space that nobody uses at the moment
        self._plan: tuple[Plan, int] | None = None
        self._tabled = handles[0]  # the tree with tables of naive Bayes, once there is a plan
        self._asked = 0  # rows, by those who ask for many

    def answer(self, batch: Batch, probabilities: Floats | None) -> tuple[Codes, Ids]:
        """Class codes and leaf ids; probabilities go into the array, if there is one."""
        codes, leaves = np.empty(batch.rows, np.int32), np.empty(batch.rows, np.int64)
        # Working space of its own: two threads may ask at the same time.
        try:
            scratch = self._spare.pop()
        except IndexError:
            scratch = scratch_reference(new_scratch(self._sizes, self._rules))
        given = *self._handles, self._rules.predictor, self._rules.new_leaf, scratch
        plan = self._plan_for(batch.rows, scratch) if batch.rows >= TOGETHER else None
        if plan is None:
            if probabilities is None:
                probabilities = np.empty((batch.rows, self._classes))
            predict_few(*given, batch, codes, probabilities, leaves)
        else:
            if probabilities is None:
                probabilities = np.empty((0, self._classes))
            if batch.numeric.shape[1] == 0:  # a row that has ended looks at its first number
                batch = batch._replace(numeric=np.zeros((batch.rows, 1)))
            given = self._tabled, *given[1:]
            predict_many(*given, *plan, batch, codes, probabilities, leaves)
        self._spare.append(scratch)
        return codes, leaves

    def by_votes(self, node: int) -> tuple[int, list[float]]:
        """Class code and probabilities of every row that ends at a node; -1 without classes."""
        probabilities = np.empty(self._classes)
        code = answer_by_votes(self._handles[0], self._rules.new_leaf, node, probabilities)
        return code, probabilities.tolist()

    def _plan_for(self, rows: int, scratch: Any) -> tuple[Plan, int] | None:
        """The tree laid out for many rows; it pays once they are as many as the nodes."""
        self._asked += rows
        nodes = int(self._tree.counts[NODES])
        if self._plan is None and self._asked >= nodes:
            most = 3 * nodes + len(self._tree.tables)
            step = np.empty(most, STEP)
            plan = Plan(
                step=step.view(np.recarray) if JIT_DISABLED else step,
                node=np.empty(most, np.int32),
                leaf=np.empty(most, np.int64),
                answer=np.empty(most, np.int32),
            )
            first = np.empty(nodes, np.int32)
            rules, tree = self._rules, self._handles[0]
            levels = lay_plan(tree, rules.predictor, rules.new_leaf, scratch, first, plan)
            self._lay_tables(scratch)
            self._plan = plan, levels
        return self._plan

    def _lay_tables(self, scratch: Any) -> None:
        """Rows of naive Bayes for every leaf, before anybody reads them, if they are not huge."""
        tree, rules = self._tree, self._rules
        if rules.predictor == MAJORITY:
            return
        slots, (_, classes, places) = int(tree.counts[SLOTS]), tree.values.shape
        numeric, nominal = tree.moments.shape[3], len(self._sizes.values)
        shape = slots, classes, class_width(numeric, nominal, places)
        if 8 * int(np.prod(shape)) <= MOST_TABLE_BYTES:
            of_slots = np.zeros((slots, slot_width(numeric, nominal)))
            tabled = tree_reference(tree._replace(bayes=np.zeros(shape), bayes_slot=of_slots))
            lay_tables(tabled, self._handles[1], rules.predictor, scratch)
            self._tabled = tabled
