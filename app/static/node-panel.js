// What is known of one node: where it stands, what comes by, and why a leaf has not split yet.

import { Problem, getJson, offers } from "./api.js";
import { byId, make, meter } from "./element.js";
import { label, percent, plain, share, test, whole } from "./format.js";

const AGAIN_MS = 3000; // a leaf is asked again while it is looked at

export class NodePanel {
  /** `heard` has place(label) and select(id). */
  constructor(heard) {
    this.heard = heard;
    this.place = byId("node");
    this.name = byId("node-name");
    this.why = make("div", { class: "why" });
    this.asked = null;
    this.at = 0;
  }

  show(tree, id) {
    const node = tree.get(id);
    if (!node) {
      this.clear(id === null ? "Select a node of the tree." : `Node #${id} is gone.`);
      return;
    }
    this.name.textContent = `#${node.id}, ${node.children.length ? "split" : "leaf"}`;
    const parts = [this.way(tree, node), this.bars(node), this.facts(tree, node)];
    if (node.split) parts.push(this.reason(node.split));
    if (!node.children.length) parts.push(this.why);
    this.place.replaceChildren(...parts);
    if (node.children.length) this.asked = null;
    else this.ask(node.id);
  }

  clear(words) {
    this.asked = null;
    this.name.textContent = "";
    this.place.replaceChildren(make("p", { class: "muted" }, words));
  }

  way(tree, node) {
    const steps = tree.path(node.id).slice(1);
    if (!steps.length) return make("p", { class: "way muted" }, "the root: every event comes by");
    const links = steps.map((step) =>
      make("button", { type: "button", class: "step", onclick: () => this.heard.select(step.id) }, test(step.branch)),
    );
    return make("div", { class: "way" }, ...links);
  }

  bars(node) {
    const total = node.distribution.reduce((sum, entry) => sum + entry.weight, 0) || 1;
    const sorted = [...node.distribution].sort((a, b) => b.weight - a.weight).slice(0, 6);
    const lines = sorted.map(({ label: value, weight }) =>
      make("li", {}, make("span", { class: "name" }, label(value)), meter(weight / total, `class-${this.heard.place(value)}`), make("span", { class: "right" }, percent(weight / total))),
    );
    return make("ul", { class: "bars", "aria-label": "Classes at this node" }, ...lines);
  }

  facts(tree, node) {
    const facts = [
      ["Traffic", share(node.share)],
      [node.children.length ? "n when it split" : "n", whole(node.n)],
      ["Depth", node.depth],
    ];
    if (node.children.length) facts.push(["Nodes below", whole(node.below)]);
    if (node.age_events != null) facts.push(["Age", `${whole(node.age_events)} events`]);
    if (!node.children.length && !node.active) facts.push(["State", "asleep: gathers no statistics"]);
    return definitions(facts);
  }

  reason(split) {
    const why = split.reason === "tie" ? "a tie: the two best were too close to wait for" : "the gap passed the bound";
    return make(
      "div",
      { class: "why" },
      make("h3", {}, "Why it split"),
      make("p", {}, `${capital(why)}, at event ${whole(split.event)}.`),
      definitions([
        ["Merit", plain(split.merit)],
        ["Second", plain(split.second_merit)],
        ["Bound", plain(split.bound)],
        ["n", whole(split.n)],
      ]),
      make("p", { class: "muted" }, `Runner-up: ${split.second ? test(split.second) : "no split"}`),
    );
  }

  /** Ask why a leaf has not split yet. */
  async ask(id) {
    const now = performance.now();
    if (this.asked === id && now - this.at < AGAIN_MS) return;
    if (this.asked !== id) this.why.replaceChildren();
    this.asked = id;
    this.at = now;
    try {
      if (!(await offers("GET /leaves/{id}"))) return;
      const found = await getJson(`/leaves/${id}`);
      if (this.asked === id) this.tell(found);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (this.asked === id) this.why.replaceChildren(make("p", { class: "muted" }, error.message));
    }
  }

  tell(found) {
    const parts = [make("h3", {}, "Why not yet"), make("p", {}, found.explanation ?? found.status)];
    if (found.gap != null && found.bound > 0) {
      const reached = found.gap / found.bound;
      parts.push(
        make("div", { class: "gap" }, make("span", {}, "gap / bound"), meter(reached, "accent"), make("span", { class: "right" }, percent(reached, 0))),
      );
    }
    const facts = [];
    const option = ({ test: text, merit }) => `${text === null ? "no split" : test(text)} (${plain(merit)})`;
    if (found.best) facts.push(["Best", option(found.best)]);
    if (found.second) facts.push(["Second", option(found.second)]);
    if (found.events_needed != null) facts.push(["Needs", `${whole(found.events_needed)} events more`]);
    if (found.next_attempt_in != null) facts.push(["Next attempt", `in ${whole(found.next_attempt_in)} events`]);
    if (facts.length) parts.push(definitions(facts));
    this.why.replaceChildren(...parts);
  }
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function definitions(pairs) {
  const rows = pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value))));
  return make("dl", { class: "facts" }, ...rows);
}
