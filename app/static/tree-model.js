// The tree as it was fetched, and which part of it is drawn. Knows nothing of the page.

export const MOST_DRAWN = 400;
// A node that is open stays open unless another has clearly more traffic: no flicker.
const LOYALTY = 1.3;

export const CLASSES = 8; // colours; further classes share the last

export class Tree {
  /** `document` is the answer of GET /tree. Nodes come in pre-order: parents before children. */
  constructor(document) {
    this.snapshot = document.snapshot;
    this.events = document.events;
    this.shape = document.shape;
    this.importance = document.importance ?? [];
    this.nodes = new Map();
    for (const found of document.nodes) {
      const parent = this.nodes.get(found.parent) ?? null;
      const node = { ...found, parent, children: [], below: 0 };
      node.answer = found.children.length ? null : certainty(found);
      this.nodes.set(node.id, node);
      parent?.children.push(node);
    }
    this.root = this.nodes.get(document.root) ?? null;
    for (const node of [...this.nodes.values()].reverse()) {
      if (node.parent) node.parent.below += node.below + 1;
    }
    this.labels = (this.root?.distribution ?? []).map((entry) => entry.label);
    const keys = this.labels.map((label) => JSON.stringify(label));
    this.places = new Map(keys.map((key, place) => [key, Math.min(place, CLASSES - 1)]));
  }

  get(id) {
    return this.nodes.get(id);
  }

  /** Which colour a class has. */
  place(label) {
    return this.places.get(JSON.stringify(label)) ?? CLASSES - 1;
  }

  /** The nodes from the root to this one. */
  path(id) {
    const found = [];
    for (let node = this.get(id); node; node = node.parent) found.unshift(node);
    return found;
  }

  /** Nodes whose id, feature, test or predicted class fits, the busiest first. */
  search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const id = /^#?(\d+)$/.exec(wanted);
    const fits = (node) => {
      if (id && node.id === Number(id[1])) return true;
      if (wanted.startsWith("#")) return false;
      if (node.feature) return node.feature.toLowerCase().includes(wanted);
      return String(node.prediction).toLowerCase() === wanted;
    };
    return [...this.nodes.values()].filter(fits).sort((a, b) => b.share - a.share);
  }

  /**
   * Which nodes show their children: those the user opened, then the busiest, as long as not
   * more than `budget` nodes on `levels` levels are drawn.
   */
  opened(budget, levels, choice, before) {
    const open = new Set();
    if (!this.root) return open;
    const urgency = (node) => {
      if (choice.opened.has(node.id)) return 2 + node.share;
      return node.share * (before.has(node.id) ? LOYALTY : 1);
    };
    const waiting = [this.root];
    let drawn = 1;
    while (waiting.length) {
      let best = 0;
      for (let place = 1; place < waiting.length; place += 1) {
        if (urgency(waiting[place]) > urgency(waiting[best])) best = place;
      }
      const [node] = waiting.splice(best, 1);
      const wanted = choice.opened.has(node.id);
      const room = wanted ? Math.max(budget, MOST_DRAWN) : budget;
      if (!node.children.length || choice.closed.has(node.id)) continue;
      if (drawn + node.children.length > room) continue;
      if (!wanted && node.depth - this.root.depth + 1 >= levels) continue;
      open.add(node.id);
      drawn += node.children.length;
      waiting.push(...node.children);
    }
    return open;
  }
}

/** The share of a leaf's most frequent class among its votes, or null. */
function certainty(node) {
  const total = node.distribution.reduce((sum, entry) => sum + entry.weight, 0);
  if (!(total > 0) || node.prediction === null) return null;
  const key = JSON.stringify(node.prediction);
  const own = node.distribution.find((entry) => JSON.stringify(entry.label) === key);
  return (own?.weight ?? 0) / total;
}

/** What the user opened and closed by hand. */
export class Choice {
  opened = new Set();
  closed = new Set();

  open(id) {
    this.opened.add(id);
    this.closed.delete(id);
  }

  close(id) {
    this.closed.add(id);
    this.opened.delete(id);
  }

  /** Make sure that a node is drawn. */
  reveal(tree, id) {
    for (const node of tree.path(id).slice(0, -1)) this.open(node.id);
  }

  clear() {
    this.opened.clear();
    this.closed.clear();
  }

  get any() {
    return this.opened.size + this.closed.size > 0;
  }
}
