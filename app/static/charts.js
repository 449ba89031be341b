// The curves: accuracy, throughput, splitting and lag over the last quarter of an hour.

import { byId, make } from "./element.js";
import { clock, percent, short, whole } from "./format.js";
import { colour, onTheme } from "./theme.js";
import uPlot from "./vendor/uPlot.min.js";

const KEPT = 900; // points, one a second
const RATE_SECONDS = 5; // attempts a second are counted over so many
const HEIGHT = 128;

const CHARTS = [
  {
    id: "accuracy",
    title: "Accuracy",
    lines: [
      { name: "recent", field: "window_accuracy", ink: "line-1", shown: (v) => percent(v) },
      { name: "overall", field: "accuracy", ink: "line-2", shown: (v) => percent(v) },
    ],
    ticks: (v) => `${Math.round(100 * v)}%`,
    range: (low, high) => [Math.max(0, low - 0.03), Math.min(1, high + 0.03)],
  },
  {
    id: "throughput",
    title: "Events a second",
    lines: [{ name: "learned", field: "events_per_second", ink: "line-1", area: true, shown: whole }],
    ticks: (v) => short(v),
    range: (_, high) => [0, Math.max(high * 1.15, 10)],
  },
  {
    id: "splitting",
    title: "Splitting",
    lines: [
      { name: "attempts/s", field: "attempt_rate", ink: "line-1", shown: (v) => (v == null ? "–" : v.toFixed(1)) },
      { name: "mean delay", field: "delay_mean", ink: "line-3", scale: "delay", shown: (v) => (v == null ? "–" : v.toFixed(0)) },
    ],
    ticks: (v) => short(v),
    range: (_, high) => [0, Math.max(high * 1.15, 1)],
  },
  {
    id: "lag",
    title: "Lag",
    lines: [{ name: "records waiting", field: "lag", ink: "line-3", area: true, shown: whole }],
    ticks: (v) => short(v),
    range: (_, high) => [0, Math.max(high * 1.15, 10)],
  },
];

const room = (_, __, from, to) => (to - from < 400 ? 68 : 48); // with seconds, without

/** Seconds are written only where the minutes alone would repeat. */
function moments(_, found, __, ___, step) {
  return found.map((moment) => clock(moment).slice(0, step < 60 ? 8 : 5));
}

export class Charts {
  constructor(place, windowName) {
    this.rows = []; // beats, oldest first
    this.marks = []; // seconds at which the tree changed
    this.cards = CHARTS.map((chart) => new Card(place, chart, this));
    this.nameWindow(windowName);
    onTheme(() => this.cards.forEach((card) => card.rebuild()));
  }

  nameWindow(name) {
    byId("legend-window_accuracy").firstChild.textContent = name;
  }

  /** Begin with the past: one list a number. */
  start(history) {
    const fields = Object.keys(history);
    this.rows = (history.time ?? []).map((_, at) =>
      Object.fromEntries(fields.map((field) => [field, history[field][at]])),
    );
    this.rows.forEach((_, at) => this.derive(at));
    this.draw();
  }

  push(stats) {
    const last = this.rows.at(-1);
    if (last && stats.time <= last.time) return;
    this.rows.push({ ...stats });
    if (this.rows.length > KEPT) this.rows.shift();
    this.derive(this.rows.length - 1);
    this.draw();
  }

  derive(at) {
    const row = this.rows[at];
    const before = this.rows[Math.max(at - RATE_SECONDS, 0)];
    const seconds = row.time - before.time;
    const grown = row.attempts - before.attempts;
    row.attempt_rate = seconds > 0 && grown >= 0 ? grown / seconds : null;
    if (row.snapshot === null) row.attempt_rate = row.events_per_second = null;
  }

  changed(seconds) {
    this.marks = [...this.marks, ...seconds].slice(-2000);
  }

  draw() {
    if (!document.hidden) this.cards.forEach((card) => card.draw());
  }
}

