"""The tree of a Snapshot as JSON, as indented text and as Graphviz DOT. Pure; no recursion.

Trees of a long stream can be thousands of levels deep, so every format is written from the flat,
pre-order `Snapshot.walk`, never by calling itself for a child.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

from learner import NodeView, Snapshot, SplitFacts

# Beyond this many levels the text drawing stops indenting and prints the level instead:
# indentation alone would make the size of the drawing quadratic in the depth.
MAX_DRAWN_LEVELS = 60


def tree_document(
    snapshot: Snapshot, root: int | None = None, depth: int | None = None
) -> dict[str, object]:
    """Return the tree as one JSON-ready object; nodes are a flat list in pre-order.

    A node whose `children` are not in the list was cut off by `depth`.
    """
    nodes = [node_document(view) for view in snapshot.walk(root, depth)]
    return {
        "snapshot": snapshot.id,
        "variant": snapshot.variant,
        "events": snapshot.events,
        "shape": snapshot.shape._asdict(),
        "root": nodes[0]["id"] if nodes else None,
        "importance": importance_document(snapshot),
        "nodes": nodes,
    }


def importance_document(snapshot: Snapshot) -> list[dict[str, object]]:
    """Return the features that the tree tests, the most important first; shares sum to 1."""
    found = snapshot.importance
    return [{"feature": name, "importance": share} for name, share in found.items()]


def node_document(view: NodeView) -> dict[str, object]:
    """Return one node as a JSON-ready object; labels keep their JSON type."""
    return {
        "id": view.id,
        "parent": view.parent,
        "depth": view.depth,
        "branch": view.branch,
        "kind": view.kind,
        "feature": view.feature,
        "test": view.test,
        "threshold": view.threshold,
        "values": list(view.values),
        "children": list(view.children),
        "prediction": view.prediction,
        "distribution": [
            {"label": label, "weight": weight} for label, weight in view.distribution.items()
        ],
        "weight": view.weight,
        "share": view.share,
        "n": view.n,
        "active": view.active,
        "created_at": view.created_at,
        "age_events": view.age_events,
        "split": None if view.split is None else split_document(view.split),
    }


def split_document(facts: SplitFacts) -> dict[str, object]:
    """Return why a node has its test; a merit that is no number is null."""
    found = facts._asdict()
    return found | {"second_merit": _finite(facts.second_merit)}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def heading(snapshot: Snapshot) -> str:
    """Return what a tree is, in one line."""
    shape = snapshot.shape
    return (
        f"{snapshot.variant}, {snapshot.events:,} events, {shape.nodes:,} nodes, "
        f"{shape.leaves:,} leaves, depth {shape.depth:,}, snapshot {snapshot.id}"
    )


def tree_text(
    snapshot: Snapshot, root: int | None = None, depth: int | None = None, *, details: bool = False
) -> str:
    """Return the tree as an indented drawing, one node a line, with a heading.

    With details each node also says when it was made, and a split why.
    """
    lines = [heading(snapshot), *_drawing(snapshot.walk(root, depth), details)]
    return "\n".join(lines) + "\n"


def _drawing(views: Iterable[NodeView], details: bool) -> Iterator[str]:
    # open_levels[d] counts the siblings still to come at level d under the current path;
    # it decides between a corner and a tee, and whether a bar continues below.
    open_levels: list[int] = []
    top: int | None = None
    for view in views:
        if top is None:
            top = view.depth
            open_levels = [len(view.children)]
            yield printable(f"#{view.id} {node_words(view, details)}")
            continue
        level = view.depth - top
        del open_levels[level:]
        open_levels[level - 1] -= 1
        words = f"{view.branch}  #{view.id} {node_words(view, details)}"
        yield printable(_indent(open_levels) + words)
        open_levels.append(len(view.children))


def _indent(open_levels: list[int]) -> str:
    if len(open_levels) > MAX_DRAWN_LEVELS:
        return f"[level {len(open_levels)}] "
    bars = "".join("│  " if left else "   " for left in open_levels[:-1])
    return bars + ("├─ " if open_levels[-1] else "└─ ")


def node_words(view: NodeView, details: bool = False) -> str:
    """Return what a node does, and for how many; with details also when it was made and why."""
    traffic = f"({view.share:.1%} of traffic)"
    if view.children:
        tie = "" if details else _tie_words(view)
        words = f"split on {view.feature}{tie} {traffic}"
    else:
        state = "" if view.active else " inactive"
        words = f"→ {answer_words(view)} {traffic}{state}"
    if not details:
        return words
    facts = f"; {_split_words(view.split)}" if view.split is not None else ""
    return f"{words}, made at event {view.created_at:,}{facts}"


def _tie_words(view: NodeView) -> str:
    """Return a remark where two attributes were too close to tell the better one."""
    return " by a tie" if view.split is not None and view.split.reason == "tie" else ""


def _split_words(facts: SplitFacts) -> str:
    """Return why a node was split."""
    rival = f"{facts.second} with" if facts.second else "not splitting with"
    second = (
        "nothing else" if facts.second_merit == -math.inf else f"{rival} {facts.second_merit:.4g}"
    )
    return (
        f"by {facts.reason} at event {facts.event:,}, n {facts.n:,.6g}: gain {facts.merit:.4g} "
        f"against {second}, bound {facts.bound:.4g}"
    )


def answer_words(view: NodeView) -> str:
    """Return what a node answers, and how sure it is."""
    if view.prediction is None:
        return "no class yet"
    total = sum(view.distribution.values())
    if total <= 0.0:
        return label_words(view.prediction)
    certainty = view.distribution.get(view.prediction, 0.0) / total
    return f"{label_words(view.prediction)} {certainty:.1%}"


def label_words(label: object) -> str:
    """Return a label as a reader writes it: text bare, everything else as JSON (true, 1, 1.0)."""
    return label if isinstance(label, str) else json.dumps(label)


def tree_dot(snapshot: Snapshot, root: int | None = None, depth: int | None = None) -> str:
    """Return the tree as a Graphviz digraph; edge width follows the share of traffic."""
    lines = [
        "digraph livetree {",
        f'  label="{dot_escape(f"{snapshot.variant}, {snapshot.events:,} events")}";',
        '  node [fontname="sans-serif", fontsize=11];',
        '  edge [fontname="sans-serif", fontsize=10];',
    ]
    drawn_root = True
    for view in snapshot.walk(root, depth):
        lines.append(f"  {_dot_node(view)}")
        if not drawn_root:
            lines.append(f"  {_dot_edge(view)}")
        drawn_root = False
    lines.append("}")
    return "\n".join(lines) + "\n"


def _dot_node(view: NodeView) -> str:
    if view.children:
        words = [f"{view.feature}{_tie_words(view)}", f"{view.share:.1%}"]
        shape = "ellipse"
    else:
        words = [answer_words(view), f"{view.share:.1%}"]
        shape = "box"
    style = "solid" if view.active or view.children else "dashed"
    label = "\\n".join(dot_escape(word) for word in words)
    facts = f", {_split_words(view.split)}" if view.split is not None else ""
    tip = dot_escape(f"node {view.id}, made at event {view.created_at:,}{facts}")
    return f'n{view.id} [shape={shape}, style={style}, label="{label}", tooltip="{tip}"];'


def _dot_edge(view: NodeView) -> str:
    width = 0.5 + 4.5 * min(max(view.share, 0.0), 1.0)
    return (
        f'n{view.parent} -> n{view.id} [label="{dot_escape(view.branch)}", penwidth={width:.2f}];'
    )


def dot_escape(text: str) -> str:
    r"""Return text that is safe inside a double-quoted DOT string and shown as it is.

    A backslash would start an escape such as \N and an ampersand an HTML entity.
    """
    shown = printable(text)
    return shown.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')


def printable(text: str) -> str:
    r"""Return text with line breaks and control characters spelled out (\n, \x1b).

    Values come from the stream: one of them must not break a line or drive a terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
