// The whole tree on a canvas: a row a level, as wide as its share of the traffic.

import { colour } from "./theme.js";

const MOST_ROW = 16;
const LEAST_ROW = 3;
const LEAST_WIDTH = 0.4; // narrower ones are not seen

export class Icicle {
  /** `heard` has pick(id) and hover(id or null, event). */
  constructor(canvas, heard) {
    this.canvas = canvas;
    this.heard = heard;
    this.tree = null;
    this.rows = [];
    this.marks = { lit: new Set(), hits: new Set(), selected: null };
    canvas.addEventListener("click", (event) => {
      const id = this.idAt(event);
      if (id !== null) heard.pick(id);
    });
    canvas.addEventListener("pointermove", (event) => heard.hover(this.idAt(event), event));
    canvas.addEventListener("pointerleave", (event) => heard.hover(null, event));
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(tree) {
    this.tree = tree;
    this.arrange();
    this.draw();
    this.canvas.dataset.ids = JSON.stringify([...tree.nodes.keys()]);
    const { nodes, leaves, depth } = tree.shape;
    this.canvas.setAttribute(
      "aria-label",
      `The whole tree: ${nodes} nodes, ${leaves} leaves, ${depth} levels deep. The search finds nodes by keyboard.`,
    );
  }

  mark(marks) {
    this.marks = marks;
    this.draw();
  }

  /** Places from 0 to 1: children stand under their parent, by weight. */
  arrange() {
    this.rows = [];
    const { root } = this.tree;
    if (!root) return;
    const places = new Map([[root.id, { left: 0, right: 1 }]]);
    for (const node of this.tree.nodes.values()) {
      const { left, right } = places.get(node.id);
      (this.rows[node.depth - root.depth] ??= []).push({ node, left, right });
      const total = node.children.reduce((sum, child) => sum + child.weight, 0);
      let at = left;
      for (const child of node.children) {
        const part = total > 0 ? child.weight / total : 1 / node.children.length;
        places.set(child.id, { left: at, right: at + part * (right - left) });
        at += part * (right - left);
      }
    }
  }

  get rowHeight() {
    const rows = Math.max(this.rows.length, 1);
    return Math.min(Math.max(this.canvas.clientHeight / rows, LEAST_ROW), MOST_ROW);
  }

  draw() {
    const { canvas, marks } = this;
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    if (!wide || !this.tree) return;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const height = this.rowHeight;
    const ground = colour("card");
    this.rows.forEach((row, level) => {
      const top = level * height;
      if (top > high) return;
      for (const { node, left, right } of row) {
        const [x, width] = [left * wide, (right - left) * wide];
        if (width < LEAST_WIDTH) continue;
        const lit = marks.lit.has(node.id);
        pen.globalAlpha = lit ? (node.children.length ? 0.4 : 1) : strength(node) * (marks.lit.size ? 0.45 : 1);
        pen.fillStyle = lit ? colour("accent") : colour(`class-${this.tree.place(node.prediction)}`);
        pen.fillRect(x, top, width, height);
        if (width > 3) {
          pen.globalAlpha = 1;
          pen.fillStyle = ground;
          pen.fillRect(x + width - 0.6, top, 0.6, height);
          pen.fillRect(x, top + height - 0.6, width, 0.6);
        }
        if (marks.hits.has(node.id) || node.id === marks.selected) {
          pen.globalAlpha = 1;
          pen.strokeStyle = colour(node.id === marks.selected ? "text" : "hit");
          pen.lineWidth = 1.5;
          pen.strokeRect(x + 0.75, top + 0.75, Math.max(width - 1.5, 1), height - 1.5);
        }
      }
    });
    pen.globalAlpha = 1;
  }

  idAt(event) {
    const { clientWidth: wide } = this.canvas;
    const x = event.offsetX / wide;
    const row = this.rows[Math.floor(event.offsetY / this.rowHeight)] ?? [];
    let [low, high] = [0, row.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (row[middle].right <= x) low = middle + 1;
      else if (row[middle].left > x) high = middle - 1;
      else return row[middle].node.id;
    }
    return null;
  }
}

/** Purer nodes are stronger; inner ones are pale. */
function strength(node) {
  const total = node.distribution.reduce((sum, entry) => sum + entry.weight, 0);
  const most = Math.max(0, ...node.distribution.map((entry) => entry.weight));
  const purity = total > 0 ? most / total : 0;
  const chance = 1 / Math.max(node.distribution.length, 2);
  const sure = Math.max((purity - chance) / (1 - chance), 0);
  return node.children.length ? 0.12 + 0.35 * sure : 0.25 + 0.7 * sure;
}
