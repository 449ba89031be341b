"""The leaf that a row could end in with the fewest changes, and among those the shortest way.

On the way to a leaf every test asks something of one attribute, and what is asked adds up:

    number    low < x <= high            the nearest one, in units of its own    0 to 1
    value     not sent elsewhere         any other value                         1
    token     held, or not held          added or taken away                     1

What the row has already costs nothing. To go on can only cost more, so the search goes down every
branch, the row's own first, and turns around where it is no better than the best leaf so far.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learner.kernels.jit import inner, int64, kernel
from learner.kernels.tree import (
    CONTAINS,
    EQUALS,
    LEAF,
    MULTIWAY,
    NODES,
    NOWHERE,
    NUMERIC,
    SUBSET,
    Bytes,
    Floats,
    Ints,
    Longs,
    Tree,
    heavier_branch,
    outside_subset,
)

UNCHANGED = -1.0
NO_VALUE = -2  # what NOWHERE, a missing value, is not
NODE_AT, TURN_AT, BRANCH_AT, STATE_AT, COUNT_AT = range(5)  # in a row of Search.stack
LOW_AT, HIGH_AT, COST_AT, TOTAL_AT = range(4)  # in a row of Search.saved
COUNT, TOTAL = 0, 1  # in Search.best


class Search(NamedTuple):
    """A row, what is asked of it at a node, and the best leaf so far.

    An attribute is a numeric column, a nominal column or a token, in this order.
    """

    x: Floats  # [numeric column] NaN = missing
    code: Ints  # [nominal column] NOWHERE = missing or unknown
    held: Bytes  # [token]
    half_unit: Floats  # [numeric column] half of what counts as 1
    frozen: Bytes  # [attribute] 1 = must stay as it is
    value_start: Longs  # [nominal column + 1] first place of its known values
    low: Floats  # [numeric column]
    high: Floats
    gap: Bytes  # [numeric column] 1 = a missing number comes here too
    forced: Ints  # [nominal column] the only value that comes here, NOWHERE = others may
    blocked: Ints  # [place of value] tests that send the value elsewhere
    blocked_gap: Ints  # [nominal column] tests that send a missing value elsewhere
    wanted: Bytes  # [token] 1 held, 0 not held, NOWHERE = not asked
    cost: Floats  # [attribute] of its change, UNCHANGED
    stack: Longs  # [level, *_AT] the nodes on the way, and what to go back to
    saved: Floats  # [level, *_AT]
    best: Floats  # [COUNT|TOTAL] changes and their cost
    best_x: Floats  # the row that ends in the best leaf
    best_code: Ints
    best_held: Bytes


@inner
def number_for(search: Search, j: int) -> float:
    """The nearest number that comes here, to a missing one the highest; NaN = none does."""
    low, high, x = search.low[j], search.high[j], search.x[j]
    above = np.nextafter(low, np.inf)
    if above > high or above == np.inf:
        return np.nan
    if x <= low:
        return above
    return high if x > high or high < np.inf else above


@inner
def _number_cost(search: Search, j: int) -> float:
    x = search.x[j]
    stays = search.low[j] < x <= search.high[j] if x == x else search.gap[j] != 0
    if stays:
        return UNCHANGED
    if search.frozen[j] != 0:
        return np.inf
    goal = number_for(search, j)
    if goal != goal:
        return 1.0 if search.gap[j] != 0 else np.inf
    if x != x:
        return 1.0
    return min(abs(0.5 * goal - 0.5 * x) / search.half_unit[j], 1.0)


@inner
def _comes_here(search: Search, a: int, code: int) -> bool:
    forced = int64(search.forced[a])
    if code < 0:
        return forced == NOWHERE and search.blocked_gap[a] == 0
    first = search.value_start[a]
    return forced in (NOWHERE, code) and search.blocked[first + code] == 0


@inner
def value_for(search: Search, a: int) -> int:
    """The first known value that comes here; NOWHERE = only a missing one, NO_VALUE = none."""
    first, end, forced = search.value_start[a], search.value_start[a + 1], int64(search.forced[a])
    if forced != NOWHERE:
        return forced if search.blocked[first + forced] == 0 else int64(NO_VALUE)
    for v in range(first, end):
        if search.blocked[v] == 0:
            return v - first
    return int64(NOWHERE) if search.blocked_gap[a] == 0 else int64(NO_VALUE)


@inner
def _value_cost(search: Search, a: int) -> float:
    if _comes_here(search, a, int64(search.code[a])):
        return UNCHANGED
    if search.frozen[len(search.x) + a] != 0 or value_for(search, a) == NO_VALUE:
        return np.inf
    return 1.0


@inner
def _token_cost(search: Search, t: int) -> float:
    wanted = int64(search.wanted[t])
    if wanted in (NOWHERE, int64(search.held[t])):
        return UNCHANGED
    return np.inf if search.frozen[len(search.x) + len(search.code) + t] != 0 else 1.0


@inner
def attribute_of(tree: Tree, search: Search, node: int) -> int:
    """Which attribute a node tests."""
    kind, column = tree.node[node].kind, int64(tree.node[node].column)
    if kind == NUMERIC:
        return column
    return column + len(search.x) + (len(search.code) if kind == CONTAINS else 0)


@inner
def _cost_of(tree: Tree, search: Search, node: int) -> float:
    """What the change of the attribute that a node tests costs by now."""
    kind, column = tree.node[node].kind, int64(tree.node[node].column)
    if kind == NUMERIC:
        return _number_cost(search, column)
    return _token_cost(search, column) if kind == CONTAINS else _value_cost(search, column)


@inner
def _own_branch(tree: Tree, search: Search, node: int) -> int:
    """The branch that the row itself takes."""
    at = tree.node[node]
    kind, column = at.kind, int64(at.column)
    if kind == NUMERIC:
        x = search.x[column]
        return int64(x > at.cut) if x == x else heavier_branch(tree, node) - int64(at.child)
    if kind == CONTAINS:
        return int64(search.held[column])
    code = int64(search.code[column])
    if kind == EQUALS:
        return int64(code != int64(at.cut))
    if kind == SUBSET:
        return outside_subset(tree, node, code)
    inside = 0 <= code < at.table_length
    leads = inside and tree.tables[at.table_start + (code if inside else 0)] != NOWHERE
    return code if leads else int64(at.table_length)


@inner
def _block(tree: Tree, search: Search, node: int, branch: int, step: int) -> None:
    """Send the values of the other branches elsewhere (step 1), or take that back (-1)."""
    at = tree.node[node]
    column = int64(at.column)
    first = search.value_start[column]
    known = search.value_start[column + 1] - first
    if at.kind == EQUALS:
        if branch == 1:
            search.blocked[first + int64(at.cut)] += step
    elif at.kind == MULTIWAY:
        if branch == at.table_length:
            for v in range(min(known, int64(at.table_length))):
                if tree.tables[at.table_start + v] != NOWHERE:
                    search.blocked[first + v] += step
    elif at.kind == SUBSET:
        for v in range(known):
            if outside_subset(tree, node, v) != branch:
                search.blocked[first + v] += step
        if branch == 0:
            search.blocked_gap[column] += step


@inner
def _force(search: Search, column: int, code: int) -> bool:
    """Leave one value only; False where it is not left any more."""
    possible = int64(search.forced[column]) in (NOWHERE, code)
    search.forced[column] = code
    return possible


@inner
def _enter(tree: Tree, search: Search, level: int, node: int, branch: int) -> bool:
    """Ask what a branch asks; False where nothing can meet it. What was asked before is saved."""
    at, stack, saved = tree.node[node], search.stack, search.saved
    column = int64(at.column)
    saved[level, COST_AT] = search.cost[attribute_of(tree, search, node)]
    if at.kind == NUMERIC:
        saved[level, LOW_AT], saved[level, HIGH_AT] = search.low[column], search.high[column]
        stack[level, STATE_AT] = search.gap[column]
        if branch == 0:
            search.high[column] = min(search.high[column], at.cut)
        else:
            search.low[column] = max(search.low[column], at.cut)
        if heavier_branch(tree, node) != at.child + branch:
            search.gap[column] = 0
        return True
    if at.kind == CONTAINS:
        stack[level, STATE_AT] = search.wanted[column]
        search.wanted[column] = branch
        return stack[level, STATE_AT] in (NOWHERE, branch)
    stack[level, STATE_AT] = search.forced[column]
    _block(tree, search, node, branch, int64(1))
    if at.kind == EQUALS and branch == 0:
        return _force(search, column, int64(at.cut))
    if at.kind == MULTIWAY and branch < at.table_length:
        return _force(search, column, branch)
    return True


@inner
def _leave(tree: Tree, search: Search, level: int, node: int, branch: int) -> None:
    """Take back what a branch asked."""
    at, stack, saved = tree.node[node], search.stack, search.saved
    column = int64(at.column)
    search.cost[attribute_of(tree, search, node)] = saved[level, COST_AT]
    if at.kind == NUMERIC:
        search.low[column], search.high[column] = saved[level, LOW_AT], saved[level, HIGH_AT]
        search.gap[column] = stack[level, STATE_AT]
    elif at.kind == CONTAINS:
        search.wanted[column] = stack[level, STATE_AT]
    else:
        search.forced[column] = stack[level, STATE_AT]
        _block(tree, search, node, branch, int64(-1))


@inner
def _keep(search: Search, count: int, total: float) -> None:
    """Note the row that comes to where the search is."""
    search.best[COUNT], search.best[TOTAL] = count, total
    numbers, values = len(search.x), len(search.code)
    for j in range(numbers):
        changed = search.cost[j] != UNCHANGED
        search.best_x[j] = number_for(search, j) if changed else search.x[j]
    for a in range(values):
        changed = search.cost[numbers + a] != UNCHANGED
        search.best_code[a] = value_for(search, a) if changed else int64(search.code[a])
    for t in range(len(search.held)):
        changed = search.cost[numbers + values + t] != UNCHANGED
        search.best_held[t] = search.wanted[t] if changed else search.held[t]


@inner
def _mark_ways(tree: Tree, accepted: Bytes, leads: Bytes) -> None:
    """Mark the nodes at which an accepted row may end, and all above them."""
    for node in range(tree.counts[NODES]):
        leads[node] = accepted[node]
    for node in range(tree.counts[NODES] - 1, 0, -1):  # children come after their parents
        if leads[node] != 0:
            leads[tree.node[node].parent] = 1


@kernel
def find_nearest(tree: Tree, search: Search, accepted: Bytes, leads: Bytes) -> int:
    """The accepted node that costs the row least, NOWHERE = none can be reached.

    A row ends at a leaf, or at a multiway split without a branch for its value. Of equals the one
    that is found first. ``leads`` is room for a mark a node.
    """
    _mark_ways(tree, accepted, leads)
    found, stack, saved, best = int64(NOWHERE), search.stack, search.saved, search.best
    best[COUNT], best[TOTAL] = np.inf, np.inf
    level, count, total = int64(0), int64(0), 0.0
    stack[0, NODE_AT] = 0
    stack[0, TURN_AT] = 0
    if leads[0] == 0:
        return found
    while level >= 0:
        node, turn = stack[level, NODE_AT], stack[level, TURN_AT]
        at = tree.node[node]
        ends = at.kind == LEAF
        branches = int64(at.table_length) + 1 if at.kind == MULTIWAY else int64(2)
        if ends or turn == branches:
            if ends:
                found = node
                _keep(search, count, total)
            level -= 1
            if level >= 0:
                _leave(tree, search, level, stack[level, NODE_AT], stack[level, BRANCH_AT])
                count, total = stack[level, COUNT_AT], saved[level, TOTAL_AT]
            continue
        stack[level, TURN_AT] = turn + 1
        own = _own_branch(tree, search, node)
        branch = own if turn == 0 else turn - int64(turn <= own)
        child = int64(at.child) + branch
        if at.kind == MULTIWAY:
            other = branch == at.table_length
            child = int64(at.other) if other else int64(tree.tables[at.table_start + branch])
            if child == NOWHERE and not (other and accepted[node] != 0):
                continue
        if child != NOWHERE and leads[child] == 0:
            continue
        stack[level, BRANCH_AT] = branch
        stack[level, COUNT_AT], saved[level, TOTAL_AT] = count, total
        possible = _enter(tree, search, level, node, branch)
        cost, before = _cost_of(tree, search, node), saved[level, COST_AT]
        search.cost[attribute_of(tree, search, node)] = cost
        if before == UNCHANGED and cost != UNCHANGED:
            count += 1
        total += max(cost, 0.0) - max(before, 0.0)
        nearer = count < best[COUNT] or (count == best[COUNT] and total < best[TOTAL])
        if possible and cost < np.inf and nearer:
            if child != NOWHERE:
                level += 1
                stack[level, NODE_AT] = child
                stack[level, TURN_AT] = 0
                continue
            found = node
            _keep(search, count, total)
        _leave(tree, search, level, node, branch)
        count, total = stack[level, COUNT_AT], saved[level, TOTAL_AT]
    return found
