// The log of what changed in the tree, newest first, as it happens.

import { Problem, getJson, offers } from "./api.js";
import { byId, make } from "./element.js";
import { clock, plain, test, whole } from "./format.js";

const MOST_ROWS = 200;

export class SplitLog {
  /** `heard` has select(id) and changed(list of seconds). */
  constructor(heard) {
    this.heard = heard;
    this.body = byId("log");
    this.seen = 0; // the number of the newest that is shown
  }

  /** Fetch the past; a service without a log shows none. */
  async start() {
    try {
      if (!(await offers("GET /splits"))) return;
      const found = await getJson(`/splits?limit=${MOST_ROWS}`);
      byId("log-card").hidden = false;
      this.add(found.changes, false);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
  }

  /** What a message tells; where changes are missing before it, they are fetched. */
  async tell(changes) {
    const next = changes.find((change) => change.sequence > this.seen);
    if (!next) return;
    if (this.seen && next.sequence > this.seen + 1) {
      const found = await getJson(`/splits?after=${this.seen}&limit=1000`).catch(() => null);
      this.add(found?.changes ?? changes, true);
    } else this.add(changes, true);
  }

  add(changes, live) {
    const fresh = changes.filter((change) => change.sequence > this.seen);
    if (!fresh.length) return;
    this.seen = Math.max(...fresh.map((change) => change.sequence));
    byId("log-card").hidden = false;
    byId("log-count").textContent = `${whole(this.seen)} so far`;
    for (const change of fresh) this.body.prepend(this.row(change, live));
    while (this.body.children.length > MOST_ROWS) this.body.lastChild.remove();
    this.heard.changed(fresh.map((change) => Date.parse(change.time) / 1000));
  }

  row(change, live) {
    const number = (value) => make("td", { class: "right" }, plain(value));
    return make(
      "tr",
      { class: live ? "fresh" : "" },
      make("td", {}, whole(change.event)),
      make("td", {}, make("span", { class: `action ${change.action}` }, change.action)),
      make("td", {}, make("button", { type: "button", class: "link", onclick: () => this.heard.select(change.node) }, `#${change.node}`)),
      make("td", { class: "test" }, change.test ? test(change.test) : "–"),
      make("td", {}, change.reason ?? "–"),
      number(change.merit),
      number(change.second_merit),
      number(change.bound),
      make("td", { class: "right" }, whole(change.n)),
      make("td", { class: "right" }, change.delay_events == null ? "–" : whole(change.delay_events)),
      make("td", {}, clock(change.time)),
    );
  }
}
