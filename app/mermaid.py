"""The tree as a Mermaid flowchart, for pages that draw one from text (Markdown, wikis)."""

from __future__ import annotations

import re
from collections.abc import Container

from app.excerpt import excerpt
from app.render import answer_words, heading, printable
from learner import NodeView, Snapshot

# Mermaid itself refuses to draw more than 500 edges or 50,000 characters.
USUAL_NODES, MOST_NODES = 150, 400
LONGEST_WORDS = 60
# A full stop or a dash before a blank would begin a list.
SIGNS = re.compile(r"[^\w .,%=/-]|[.-](?= |$)|(?<!\w)_|_(?!\w)", re.ASCII)


def tree_mermaid(snapshot: Snapshot, root: int | None = None, depth: int | None = None) -> str:
    """Return a flowchart: rounded nodes test, square ones answer, thick lines are busy."""
    part = excerpt(snapshot, root, depth, USUAL_NODES, MOST_NODES)
    lines = [f"%% {printable(heading(snapshot))}"]
    if part.note:
        lines.append(f"%% {part.note}")
    lines.append("flowchart LR")
    conditions = part.conditions()
    for view in part.views:
        lines.append(f"  {_node(view, conditions.keys())}")
        if view.parent in conditions:
            link = "==>" if view.share >= 0.1 else "-->"
            lines.append(
                f'  n{view.parent} {link}|"{mermaid_escape(conditions[view.id])}"| n{view.id}'
            )
    return "\n".join(lines) + "\n"


def _node(view: NodeView, drawn: Container[int]) -> str:
    words = str(view.feature) if view.children else answer_words(view)
    text = f"{mermaid_escape(words)}<br/>{view.share:.1%}"
    if not view.children:
        return f'n{view.id}["{text}"]'
    cut = "" if view.children[0] in drawn else " ..."
    return f'n{view.id}(["{text}{cut}"])'


def mermaid_escape(text: str) -> str:
    """Return text that is shown as it is inside a quoted label: all signs by their numbers.

    >>> mermaid_escape('car == "x"]')
    'car == #34;x#34;#93;'
    """
    shown = printable(text)
    if len(shown) > LONGEST_WORDS:
        shown = f"{shown[: LONGEST_WORDS - 1]}…"
    return SIGNS.sub(lambda match: f"#{ord(match[0])};", shown)
