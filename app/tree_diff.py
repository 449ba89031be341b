"""What changed between two snapshots of one tree. Pure; no recursion.

Ids of nodes stay the same and never come back, so nodes are compared by their ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from app.render import answer_words, label_words, node_document, printable
from learner import NodeView, Snapshot

USUAL_SHARE = 0.05

# What can happen to a node that is in both trees.
KINDS = ("split", "replaced", "collapsed", "prediction", "share", "active")
TEST = ("kind", "test", "values")
SHOWN = ("kind", "feature", "test", "values", "prediction", "share", "weight", "active")


class Changed(NamedTuple):
    """A node before and after, and what happened to it."""

    old: NodeView
    new: NodeView
    kinds: Sequence[str]


class Difference:
    """Two snapshots side by side; a share counts as changed when it moved by more than given."""

    def __init__(self, before: Snapshot, after: Snapshot, share: float = USUAL_SHARE) -> None:
        self._before, self._after = before, after
        self._old = {view.id: view for view in before.walk()}
        self._new = {view.id: view for view in after.walk()}
        self._changed = {
            view.id: Changed(self._old[view.id], view, kinds)
            for view in self._new.values()
            if view.id in self._old and (kinds := list(_kinds(self._old[view.id], view, share)))
        }
        self._added = [view for view in self._new.values() if view.id not in self._old]
        self._removed = [view for view in self._old.values() if view.id not in self._new]

    def document(self) -> dict[str, Any]:
        """Return it as one JSON-ready object; lists are in the order of the tree."""
        return {
            "from": self._before.id,
            "to": self._after.id,
            "added": [node_document(view) for view in self._added],
            "removed": [node_document(view) for view in self._removed],
            "changed": [
                {
                    "id": each.new.id,
                    "branch": each.new.branch,
                    "changes": each.kinds,
                    "before": _facts(each.old),
                    "after": _facts(each.new),
                }
                for each in self._changed.values()
            ],
            "summary": self._summary(),
        }

    def _summary(self) -> dict[str, int]:
        found = Counter(kind for each in self._changed.values() for kind in each.kinds)
        return {
            "events": self._after.events - self._before.events,
            "nodes_before": len(self._old),
            "nodes_after": len(self._new),
            "added": len(self._added),
            "removed": len(self._removed),
            "changed": len(self._changed),
            **{kind: found[kind] for kind in KINDS},
        }

    def text(self) -> str:
        """Return it as lines: + added, ~ changed, in the order of the tree, then - removed."""
        counts = self._summary()
        lines = [
            f"{self._before.id} to {self._after.id}: {counts['events']:,} events, "
            f"{counts['nodes_before']:,} to {counts['nodes_after']:,} nodes; "
            f"{counts['added']:,} added, {counts['removed']:,} removed, "
            f"{counts['changed']:,} changed"
        ]
        for view in self._new.values():
            if view.id in self._changed:
                words = _told(self._changed[view.id])
                lines += [f"~ {_where(view)}: {each}" for each in words]
            elif view.id not in self._old:
                lines.append(f"+ {_where(view)}: {_what(view)}")
        lines += [f"- {_where(view)}: {_what(view)}" for view in self._removed]
        return "".join(f"{printable(line)}\n" for line in lines)


def _kinds(old: NodeView, new: NodeView, share: float) -> Iterator[str]:
    if any(getattr(old, name) != getattr(new, name) for name in TEST):
        if old.kind == "leaf":
            yield "split"
        else:
            yield "collapsed" if new.kind == "leaf" else "replaced"
    if old.prediction != new.prediction:
        yield "prediction"
    if abs(new.share - old.share) > share:
        yield "share"
    if old.active != new.active:
        yield "active"


def _facts(view: NodeView) -> dict[str, Any]:
    document = node_document(view)
    return {name: document[name] for name in SHOWN}


def _where(view: NodeView) -> str:
    return f"#{view.id} {view.branch or 'root'}"


def _what(view: NodeView) -> str:
    does = f"split on {view.test}" if view.children else f"answers {answer_words(view)}"
    return f"{does} ({view.share:.1%} of traffic)"


def _told(changed: Changed) -> Iterator[str]:
    """Yield what happened to one node in words."""
    old, new, kinds = changed
    if "split" in kinds:
        yield f"a leaf has split on {new.test}"
    if "replaced" in kinds:
        yield f"split on {old.test} became {new.test}"
    if "collapsed" in kinds:
        yield f"split on {old.test} became a leaf"
    if "prediction" in kinds:
        yield f"answer {label_words(old.prediction)} became {label_words(new.prediction)}"
    if "share" in kinds:
        yield f"share {old.share:.1%} became {new.share:.1%}"
    if "active" in kinds:
        yield "gathers statistics again" if new.active else "gathers statistics no more"
