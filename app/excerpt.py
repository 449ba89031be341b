"""The part of a tree that a drawing has room for: whole levels, from a node down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from app.render import printable
from learner import NodeView, Snapshot


class Excerpt(NamedTuple):
    """What is drawn, in pre-order, and what is not."""

    views: Sequence[NodeView]
    levels: int  # below the first node
    hidden: int  # nodes below those

    @property
    def note(self) -> str:
        """What was left out, in words; empty when nothing was."""
        if not self.hidden:
            return ""
        levels = "1 level" if self.levels == 1 else f"{self.levels} levels"
        nodes = "1 node is" if self.hidden == 1 else f"{self.hidden:,} nodes are"
        return (
            f"{levels} below #{self.views[0].id}; {nodes} further down and not shown: "
            "ask for more with depth, or for a part with node"
        )

    def conditions(self) -> dict[int, str]:
        """What leads to each node, without the feature that its parent names already."""
        features = {view.id: f"{view.feature} " for view in self.views}
        found = {self.views[0].id: ""}
        for view in self.views[1:]:
            assert view.parent is not None
            found[view.id] = printable(view.branch.removeprefix(features[view.parent]))
        return found


def excerpt(
    snapshot: Snapshot, root: int | None, depth: int | None, usual: int, most: int
) -> Excerpt:
    """Return as many whole levels as make at most `usual` nodes; asked for by depth, `most`."""
    sizes = snapshot.levels(root)
    room = usual if depth is None else most
    fitting = sum(total <= room for total in accumulate(sizes)) - 1
    shown = max(min(fitting, len(sizes) - 1 if depth is None else depth), 0)
    views = list(snapshot.walk(root, shown))
    return Excerpt(views, min(shown, len(sizes) - 1), sum(sizes) - len(views))
