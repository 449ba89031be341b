"""How long the candidates of a leaf cannot start an attempt, whatever comes.

The merit of a test times n is M = sum_jm n_jm log2(n_jm N / (n_j c_m)), with c_m and N the events
of class m and all that know the attribute. An event of class m in branch j moves it, an infinitely
small weight at a time, by

    dM = log2(n_jm N / (n_j c_m)) dw

As n_jm <= c_m it rises by at most log2(N / n_j), and as c_m <= N it falls by at most
log2(n_j / n_jm). Over a weight H <= n, with which N <= 2n, that is

    rise <= H log2(2n / least n_j)                   all on the lightest branch
    rise <= H log2(2n e branches / H)                all on empty branches alike
    fall <= H log2(2n e branches classes / H)        all on empty cells alike

With the Gini form dM lies between -2 and 2. The trigger needs G_a - G_b > epsilon(n), a lead of M
above sqrt(needed n), which only grows. So a leaf whose lead is further away than the best may rise
and the second may fall, or whose best alone is, stays silent that long, and nobody looks.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import INFO_GAIN
from learner.kernels.criterion import impurity
from learner.kernels.elementary import log2, whole_vectors, xlog2x
from learner.kernels.jit import apart, flag, inlined, inner, int64, place
from learner.kernels.rules import GAUSSIAN, Records, Rules, Scratch
from learner.kernels.tree import CLASSES, CONTAINS, MULTIWAY, NUMERIC, Tree

Floats = npt.NDArray[np.float64]

E = 2.718281828459045
GINI_RATE = 2.0
SAFE = 0.999  # of what rounding could make too long


@inlined
def stays_silent(
    node: Records, watch: Records, quiet_until: Floats, slot: int, mu: float, needed: float,
    tau: float,
) -> bool:  # fmt: skip
    """Whether it is certain, at a glance, that the candidates of a leaf start no attempt.

    ``needed`` is n epsilon(n)^2. It is not certain where a check is due, or a tie.
    """
    n = node.n
    if watch.candidates == 0:
        return bool(n - node.n_last < node.wait)
    if n >= quiet_until[place(slot)] or n - watch.n_check >= mu:
        return False
    return bool(n * tau * tau * 1.000001 < needed)


@inner
def is_silent(tree: Tree, rules: Rules, scratch: Scratch, node: int, needed: float) -> bool:
    """The same on looking at the measures, and until when that will do.

    The lead of the best over the others and X_0, times n, is compared without a root. Where
    rounding could decide it is not certain.
    """
    at = tree.node[node]
    slot, n = int64(at.slot), at.n
    watch = tree.slot[slot]
    if watch.candidates == 0 or not rules.measured_late:
        return False
    least = measure_candidates(tree, rules, scratch, node)
    if n - watch.n_check >= rules.mu or n * rules.tau * rules.tau * 1.000001 >= needed:
        return False
    best, second = 0.0, 0.0
    for q in range(watch.candidates):
        candidate = tree.candidate[slot, q]
        merit = candidate.before - candidate.after
        second = max(second, min(best, merit))
        best = max(best, merit)
    lead = best - second
    if lead * lead >= 0.999999 * needed * n:
        return False
    target = math.sqrt(0.999998 * needed * n)
    branches, classes = len(scratch.branch_counts), tree.counts[CLASSES]
    weight = quiet_weight(rules.criterion, n, least, branches, classes, target, best, lead)
    tree.quiet_until[slot] = n + weight
    return True


@inner
def quiet_weight(
    criterion: int, n: float, least: float, branches: int, classes: int, target: float,
    best: float, lead: float,
) -> float:  # fmt: skip
    """The weight of events that cannot lift the lead to the target; 0 where that is less than 1.

    ``least`` is the weight of the lightest branch, 0 where that is not known. A weight that is
    safe makes the bound on the fall smaller, and so a larger one safe.
    """
    rise, fall, cells = GINI_RATE, GINI_RATE, E * branches * classes
    if criterion == INFO_GAIN:
        rise, fall = log2(E * branches * 2.0 * n), log2(cells * 2.0 * n)
        if least > 0.0:
            rise = min(rise, log2(2.0 * n / least))
    weight = (target - lead) / (rise + fall)
    if criterion == INFO_GAIN and weight > 1.0:
        weight = (target - lead) / (rise + log2(cells * 2.0 * n / min(weight, n)))
    weight = SAFE * min(n, max(weight, (target - best) / rise))
    return weight if weight >= 1.0 else 0.0


@inner
def measure_candidates(tree: Tree, rules: Rules, scratch: Scratch, node: int) -> float:
    """Impurity before and after all tests with two branches, from their counts.

    Returns the weight of the lightest branch, 0 where a test has more of them.
    """
    slot, classes = int64(tree.node[node].slot), tree.counts[CLASSES]
    candidates, is_info = tree.slot[slot].candidates, flag(rules.criterion == INFO_GAIN)
    counts, cells = scratch.followed[0], scratch.followed[1]
    used, least = _note(counts, int64(0), tree.seen[node, :classes]), np.inf
    for q in range(candidates):
        if tree.candidate[slot, q].kind != MULTIWAY:
            used = _note(counts, used, tree.sides[slot, q, 0, :classes])
            used = _note(counts, used, tree.sides[slot, q, 1, :classes])
    size = whole_vectors(used)
    _take_cells(counts[:size], cells[:size], is_info)
    own, at = _closed(counts, cells, int64(0), classes, is_info), classes + 1
    for q in range(candidates):
        candidate = tree.candidate[slot, q]
        if candidate.kind == MULTIWAY:
            least = 0.0
            continue
        first, second = at, at + classes + 1
        candidate.after = _closed(counts, cells, first, classes, is_info)
        candidate.after += _closed(counts, cells, second, classes, is_info)
        candidate.before = own
        knows_all = candidate.kind == CONTAINS
        if candidate.kind == NUMERIC:
            knows_all = rules.observer == GAUSSIAN and tree.slot[slot].gaps == 0
        if not knows_all:
            of_class = scratch.classes[0, :classes]
            for k in range(classes):
                of_class[k] = counts[first + k] + counts[second + k]
            candidate.before = impurity(rules.criterion, of_class)
        least = min(least, counts[first + classes], counts[second + classes])
        at = second + classes + 1
    return least


@inlined
def _note(counts: Floats, used: int, of_class: Floats) -> int:
    """The counts of a branch, and behind them their sum; returns where the next ones go."""
    total = 0.0
    for k in range(len(of_class)):
        counts[place(used + k)] = of_class[k]
        total += of_class[k]
    counts[place(used + len(of_class))] = total
    return used + len(of_class) + 1


@inlined
def _closed(counts: Floats, cells: Floats, at: int, classes: int, is_info: bool) -> float:
    """The impurity of a branch times its weight, as criterion.branch_impurity."""
    total, of_branch = counts[place(at + classes)], 0.0
    for k in range(classes):
        of_branch += cells[place(at + k)]
    if total <= 0.0:
        return 0.0
    return cells[place(at + classes)] - of_branch if is_info else total - of_branch / total


@apart
def _take_cells(counts: Floats, cells: Floats, is_info: bool) -> None:
    """What every count adds to its branch's sum, all at once."""
    if is_info:
        for i in range(len(counts)):
            cells[i] = xlog2x(counts[i])
    else:
        for i in range(len(counts)):
            cells[i] = counts[i] * counts[i]
