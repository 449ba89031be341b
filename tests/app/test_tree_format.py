"""Drawings and pages of the tree: all of it, bounded, and safe whatever the stream holds."""

from __future__ import annotations

import base64
import hashlib
import random
import re
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from app.excerpt import excerpt
from app.mermaid import MOST_NODES as MOST_MERMAID
from app.mermaid import USUAL_NODES as USUAL_MERMAID
from app.mermaid import mermaid_escape
from app.tree_format import FORMATS
from app.tree_page import page_policy
from app.tree_svg import MOST_NODES, ROW, USUAL_NODES, drawing
from learner import Encoder, Schema, Snapshot, StreamingTree
from streams import open_stream
from tests.app.fake_service import TREE, FakeSnapshot
from tests.app.test_render import chain

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'];\n} evil [",
    "]]> --> </style></svg></details>",
    "\x1b[2J\x00\u202e\ud800",
    "&lt;b&gt; #quot; `x`",
    "%%{init: {'theme': 'dark'}}%%",
    'click n0 href "javascript:alert(1)"',
    "end",
]


@cache
def hostile() -> Snapshot:
    """A tree whose feature, values and classes want to break out."""
    rng = random.Random(4)
    name = HOSTILE[0] + HOSTILE[2]
    records = [{name: rng.choice(HOSTILE), HOSTILE[3]: rng.random()} for _ in range(4000)]
    labels = [
        HOSTILE[1]
        if (HOSTILE.index(str(each[name])) + (each[HOSTILE[3]] > 0.5)) % 2
        else HOSTILE[4]
        for each in records
    ]
    tree = StreamingTree(Encoder(Schema.infer(records)), n_min=20.0, tau=0.3)
    tree.learn(tree.encoder.encode_records(records), tree.encoder.encode_labels(labels))
    return tree.snapshot()


@cache
def large() -> Snapshot:
    """A tree of more nodes than a drawing has room for."""
    stream = open_stream("agrawal", seed=3)
    tree = StreamingTree(Encoder(stream.schema), n_min=20.0, tau=0.4, delta=0.1)
    tree.learn(*stream.take(100_000))
    snapshot = tree.snapshot()
    assert snapshot.shape.nodes > MOST_NODES
    return snapshot


def fake(nodes: Any = TREE) -> Any:
    return FakeSnapshot(nodes)


