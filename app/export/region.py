"""What a record must be to end at a node: the tests on the way, put together by feature."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from app.export.document import ExportedTree, Node, branches_by_value
from learner import Value


class Numbers(NamedTuple):
    """low < x <= high, or missing if that comes here too."""

    low: float = -math.inf
    high: float = math.inf
    missing: bool = True

    def below(self, cut: float, missing: bool) -> Numbers:
        """Return what is left at most at a threshold."""
        return Numbers(self.low, min(self.high, cut), self.missing and missing)

    def above(self, cut: float, missing: bool) -> Numbers:
        """Return what is left above a threshold."""
        return Numbers(max(self.low, cut), self.high, self.missing and missing)

    @property
    def is_empty(self) -> bool:
        """Whether nothing comes here."""
        return self.low >= self.high and not self.missing


class Values(NamedTuple):
    """One of a list of values; without a list any but those left out, missing and unseen too."""

    listed: tuple[Value, ...] | None = None
    left_out: tuple[Value, ...] = ()

    def among(self, values: tuple[Value, ...]) -> Values:
        """Return what is left of these values."""
        known = values if self.listed is None else self.listed
        left = tuple(v for v in known if v in values and v not in self.left_out)
        return Values(left)

    def without(self, values: tuple[Value, ...]) -> Values:
        """Return what is left but for these values."""
        if self.listed is not None:
            return Values(tuple(v for v in self.listed if v not in values))
        return Values(None, tuple(dict.fromkeys((*self.left_out, *values))))

    @property
    def is_empty(self) -> bool:
        """Whether nothing comes here."""
        return self.listed == ()


class Tokens(NamedTuple):
    """Tokens that must be held, and that must not."""

    held: tuple[Value, ...] = ()
    absent: tuple[Value, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing comes here."""
        return bool(set(self.held) & set(self.absent))


Part = Numbers | Values | Tokens
Region = dict[str, Part]


def ends_of(tree: ExportedTree) -> Iterator[tuple[Region, Node]]:
    """Yield every node where records end, with what leads there; together they hold all records."""
    stack: list[tuple[Region, Node, bool]] = [({}, tree.nodes[tree.root], False)]
    while stack:
        region, node, ends = stack.pop()
        if ends or not node.children:
            yield region, node
            continue
        for part, child in reversed(list(_branches(region.get(node.feature), node))):
            if not part.is_empty:
                onward = {**region, node.feature: part}
                stack.append((onward, node if child is None else tree.nodes[child], child is None))


def _branches(part: Part | None, node: Node) -> Iterator[tuple[Part, int | None]]:
    """Yield what each branch leaves of a part, and the child behind it; None: records end here."""
    if node.kind == "numeric":
        numbers = part if isinstance(part, Numbers) else Numbers()
        first, second = node.children
        yield numbers.below(node.threshold, node.missing == first), first
        yield numbers.above(node.threshold, node.missing == second), second
    elif node.kind == "contains":
        held, absent = part if isinstance(part, Tokens) else Tokens()
        (token,) = node.values
        yield Tokens(held, (*absent, token)), node.children[0]
        yield Tokens((*held, token), absent), node.children[1]
    else:
        values = part if isinstance(part, Values) else Values()
        by_child: dict[int, list[Value]] = {}
        for value, child in branches_by_value(node).items():
            by_child.setdefault(child, []).append(value)
        for child, named in by_child.items():
            yield values.among(tuple(named)), child
        yield values.without(node.values), node.missing
