"""The tree as one SVG drawing, from left to right. Pure text, no library, no recursion.

heading, classes
                      condition      +----------------------+
    +---------+  .---- <= 39.5 ------| A 93.1%   #3 12.0%   |   a leaf: what it answers, how surely
    | age  #0 |==                    +----------------------+
    +---------+  '---- > 39.5 ----   ...

Every leaf has a row, every inner node stands beside its children, in their middle where that is
near the first of them, and every level is as wide as its longest words. The bar at the foot of a
card shows the classes that were met there; a line is as thick as its share of the traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from app.excerpt import Excerpt, excerpt
from app.render import answer_words, heading, label_words, node_words, printable
from app.svg import LETTER, LIGHT, label, style_sheet
from learner import NodeView, Snapshot, Value

USUAL_NODES, MOST_NODES = 300, 2000

MARGIN, TOP = 24.0, 100.0
ROW, CARD, BAR = 37.0, 28.0, 4.0
REACH = 3  # rows between a node and its first child, at most: a tall tree begins near its top
BEND, AIR = 40.0, 10.0  # where a line turns, and the room round words
LONGEST_WORDS, LONGEST_CONDITION = 24, 30
OTHERS = "others"  # the colour of the classes beyond the palette

STYLE = (
    ".card{fill:#f6f8fa;stroke:#8c959f}.idle{stroke-dasharray:3 3}.strong{font-weight:600}"
    ".faint{fill:#59636e;font-size:11px}.edge{fill:none;stroke:#c4cbd3;stroke-linejoin:round}"
    ".condition{font-size:11.5px;paint-order:stroke;stroke:#ffffff;stroke-width:3px}"
    ".others{fill:#8c959f}"
    "@media (prefers-color-scheme:dark){.card{fill:#151b23;stroke:#656c76}.faint{fill:#9198a1}"
    ".edge{stroke:#3d444d}.condition{stroke:#0d1117}.others{fill:#656c76}}"
)


class Place(NamedTuple):
    """Where the card of a node is."""

    x: float
    y: float  # of its middle
    width: float


def tree_svg(snapshot: Snapshot, root: int | None = None, depth: int | None = None) -> str:
    """Return the whole SVG document."""
    return drawing(snapshot, excerpt(snapshot, root, depth, USUAL_NODES, MOST_NODES))


def drawing(snapshot: Snapshot, part: Excerpt) -> str:
    """Return one part of a tree as an SVG document."""
    places = _places(part)
    colours = _colours(part.views[0])
    title = printable(heading(snapshot))
    legend = list(_legend(colours))
    right = max(place.x + place.width for place in places.values()) + BEND
    width = max(right, MARGIN + LETTER * 1.4 * len(title)) + MARGIN
    height = max(place.y for place in places.values()) + ROW / 2 + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(title)}">',
            f"<style>{svg_style()}</style>",
            f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>',
            label(MARGIN, 34, title, "heading"),
            *legend,
            label(MARGIN, 82, part.note or f"All of it below #{part.views[0].id}.", "faint"),
            *_edges(part, places),
            *_cards(part.views, places, colours),
            "</svg>",
            "",
        ]
    )


def svg_style() -> str:
    """Return the style sheet of every drawing of a tree."""
    return style_sheet(len(LIGHT)) + STYLE


def _places(part: Excerpt) -> dict[int, Place]:
    """Return where each node goes."""
    views, conditions = part.views, part.conditions()
    top = views[0].depth
    cards = [0.0] * (max(view.depth for view in views) - top + 1)
    gaps = [0.0] * len(cards)
    for view in views:
        level = view.depth - top
        cards[level] = max(cards[level], _card_width(view))
        gaps[level] = max(gaps[level], LETTER * len(_condition(conditions[view.id])))
    xs = [MARGIN]
    for level in range(1, len(cards)):
        xs.append(xs[-1] + cards[level - 1] + BEND + gaps[level] + 2 * AIR)
    ys = _rows(views)
    return {
        view.id: Place(xs[view.depth - top], ys[view.id], cards[view.depth - top]) for view in views
    }


def _rows(views: Sequence[NodeView]) -> dict[int, float]:
    """Return the middle of each card: a row for each that has nothing below, else beside those."""
    drawn = {view.id for view in views}
    found: dict[int, float] = {}
    row = 0
    for view in views:
        if not drawn.intersection(view.children):
            found[view.id] = TOP + ROW * (row + 0.5)
            row += 1
    for view in reversed(views):  # children come after their parents
        if view.id not in found:
            below = [found[child] for child in view.children if child in drawn]
            found[view.id] = min((below[0] + below[-1]) / 2, below[0] + REACH * ROW)
    return found


def _edges(part: Excerpt, places: Mapping[int, Place]) -> Iterator[str]:
    conditions = part.conditions()
    for view in part.views[1:]:
        assert view.parent is not None
        start, end = places[view.parent], places[view.id]
        x, turn = start.x + start.width, start.x + start.width + BEND
        thick = 1.2 + 8.8 * min(max(view.share, 0.0), 1.0)
        yield (
            f'<path class="edge" stroke-width="{thick:.1f}" d="M{x:.1f} {start.y:.1f}'
            f"C{turn - 14:.1f} {start.y:.1f} {x + 14:.1f} {end.y:.1f} {turn:.1f} {end.y:.1f}"
            f'H{end.x:.1f}"/>'
        )
    for view in part.views[1:]:
        end, words = places[view.id], conditions[view.id]
        x, y = end.x - AIR, end.y - 5 - 4.4 * min(max(view.share, 0.0), 1.0)
        yield label(x, y, _condition(words), "condition", "end", printable(view.branch))


def _cards(
    views: Sequence[NodeView], places: Mapping[int, Place], colours: Mapping[Value, str]
) -> Iterator[str]:
    for view in views:
        place = places[view.id]
        x, y = place.x, place.y - CARD / 2
        idle = "" if view.active else " idle"
        tip = f"#{view.id} {node_words(view)}, {_classes_words(view)}"
        yield f"<g><title>{escape(printable(tip))}</title>"
        yield (
            f'<rect class="card{idle}" x="{x:.1f}" y="{y:.1f}" width="{place.width:.1f}" '
            f'height="{CARD:.0f}" rx="4"/>'
        )
        yield from _bar(view, place, colours)
        yield label(x + 10, place.y + 1.5, _short(_words(view), LONGEST_WORDS), "strong")
        yield label(x + place.width - 10, place.y + 1.5, _facts(view), "faint", "end")
        if view.children and view.children[0] not in places:
            yield label(x + place.width + 8, place.y + 4, "...", "faint")
        yield "</g>"


def _bar(view: NodeView, place: Place, colours: Mapping[Value, str]) -> Iterator[str]:
    """Yield the classes at a node as parts of a bar along the foot of its card."""
    total = sum(view.distribution.values())
    if total <= 0.0:
        return
    x, room = place.x + 10, place.width - 20
    y = place.y + CARD / 2 - BAR - 4
    for value, weight in view.distribution.items():
        length = room * weight / total
        if length >= 0.05:
            yield (
                f'<rect class="{colours[value]}" x="{x:.2f}" y="{y:.1f}" '
                f'width="{length:.2f}" height="{BAR:.0f}"/>'
            )
        x += length


def _legend(colours: Mapping[Value, str]) -> Iterator[str]:
    x = MARGIN
    named = [(label_words(value), kind) for value, kind in colours.items() if kind != OTHERS]
    more = len(colours) - len(named)
    if more:
        named.append((f"{more:,} more", OTHERS))
    for words, kind in named:
        shown = _short(printable(words), LONGEST_WORDS)
        yield f'<rect class="{kind}" x="{x:.1f}" y="50" width="12" height="12" rx="2"/>'
        yield label(x + 18, 60, shown)
        x += 18 + LETTER * len(shown) + 20
    yield label(x, 60, "at the right of a card: node and share of the traffic", "faint")


def _colours(view: NodeView) -> dict[Value, str]:
    """Return the colour of each class; where there are too many, the frequent ones have one."""
    ranked = sorted(view.distribution, key=lambda value: -view.distribution[value])
    chosen = set(ranked[: len(LIGHT)])
    found: dict[Value, str] = {}
    for value in view.distribution:
        found[value] = f"f{len(chosen & found.keys())}" if value in chosen else OTHERS
    return found


def _words(view: NodeView) -> str:
    return printable(str(view.feature) if view.children else answer_words(view))


def _facts(view: NodeView) -> str:
    return f"#{view.id}  {view.share:.1%}"


def _classes_words(view: NodeView) -> str:
    weights = (
        f"{label_words(value)}: {weight:,.6g}" for value, weight in view.distribution.items()
    )
    return "; ".join(weights) or "no class yet"


def _card_width(view: NodeView) -> float:
    words = len(_short(_words(view), LONGEST_WORDS)) * LETTER * 1.08
    return words + len(_facts(view)) * LETTER * 0.92 + 36


def _condition(words: str) -> str:
    return _short(words, LONGEST_CONDITION)


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"
