"""Every form in which a tree can be had besides JSON, with its media type."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from app.mermaid import tree_mermaid
from app.render import tree_dot, tree_text
from app.tree_page import tree_html
from app.tree_svg import tree_svg
from learner import Snapshot

ABOUT = (
    "json: a flat list of nodes; text: a drawing in letters; dot: Graphviz; mermaid: a flowchart "
    "for Markdown; svg: a picture; html: a page with the picture and an outline."
)


class TreeFormat(NamedTuple):
    """How a tree is written, from a node down to a depth."""

    write: Callable[[Snapshot, int | None, int | None], str]
    media_type: str


FORMATS = {
    "text": TreeFormat(tree_text, "text/plain; charset=utf-8"),
    "dot": TreeFormat(tree_dot, "text/vnd.graphviz; charset=utf-8"),
    "mermaid": TreeFormat(tree_mermaid, "text/plain; charset=utf-8"),
    "svg": TreeFormat(tree_svg, "image/svg+xml"),
    "html": TreeFormat(tree_html, "text/html; charset=utf-8"),
}
