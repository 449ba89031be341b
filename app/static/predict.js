// The form for a prediction, made from the schema, and the answer with its reasons.

import { Problem, offers, postJson } from "./api.js";
import { byId, make, meter } from "./element.js";
import { label, percent, plain } from "./format.js";

const MOST_FIELDS = 24; // at once; the others are behind a button
const MOST_OPTIONS = 500; // more are typed, not chosen
const SIGNS = { "<=": "≤", ">=": "≥", "==": "=", "!=": "≠" };

export class Predict {
  /** `heard` has answered(answer), cleared() and select(id). */
  constructor(heard) {
    this.heard = heard;
    this.form = byId("predict-form");
    this.answer = byId("answer");
    this.features = [];
    this.values = new Map(); // what was typed, by feature
    this.all = false;
    this.turn = 0; // of the newest question; answers to older ones come too late
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    byId("example").addEventListener("click", () => this.fillAndSend());
  }

  /** Make the fields; what was typed stays. */
  show(schema, order, example) {
    this.example = example;
    this.classes = schema.classes;
    const rank = new Map(order.map((name, place) => [name, place]));
    const place = (feature) => rank.get(feature.name) ?? Infinity;
    const wide = schema.features.length > MOST_FIELDS;
    const features = wide ? [...schema.features].sort((a, b) => place(a) - place(b)) : schema.features;
    const shape = JSON.stringify(schema.features);
    if (shape === this.shape) return;
    this.shape = shape;
    this.features = features;
    this.build();
  }

  build() {
    const shown = this.all ? this.features : this.features.slice(0, MOST_FIELDS);
    const rest = this.features.length - shown.length;
    this.form.replaceChildren(
      ...shown.map((feature, place) => this.field(feature, `feature-${place}`)),
      ...(rest ? [make("button", { type: "button", class: "plain", onclick: () => this.more() }, `${rest} more features`)] : []),
    );
  }

  more() {
    this.all = true;
    this.build();
  }

  field(feature, id) {
    const input = this.input(feature, id);
    input.value = this.values.get(feature.name) ?? "";
    input.addEventListener("input", () => this.values.set(feature.name, input.value));
    return make("div", { class: "field" }, make("label", { for: id, title: feature.name }, feature.name), input);
  }

  input(feature, id) {
    if (feature.kind === "numeric") {
      return make("input", { id, type: "text", inputmode: "decimal", placeholder: "missing" });
    }
    const values = feature.values ?? [];
    if (feature.kind === "nominal" && values.length && values.length <= MOST_OPTIONS) {
      const options = values.map((value) => make("option", { value: JSON.stringify(value) }, label(value)));
      return make("select", { id }, make("option", { value: "" }, "missing"), ...options);
    }
    const hint = feature.kind === "nominal" ? "missing" : "tokens, with commas between";
    return make("input", { id, type: "text", placeholder: hint, spellcheck: "false" });
  }

  /** The row as the service takes it; empty fields are missing. */
  row() {
    const row = {};
    for (const feature of this.features) {
      const text = (this.values.get(feature.name) ?? "").trim();
      if (text) row[feature.name] = read(feature, text);
    }
    return row;
  }

  /** Fill in values that lead to a leaf where events really go. */
  fillAndSend() {
    const row = this.example?.();
    if (!row) return;
    this.values.clear();
    for (const [name, value] of Object.entries(row)) this.values.set(name, value);
    this.build();
    this.send();
  }

  async send() {
    const turn = (this.turn += 1);
    try {
      const row = this.row();
      const answer = await postJson("/predict?path=true", { features: row });
      if (turn !== this.turn) return;
      this.tell(answer);
      this.heard.answered(answer);
      await this.explain(row);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (turn !== this.turn) return;
      this.heard.cleared();
      this.answer.replaceChildren(make("p", { class: "wrong" }, error.message));
    }
  }

  tell(answer) {
    const chances = [...answer.probabilities].sort((a, b) => b.probability - a.probability);
    const place = (value) => this.heard.place(value);
    const head = make(
      "p",
      { class: "verdict" },
      make("span", { class: `dot class-${place(answer.label)}` }),
      make("b", { id: "answer-label" }, answer.label === null ? "no class yet" : label(answer.label)),
      " at ",
      make("button", { type: "button", class: "link", onclick: () => this.heard.select(answer.leaf) }, `#${answer.leaf}`),
      make("span", { class: "muted" }, ` ${answer.snapshot}`),
    );
    const bars = chances.slice(0, 5).map(({ label: value, probability }) =>
      make("li", {}, make("span", { class: "name" }, label(value)), meter(probability, `class-${place(value)}`), make("span", { class: "right" }, percent(probability))),
    );
    const steps = answer.path.map((step) =>
      make("li", {}, make("span", {}, `${step.feature} ${SIGNS[step.operator] ?? step.operator} ${shown(step.value)}`), make("span", { class: "muted" }, step.observed === null ? "missing" : shown(step.observed))),
    );
    this.why = make("div", { class: "why" });
    this.answer.replaceChildren(head, make("ul", { class: "bars" }, ...bars), make("ol", { class: "steps", tabindex: "0", "aria-label": "The way to the leaf" }, ...steps), this.why);
  }

  /** What would have to change for another answer, where the service can tell. */
  async explain(row) {
    if (this.classes.length < 2 || !(await offers("POST /explain"))) return;
    const { why } = this; // of this answer, whatever is asked meanwhile
    try {
      const found = await postJson("/explain", { features: row, target: null, frozen: [] });
      const other = found.counterfactual;
      const words = other
        ? other.changes.map((change) => `${change.feature} ${shown(change.from)} → ${shown(change.to)}`).join(", ")
        : found.reason;
      if (!words) return;
      const name = other ? `For ${label(other.label)} instead: ` : "No other answer: ";
      why.replaceChildren(make("p", {}, make("span", { class: "muted" }, name), words));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
  }
}

function read(feature, text) {
  if (feature.kind === "numeric") {
    const number = Number(text);
    return Number.isNaN(number) ? text : number; // the service says what is wrong with it
  }
  if (feature.kind === "nominal") {
    const known = (feature.values ?? []).some((value) => JSON.stringify(value) === text);
    return known ? JSON.parse(text) : text;
  }
  return text.split(",").map((token) => token.trim()).filter(Boolean);
}

function shown(value) {
  if (value === null || value === undefined) return "missing";
  if (typeof value === "number") return plain(value);
  if (Array.isArray(value)) return `{${value.map(shown).join(", ")}}`;
  return label(value);
}
