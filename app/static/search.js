// The search over the whole tree: marks all hits, and goes from one to the next.

import { byId } from "./element.js";
import { whole } from "./format.js";

export class Search {
  /** `heard` has tree(), found(set of ids) and go(id). */
  constructor(heard) {
    this.heard = heard;
    this.hits = [];
    this.at = -1;
    this.input = byId("search");
    this.input.addEventListener("input", () => this.look());
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    });
    byId("hit-before").addEventListener("click", () => this.step(-1));
    byId("hit-next").addEventListener("click", () => this.step(1));
  }

  look() {
    this.at = -1;
    this.again();
  }

  /** The same in a new tree. */
  again() {
    const current = this.hits[this.at]?.id;
    const tree = this.heard.tree();
    if (!tree || (!this.input.value && !this.hits.length)) return;
    this.hits = tree.search(this.input.value);
    this.at = this.hits.findIndex((node) => node.id === current);
    this.heard.found(new Set(this.hits.map((node) => node.id)));
    this.tell();
  }

  step(by) {
    if (!this.hits.length) return;
    const from = this.at < 0 && by < 0 ? 0 : this.at;
    this.at = (from + by + this.hits.length) % this.hits.length;
    this.heard.go(this.hits[this.at].id);
    this.tell();
  }

  clear() {
    this.input.value = "";
    this.look();
  }

  tell() {
    const number = this.hits.length;
    const place = this.at >= 0 ? `${whole(this.at + 1)} of ` : "";
    byId("hits").textContent = this.input.value ? `${place}${whole(number)}` : "";
    byId("hit-before").disabled = byId("hit-next").disabled = !number;
  }
}
