// The drawing of the tree: an SVG of the nodes that are open, which glide to new places as it grows.

import { draw } from "./element.js";
import { label, percent, share, test, whole } from "./format.js";
import { keys } from "./tree-keys.js";
import { BAR, arranged, condition, words } from "./tree-layout.js";
import { Choice, MOST_DRAWN } from "./tree-model.js";
import { select, zoom, zoomIdentity } from "./vendor/d3-tree.min.js";

const HEIGHT = 18; // of a node
const GLIDE_MS = 350;
const MOST_GLIDING = 160; // more nodes jump: they would stutter
const READABLE = 0.8; // no smaller than this, where only as much is drawn as fits
const LEGIBLE = 0.5; // smaller than this a node that is looked for is brought nearer
const FITTING = [81, 65, 51, 41, 33, 27, 21, 15, 9, 5]; // nodes to try
const LEVELS = [4, 5, 6, 7, 8, 9, 10, 12]; // and levels
const MARGIN = 18;
const MOST_SCALE = 1.2;

const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class TreeView {
  /** `heard` has select(id), hover(id or null, event) and changed(). */
  constructor(svg, heard) {
    this.heard = heard;
    this.tree = null;
    this.choice = new Choice();
    this.budget = 0; // 0: what fits
    this.fitting = [1, Infinity]; // what fitted last: nodes and levels
    this.open = new Set();
    this.lit = new Set();
    this.hits = new Set();
    this.selected = null;
    this.active = null; // the node that the keyboard is at
    this.drawn = new Map(); // id: its elements and where they are
    this.known = new Set(); // ids seen so far, to mark new ones
    this.moved = false; // by the user: do not fit any more
    this.svg = svg;
    this.links = draw("g", { class: "links", "aria-hidden": "true" });
    this.items = draw("g", { class: "items", role: "tree", "aria-label": "The tree" });
    this.world = draw("g", {}, this.links, this.items);
    svg.append(this.world);
    this.zoom = zoom()
      .scaleExtent([0.05, 3])
      .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey : !event.button))
      .on("zoom", ({ transform, sourceEvent }) => {
        this.world.setAttribute("transform", transform);
        if (sourceEvent) this.moved = true;
      });
    select(svg).call(this.zoom).on("dblclick.zoom", null);
    svg.addEventListener("keydown", (event) => keys(this, event));
    svg.addEventListener("click", (event) => this.clicked(event));
    svg.addEventListener("pointermove", (event) => heard.hover(this.idAt(event.target), event));
    svg.addEventListener("pointerleave", (event) => heard.hover(null, event));
    new ResizeObserver(() => this.resized()).observe(svg);
  }

  idAt(target) {
    const found = target.closest?.("[data-id]");
    return found ? Number(found.dataset.id) : null;
  }

  clicked(event) {
    const id = this.idAt(event.target);
    if (id === null) return;
    this.active = id;
    if (event.target.closest(".more, .fold")) this.toggle(id);
    else this.heard.select(id);
    this.focus();
  }

  resized() {
    if (this.tree) this.show(this.tree);
  }

  /** Draw a tree, new or not; what the user opened, lit and looked for stays. */
  show(tree) {
    const first = this.tree === null;
    this.tree = tree;
    if (first) for (const id of tree.nodes.keys()) this.known.add(id);
    const plan = this.plan();
    this.open = plan.open;
    this.update(plan.places, plan.box);
    this.heard.changed();
  }

  /** What to draw: so many nodes, or as many as can be read at once. */
  plan() {
    if (this.budget) return this.planned(Math.min(this.budget, MOST_DRAWN));
    const least = this.planned(1); // what the user opened may need more room
    const wanted = Math.min(READABLE, least.scale);
    let best = least;
    for (const levels of LEVELS) {
      for (const budget of FITTING) {
        const plan = this.planned(budget, levels);
        if (plan.scale < wanted) continue;
        if (plan.worth > best.worth) best = plan;
        break;
      }
    }
    // As before, unless another way shows much more: a drawing should not jump.
    const again = this.planned(...this.fitting);
    const keep = again.scale >= 0.93 * wanted && again.worth >= 0.85 * best.worth;
    const plan = keep ? again : best;
    this.fitting = plan.how;
    return plan;
  }

  planned(budget, levels = Infinity) {
    const { clientWidth: wide, clientHeight: high } = this.svg;
    const room = { wide: wide - 2 * MARGIN, high: high - 2 * MARGIN, most: MOST_SCALE };
    const open = this.tree.opened(budget, levels, this.choice, this.open);
    const plan = arranged(this.tree, open, room);
    // How many tests of an event can be seen, on average; and the more nodes the better.
    let worth = plan.places.size / 100;
    for (const id of open) worth += this.tree.get(id).share;
    return { open, ...plan, scale: scaleFor(plan.box, wide, high), worth, how: [budget, levels] };
  }

  update(places, box) {
    const gone = [...this.drawn.keys()].filter((id) => !places.has(id));
    for (const id of gone) {
      this.drawn.get(id).item.remove();
      this.drawn.get(id).link?.remove();
      this.drawn.delete(id);
    }
    const had = this.drawn.size > 0;
    const moves = [];
    let before = null;
    for (const [id, place] of places) {
      let shape = this.drawn.get(id);
      if (!shape) {
        // A new node comes out of its parent.
        const from = this.drawn.get(place.parent)?.at ?? place;
        shape = { ...this.make(place), at: { x: had ? from.x : place.x, y: had ? from.y : place.y } };
        this.drawn.set(id, shape);
        if (!this.known.has(id)) shape.item.classList.add("new");
        this.known.add(id);
      }
      // In the order of a reader, also for those who hear the page.
      if (shape.item.previousElementSibling !== before) {
        this.items.insertBefore(shape.item, before ? before.nextSibling : this.items.firstChild);
      }
      before = shape.item;
      this.describe(shape, place, places);
      if (shape.at.x !== place.x || shape.at.y !== place.y) {
        moves.push({ shape, from: { ...shape.at }, to: { x: place.x, y: place.y } });
      }
      shape.place = place;
    }
    if (!places.has(this.active)) this.active = places.keys().next().value ?? null;
    this.mark();
    this.glide(moves, had);
    this.box = box;
    if (!this.moved) this.fit(had);
  }

  make(place) {
    const id = place.node.id;
    const item = draw(
      "g",
      { class: "item", role: "treeitem", "data-id": id, tabindex: "-1" },
      draw("rect", { class: "frame", x: 0, y: -HEIGHT / 2, height: HEIGHT, rx: 5 }),
      draw("g", { class: "classes", transform: "translate(6 -4)" }),
      draw("text", { class: "words", x: BAR + 11, y: 4 }),
      draw("text", { class: "more", y: 4 }),
      draw("text", { class: "condition", x: -8, "text-anchor": "end" }),
    );
    this.items.append(item);
    const link = place.parent === null ? null : draw("path", { class: "link", "data-to": id });
    if (link) this.links.append(link);
    return { item, link };
  }

  describe(shape, { node, width, level, size, position, open, y, parent }, places) {
    const [frame, classes, text, more, branch] = shape.item.children;
    const folded = node.children.length > 0 && !open;
    shape.item.classList.toggle("leaf", !node.children.length);
    shape.item.classList.toggle("asleep", !node.children.length && !node.active);
    setAll(shape.item, {
      "aria-level": level,
      "aria-setsize": size,
      "aria-posinset": position,
      "aria-label": spoken(node),
      "aria-expanded": node.children.length ? String(open) : null,
    });
    frame.setAttribute("width", width);
    setText(text, words(node));
    setText(more, folded ? `+${node.below}` : "");
    more.setAttribute("x", width + 5);
    setText(branch, condition(node));
    // On the side from which the link does not come.
    branch.setAttribute("y", y <= (places.get(parent)?.y ?? y) ? -5 : 13);
    this.paint(classes, node);
    if (shape.link) {
      const place = this.tree.place(node.prediction);
      setAll(shape.link, {
        class: `link class-${place}`,
        "stroke-width": Math.max(1, 11 * Math.sqrt(node.share)).toFixed(2),
      });
    }
  }

  paint(group, node) {
    const total = node.distribution.reduce((sum, entry) => sum + entry.weight, 0) || 1;
    const parts = node.distribution.filter((entry) => entry.weight / total > 0.005);
    while (group.children.length > parts.length) group.lastChild.remove();
    while (group.children.length < parts.length) group.append(draw("rect", { height: 8 }));
    let x = 0;
    parts.forEach((entry, at) => {
      const width = (BAR * entry.weight) / total;
      const kind = `class-${this.tree.place(entry.label)}`;
      setAll(group.children[at], { class: kind, x: x.toFixed(2), width: width.toFixed(2) });
      x += width;
    });
  }

  /** Show what is lit, found, selected and reached by the keyboard. */
  mark() {
    for (const [id, { item, link }] of this.drawn) {
      item.classList.toggle("lit", this.lit.has(id));
      item.classList.toggle("hit", this.hits.has(id));
      item.setAttribute("aria-selected", String(id === this.selected));
      item.setAttribute("tabindex", id === this.active ? "0" : "-1");
      link?.classList.toggle("lit", this.lit.has(id));
      if (link && this.lit.has(id)) this.links.append(link); // above the others
    }
    this.svg.classList.toggle("dimmed", this.lit.size > 0);
  }

  glide(moves, had) {
    cancelAnimationFrame(this.frame);
    const still = !had || calm.matches || this.drawn.size > MOST_GLIDING || document.hidden;
    const start = performance.now();
    const step = (now) => {
      const part = still ? 1 : Math.min(Math.max((now - start) / GLIDE_MS, 0), 1);
      const eased = 1 - (1 - part) ** 3;
      for (const { shape, from, to } of moves) {
        shape.at = { x: mix(from.x, to.x, eased), y: mix(from.y, to.y, eased) };
      }
      this.put();
      if (part < 1) this.frame = requestAnimationFrame(step);
    };
    step(start);
  }

  put() {
    for (const { item, link, at, place } of this.drawn.values()) {
      item.setAttribute("transform", `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`);
      const parent = link && this.drawn.get(place.parent);
      if (!parent) continue;
      const x = parent.at.x + parent.place.width;
      const bend = (x + at.x) / 2;
      const [from, to] = [parent.at.y, at.y].map((y) => y.toFixed(1));
      link.setAttribute("d", `M${x.toFixed(1)} ${from}C${bend} ${from} ${bend} ${to} ${at.x} ${to}`);
    }
  }

  toggle(id) {
    const node = this.tree.get(id);
    if (!node?.children.length) return;
    if (this.open.has(id)) this.choice.close(id);
    else this.choice.open(id);
    this.active = id;
    this.show(this.tree);
  }

  /** Open the way to a node, and bring it into view. */
  reveal(id) {
    if (!this.tree.get(id)) return;
    this.choice.reveal(this.tree, id);
    this.active = id;
    this.show(this.tree);
    this.centre(id);
  }

  centre(id) {
    const place = this.drawn.get(id)?.place;
    if (!place || this.isSeen(place)) return;
    this.moved = true;
    const near = select(this.svg);
    if (this.svg.__zoom.k < LEGIBLE) near.call(this.zoom.scaleTo, READABLE);
    // To the right: what led there is on its left.
    const point = [0.78 * this.svg.clientWidth, this.svg.clientHeight / 2];
    near.call(this.zoom.translateTo, place.x + place.width / 2, place.y, point);
  }

  isSeen({ x, y, width }) {
    const { k, x: left, y: top } = this.svg.__zoom;
    const [a, b, row] = [left + k * x, left + k * (x + width), top + k * y];
    return k > LEGIBLE && a > 0 && b < this.svg.clientWidth && row > 10 && row < this.svg.clientHeight - 10;
  }

  zoomBy(factor) {
    this.moved = true;
    select(this.svg).call(this.zoom.scaleBy, factor);
  }

  fit() {
    this.moved = false;
    const { clientWidth: wide, clientHeight: high } = this.svg;
    if (!wide || !this.box) return;
    const { left, right, top, bottom } = this.box;
    const scale = Math.min(scaleFor(this.box, wide, high), MOST_SCALE);
    const x = Math.max(MARGIN, (wide - scale * (right - left)) / 2);
    const y = (high - scale * (top + bottom)) / 2;
    select(this.svg).call(this.zoom.transform, zoomIdentity.translate(x, y).scale(scale));
  }

  focus() {
    this.mark();
    this.drawn.get(this.active)?.item.focus({ preventScroll: true });
  }
}

function scaleFor({ left, right, top, bottom }, wide, high) {
  const [w, h] = [wide - 2 * MARGIN, high - 2 * MARGIN];
  return Math.max(Math.min(w / (right - left), h / (bottom - top)), 0.05);
}

function spoken(node) {
  const way = node.branch ? `${test(node.branch)}: ` : "";
  const traffic = `${share(node.share)} of traffic`;
  if (node.children.length) {
    return `${way}split on ${node.feature}, ${traffic}, ${whole(node.below)} nodes below`;
  }
  const answer = node.prediction === null ? "no class yet" : label(node.prediction);
  return `${way}leaf ${answer} ${node.answer === null ? "" : percent(node.answer)}, ${traffic}`;
}

const mix = (from, to, part) => from + (to - from) * part;

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}