class Card {
  constructor(place, chart, all) {
    this.chart = chart;
    this.all = all;
    this.values = chart.lines.map((line) => make("b", {}, "–"));
    const legend = chart.lines.map((line, at) =>
      make("span", { class: `key ${line.ink}`, id: `legend-${line.field}` }, line.name, " ", this.values[at]),
    );
    this.canvas = make("div", { class: "plot", role: "img", "aria-label": chart.title });
    place.append(
      make(
        "section",
        { class: "card chart", "aria-labelledby": `chart-${chart.id}` },
        make("header", { class: "card-head" }, make("h2", { id: `chart-${chart.id}` }, chart.title), make("span", { class: "spring" }), ...legend),
        this.canvas,
      ),
    );
    this.rebuild();
    new ResizeObserver(() => this.plot.setSize({ width: this.canvas.clientWidth, height: HEIGHT })).observe(this.canvas);
  }

  /** Make the plot anew, in the colours of the theme. */
  rebuild() {
    this.plot?.destroy();
    this.plot = new uPlot(this.options(), this.data(), this.canvas);
  }

  options() {
    const { chart } = this;
    const axis = {
      stroke: colour("muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { show: false },
    };
    const side = (more) => ({ ...axis, size: 42, values: (_, found) => found.map(chart.ticks), ...more });
    const axes = [
      { ...axis, grid: { show: false }, size: 24, space: room, values: moments },
      side({ scale: "y", space: 28 }),
    ];
    const scales = { x: { time: true }, y: { range: (_, low, high) => chart.range(low ?? 0, high ?? 1) } };
    if (chart.lines.some((line) => line.scale === "delay")) {
      axes.push(side({ scale: "delay", side: 1, grid: { show: false }, space: 28 }));
      scales.delay = { range: (_, low, high) => chart.range(low ?? 0, high ?? 1) };
    }
    return {
      width: this.canvas.clientWidth || 300,
      height: HEIGHT,
      legend: { show: false },
      cursor: { sync: { key: "livetree" }, y: false, points: { size: 6 }, drag: { x: false, y: false } },
      padding: [8, chart.lines.length > 1 && scales.delay ? 0 : 12, 0, 0],
      axes,
      scales,
      series: [
        {},
        ...chart.lines.map((line) => ({
          scale: line.scale ?? "y",
          stroke: colour(line.ink),
          width: 1.6,
          fill: line.area ? colour(`${line.ink}-area`) : undefined,
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [() => this.tell()], drawClear: [(plot) => this.ticks(plot)] },
    };
  }

  /** Small marks at the bottom where the tree changed. */
  ticks(plot) {
    if (this.chart.id !== "accuracy") return;
    const { left, top, width, height } = plot.bbox;
    plot.ctx.fillStyle = colour("accent-soft");
    for (const moment of this.all.marks) {
      const x = plot.valToPos(moment, "x", true);
      if (x >= left && x <= left + width) plot.ctx.fillRect(x, top + height - 5 * devicePixelRatio, 1.5 * devicePixelRatio, 5 * devicePixelRatio);
    }
  }

  data() {
    const { rows } = this.all;
    return [
      rows.map((row) => row.time),
      ...this.chart.lines.map((line) => rows.map((row) => row[line.field] ?? null)),
    ];
  }

  draw() {
    this.plot.setData(this.data());
    this.tell();
  }

  /** The numbers under the cursor, or the newest. */
  tell() {
    if (!this.plot) return;
    const at = this.plot.cursor.idx ?? this.all.rows.length - 1;
    const row = this.all.rows[at] ?? {};
    const told = this.chart.lines.map((line) => line.shown(row[line.field]));
    told.forEach((text, place) => (this.values[place].textContent = text));
    const words = this.chart.lines.map((line, place) => `${line.name} ${told[place]}`);
    this.canvas.setAttribute("aria-label", `${this.chart.title}: ${words.join(", ")}`);
  }
}
