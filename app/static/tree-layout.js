// Where every drawn node stands: levels from left to right, each as wide as its words.

import { cut, label, percent, test } from "./format.js";
import { hierarchy, tree as tidy } from "./vendor/d3-tree.min.js";

const FONT = "12px system-ui, sans-serif";
const STRONG_FONT = "550 12px system-ui, sans-serif";
const SMALL_FONT = "11px system-ui, sans-serif";
const ROW = 23;
const MOST_STRETCH = 2; // rows stand further apart where there is room
const GAP = 24; // of a link, besides the words on it
export const BAR = 26; // of the classes at a node
const PADDING = 8;

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

function width(text, font) {
  const key = font + text;
  if (!widths.has(key)) {
    if (widths.size > 20000) widths.clear();
    pen.font = font;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

/** What stands at a node: the feature it tests, or the answer of a leaf. */
export function words(node) {
  if (node.feature !== null && node.kind !== "leaf") return cut(node.feature, 20);
  if (node.prediction === null) return "no class yet";
  const sure = node.answer === null ? "" : ` ${percent(node.answer, 0)}`;
  return cut(label(node.prediction), 16) + sure;
}

/** What stands on the link to a node: the condition, without the feature its parent names. */
export function condition(node) {
  if (!node.parent) return "";
  const text = node.branch;
  const feature = `${node.parent.feature} `;
  const rest = text.startsWith(feature) ? text.slice(feature.length) : text;
  return cut(test(rest).replace(/^== /, ""), 18);
}

function ownWidth(node) {
  const font = node.children.length ? STRONG_FONT : FONT;
  return PADDING * 2 + 3 + BAR + width(words(node), font);
}

/** Return places by id, in the order of a reader, and the box round them. */
export function arranged(tree, open, { wide, high, most }) {
  const root = hierarchy(tree.root, (node) => (open.has(node.id) ? node.children : null));
  tidy()
    .nodeSize([ROW, 1])
    .separation((a, b) => (a.parent === b.parent ? 1 : 1.2))(root);
  const levels = [];
  root.each(({ data: node, depth, children }) => {
    const level = (levels[depth] ??= { node: 0, link: 0 });
    const more = !children && node.children.length ? width(`+${node.below}`, SMALL_FONT) + 12 : 0;
    level.node = Math.max(level.node, ownWidth(node) + more);
    level.link = Math.max(level.link, width(condition(node), SMALL_FONT));
  });
  const lefts = [0];
  for (let depth = 1; depth < levels.length; depth += 1) {
    lefts[depth] = lefts[depth - 1] + levels[depth - 1].node + levels[depth].link + GAP;
  }
  const places = new Map();
  const box = { left: 0, right: 0, top: Infinity, bottom: -Infinity };
  root.eachBefore(({ data: node, depth, x, parent, children }) => {
    const siblings = parent ? parent.children : [root];
    const own = ownWidth(node);
    places.set(node.id, {
      node,
      x: lefts[depth],
      y: x,
      width: own,
      level: depth + 1,
      parent: parent ? parent.data.id : null,
      open: Boolean(children),
      size: siblings.length,
      position: parent ? siblings.findIndex((each) => each.data === node) + 1 : 1,
    });
    const more = children || !node.children.length ? 0 : 40;
    box.right = Math.max(box.right, lefts[depth] + own + more);
    box.top = Math.min(box.top, x - ROW / 2);
    box.bottom = Math.max(box.bottom, x + ROW / 2);
  });
  stretch(places, box, Math.min(wide / box.right, most), high);
  return { places, box };
}

/** Use the height that is there, at the scale that the width allows. */
function stretch(places, box, scale, high) {
  const factor = Math.min(Math.max(high / scale / (box.bottom - box.top), 1), MOST_STRETCH);
  for (const place of places.values()) place.y *= factor;
  box.top *= factor;
  box.bottom *= factor;
}