class Outline(HTMLParser):
    """Reads a page: which elements there are, how deep they nest, what they say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.deepest = 0
        self.summaries = 0
        self.feed(text)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.summaries += tag == "summary"
        if tag not in ("meta", "rect", "path", "line"):
            self.opened.append(tag)
            self.deepest = max(self.deepest, len(self.opened))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag


def test_the_drawing_has_a_card_for_every_node_and_a_line_to_every_child() -> None:
    root = ElementTree.fromstring(FORMATS["svg"].write(fake(), None, None))

    cards = [each for each in root.iter(f"{SVG}rect") if "card" in each.get("class", "")]
    assert len(cards) == 3
    assert len(list(root.iter(f"{SVG}path"))) == 2
    assert sum("idle" in each.get("class", "") for each in cards) == 1
    said = [each.text or each[0].tail for each in root.iter(f"{SVG}text")]
    assert {"age", "yes 66.7%", "7 100.0%", "<= 40", "> 40", "#1  75.0%"} <= set(said)
    tips = [each.text for each in root.iter(f"{SVG}title")]
    assert "#1 → yes 66.7% (75.0% of traffic), yes: 60; 7: 30" in tips


def test_cards_never_lie_on_each_other() -> None:
    root = ElementTree.fromstring(FORMATS["svg"].write(large(), None, 5))
    places: dict[float, list[float]] = {}
    for each in root.iter(f"{SVG}rect"):
        if "card" in each.get("class", ""):
            places.setdefault(float(each.get("x", "")), []).append(float(each.get("y", "")))

    assert sum(map(len, places.values())) > 100
    for level in places.values():
        found = sorted(level)
        gaps = [b - a for a, b in pairwise(found)]
        assert min(gaps, default=ROW) >= ROW - 0.2


@pytest.mark.parametrize(
    ("form", "usual", "most"),
    [
        ("svg", USUAL_NODES, MOST_NODES),
        ("html", USUAL_NODES, MOST_NODES),
        ("mermaid", USUAL_MERMAID, MOST_MERMAID),
    ],
)
def test_a_large_tree_is_drawn_by_whole_levels_and_says_what_is_cut_off(
    form: str, usual: int, most: int
) -> None:
    levels = large().levels()
    for depth, room in ((None, usual), (1000, most)):
        text = FORMATS[form].write(large(), None, depth)
        part = excerpt(large(), None, depth, usual, most)

        assert len(part.views) <= room
        assert len(part.views) + levels[part.levels + 1] > room
        assert part.hidden == sum(levels) - len(part.views)
        assert f"{part.levels} levels below #0; {part.hidden:,} nodes are further down" in text


def test_depth_and_node_bound_the_drawing() -> None:
    child = next(view for view in large().walk(depth=1) if view.depth == 1 and view.children)

    assert len(excerpt(large(), None, 0, 300, 2000).views) == 1
    assert {view.depth for view in excerpt(large(), child.id, 1, 300, 2000).views} == {1, 2}
    whole = excerpt(fake(), None, None, 300, 2000)
    assert (whole.levels, whole.hidden, whole.note) == (1, 0, "")


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_of_a_tree_of_thousands_of_levels_is_small_and_flat(form: str) -> None:
    for depth in (None, 2500):
        text = FORMATS[form].write(fake(chain(3000)), None, depth)

        assert len(text) < 3_000_000
        if form == "html":
            assert Outline(text).deepest < 200


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_of_a_single_leaf_without_a_class(form: str) -> None:
    leaf = TREE[1]._replace(id=0, parent=None, depth=0, branch="", distribution={}, prediction=None)

    assert "no class yet" in FORMATS[form].write(fake((leaf,)), None, None)


def test_names_and_values_cannot_break_out_of_the_drawing() -> None:
    root = ElementTree.fromstring(FORMATS["svg"].write(hostile(), None, None))

    known = {"svg", "style", "rect", "text", "title", "path", "g"}
    assert {each.tag.removeprefix(SVG) for each in root.iter()} == known
    names = {name for each in root.iter() for name in each.attrib}
    assert not [name for name in names if name.startswith("on") or "href" in name]
    said = "".join(root.itertext())
    assert all(value in said for value in ("<script>alert(1)</script>", "onerror=alert(1)>"))


def test_names_and_values_cannot_break_out_of_the_page() -> None:
    text = FORMATS["html"].write(hostile(), None, None)

    page = Outline(text)
    assert page.elements == {
        "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "div", "details",
        "summary", "span", "svg", "rect", "text", "path", "g",
    }  # fmt: skip
    assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e\ud800-\udfff]", text)


def test_names_and_values_cannot_break_out_of_the_flowchart() -> None:
    lines = FORMATS["mermaid"].write(hostile(), None, None).splitlines()

    nodes, edges = hostile().shape.nodes, hostile().shape.nodes - 1
    assert (
        len(
            [
                each
                for each in lines
                if re.fullmatch(r'  n\d+\(?\["[^"<>`{}\[\]]*<br/>[\d.]+%"\]\)?', each)
            ]
        )
        == nodes
    )
    assert (
        len(
            [
                each
                for each in lines
                if re.fullmatch(r'  n\d+ (==|--)>\|"[^"<>`{}\[\]]*"\| n\d+', each)
            ]
        )
        == edges
    )
    assert len(lines) == nodes + edges + 2


def test_signs_of_the_flowchart_are_written_by_their_numbers() -> None:
    assert mermaid_escape('a "b" <c> #35; `d`') == "a #34;b#34; #60;c#62; #35;35#59; #96;d#96;"
    assert mermaid_escape("1. one") == "1#46; one"
    assert mermaid_escape("- two") == "#45; two"
    assert mermaid_escape("39.5 max_depth") == "39.5 max_depth"
    assert mermaid_escape("größe") == "gr#246;#223;e"
    assert mermaid_escape("x" * 500) == "x" * 59 + "#8230;"


@pytest.mark.parametrize("form", ["text", "dot"])
def test_names_and_values_cannot_drive_a_terminal(form: str) -> None:
    text = FORMATS[form].write(hostile(), None, None)

    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e\ud800-\udfff]", text)


def test_the_outline_folds_every_inner_node() -> None:
    page = Outline(FORMATS["html"].write(large(), None, 4))

    views = list(large().walk(depth=3))
    assert page.summaries == sum(bool(view.children) for view in views)


def test_the_policy_lets_our_styles_in_and_nothing_else() -> None:
    policy = page_policy()
    text = FORMATS["html"].write(fake(), None, None)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)

    assert len(styles) == 2
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    for style in styles:
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_classes_beyond_the_palette_share_a_colour() -> None:
    weights = {f"class {i}": float(i + 1) for i in range(12)}
    leaf = TREE[1]._replace(id=0, parent=None, depth=0, branch="", distribution=weights)
    one: Any = fake((leaf._replace(prediction="class 11"),))
    text = drawing(one, excerpt(one, None, None, 9, 9))

    legend = text[: text.index('class="card')]
    assert "5 more" in legend
    assert "class 5<" in legend
    assert "class 4<" not in legend
    assert text.count('class="others"') == 1 + 5
