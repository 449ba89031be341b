"""The tree as one page that needs nothing else: the drawing, and an outline that folds. No script.

Elements nest once a level, which browsers take to a depth of some hundred.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape

from app.excerpt import excerpt
from app.render import heading, node_words, printable
from app.tree_svg import MOST_NODES, USUAL_NODES, drawing, svg_style
from learner import NodeView, Snapshot

OPEN_LEVELS = 3  # of the outline, to begin with
MOST_LEVELS = 150

STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:0;font:14px/1.5 system-ui,sans-serif;background:#ffffff;color:#1f2328}"
    "main{padding:0 24px}h1{font-size:18px;margin:16px 0}h2{font-size:15px;margin:16px 0}"
    ".drawing{overflow:auto;max-height:80vh;border:1px solid #d1d9e0;border-radius:6px}"
    ".drawing svg{display:block}"
    "details details,details .leaf{margin-left:20px}summary{cursor:pointer}"
    ".leaf::before{content:'\\2022';margin-right:8px}.branch{font-weight:600}"
    ".outline{padding-bottom:32px;overflow-wrap:anywhere}"
    "@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}"
    ".drawing{border-color:#3d444d}}"
)


def tree_html(snapshot: Snapshot, root: int | None = None, depth: int | None = None) -> str:
    """Return the whole page."""
    depth = depth if depth is None else min(depth, MOST_LEVELS)
    part = excerpt(snapshot, root, depth, USUAL_NODES, MOST_NODES)
    title = escape(printable(heading(snapshot)))
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width"/>',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style></head>",
            "<body><main><h1>The tree</h1>",
            # A region that scrolls must be reachable by the keyboard.
            '<div class="drawing" tabindex="0" role="region" aria-label="Drawing">',
            drawing(snapshot, part) + "</div>",
            '<h2>Outline</h2><div class="outline">',
            *_outline(part.views),
            "</div></main></body></html>",
            "",
        ]
    )


def page_policy() -> str:
    """Return the content security policy of drawings and pages: our own style, nothing else."""
    digests = (hashlib.sha256(each.encode()).digest() for each in (STYLE, svg_style()))
    allowed = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in digests)
    return f"default-src 'none'; style-src {allowed}"


def _outline(views: Sequence[NodeView]) -> Iterator[str]:
    drawn = {view.id for view in views}
    top, open_levels = views[0].depth, 0
    for view in views:
        level = view.depth - top
        yield "</details>" * (open_levels - level)
        open_levels = level
        if view.children and view.children[0] in drawn:
            folded = " open" if level < OPEN_LEVELS else ""
            yield f"<details{folded}><summary>{_words(view)}</summary>"
            open_levels += 1
        else:
            yield f'<div class="leaf">{_words(view)}</div>'
    yield "</details>" * open_levels


def _words(view: NodeView) -> str:
    branch = escape(printable(view.branch))
    before = f'<span class="branch">{branch}</span> ' if branch else ""
    return f"{before}#{view.id} {escape(printable(node_words(view)))}"
