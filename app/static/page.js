// The page: what comes from the service goes to the parts, and what is done at one shows at others.

import { Problem, askForKey, getJson, hasKey, request } from "./api.js";
import { Charts } from "./charts.js";
import { byId, make } from "./element.js";
import { exampleRow } from "./example.js";
import { bytes, label, percent, share, short, test, whole } from "./format.js";
import { Icicle } from "./icicle.js";
import { follow } from "./live.js";
import { NodePanel } from "./node-panel.js";
import { Predict } from "./predict.js";
import { Search } from "./search.js";
import { SplitLog } from "./split-log.js";
import { onTheme, startTheme } from "./theme.js";
import { Tree } from "./tree-model.js";
import { TreeView } from "./tree-view.js";

const CALM_MS = 5000; // between two fetches of a tree whose shape is the same
const BUSY_MS = 1000; // and of one that has changed
const COST = 20; // a fetch may take one part in so many of the time
const WHOLE_NODES = 20000; // of larger trees only the upper levels are fetched
const UPPER_LEVELS = 14;

const ZOOM = 1.3;

startTheme();
const place = (value) => tree?.place(value) ?? 0;
const charts = new Charts(byId("charts"), "recent");
const icicle = new Icicle(byId("icicle"), { pick: choose, hover });
const panel = new NodePanel({ place, select: choose });
const splits = new SplitLog({ select: choose, changed: (moments) => charts.changed(moments) });
const predict = new Predict({ place, select: choose, answered: light, cleared: () => light(null) });
const view = new TreeView(byId("tree"), { select, hover, changed });
const search = new Search({ tree: () => tree, found: (hits) => mark({ hits }), go: (id) => view.reveal(id) });
onTheme(() => icicle.draw());

let tree = null;
let schema = null;
let answer = null;
let fetched = { tag: "", shape: "", at: -Infinity, took: 0, busy: false };

/** Draw the tree where it changed; small changes of numbers can wait. */
async function refresh(stats) {
  const shape = `${stats.nodes} ${stats.splits}`;
  const wait = Math.max(shape === fetched.shape ? CALM_MS : BUSY_MS, COST * fetched.took);
  const now = performance.now();
  if (fetched.busy || stats.snapshot === null || now - fetched.at < wait) return;
  fetched.busy = true;
  try {
    const path = stats.nodes > WHOLE_NODES ? `/tree?depth=${UPPER_LEVELS}` : "/tree";
    const response = await request(path, { headers: { "if-none-match": fetched.tag } });
    if (response.status !== 304) {
      show(new Tree(await response.json()));
      fetched.tag = response.headers.get("etag") ?? "";
      if (!schema || !sameClasses()) await readSchema();
    }
    fetched = { ...fetched, shape, at: now, took: performance.now() - now };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  } finally {
    fetched.busy = false;
  }
}

function sameClasses() {
  return JSON.stringify(schema.classes) === JSON.stringify(tree.labels);
}

async function readSchema() {
  schema = await getJson("/schema");
  predict.show(schema, tree.importance.map((entry) => entry.feature), () => exampleRow(tree, schema));
}

function show(found) {
  tree = found;
  byId("empty").hidden = Boolean(tree.root);
  if (!tree.root) return;
  const names = tree.labels.slice(0, 12).map((value) =>
    make("li", {}, make("span", { class: `dot class-${tree.place(value)}` }), label(value)),
  );
  byId("classes").replaceChildren(...names);
  view.show(tree);
  icicle.show(tree);
  search.again();
  if (view.selected !== null) panel.show(tree, view.selected);
  if (answer && !view.drawn.has(answer.leaf) && tree.get(answer.leaf)) light(answer);
}

/** Show how many are drawn, and whether there is anything to reset. */
function changed() {
  const all = tree.shape.nodes;
  const drawn = view.drawn.size;
  byId("shown").textContent = drawn < all ? `${whole(drawn)} of ${whole(all)} nodes, the busiest` : `${whole(all)} nodes`;
  byId("reset").hidden = !view.choice.any && view.lit.size === 0;
}

function select(id) {
  view.selected = view.active = id;
  mark({});
  if (tree) panel.show(tree, id);
}

/** Select a node from elsewhere: open the way to it as well. */
function choose(id) {
  view.reveal(id);
  select(id);
}

/** Light up the way of an answer; null: none. */
function light(found) {
  answer = found;
  const ids = answer ? [...answer.path.map((step) => step.node), answer.leaf] : [];
  mark({ lit: new Set(ids) });
  if (answer && tree?.get(answer.leaf)) view.reveal(answer.leaf);
  else if (tree) changed();
}

function mark({ lit = view.lit, hits = view.hits }) {
  view.lit = lit;
  view.hits = hits;
  view.mark();
  icicle.mark({ lit, hits, selected: view.selected });
}

function hover(id, event) {
  const tip = byId("tip");
  const node = id === null ? null : tree?.get(id);
  tip.hidden = !node;
  if (!node) return;
  const what = node.children.length ? `split on ${node.feature}` : `leaf ${label(node.prediction)} ${percent(node.answer)}`;
  tip.replaceChildren(
    make("b", {}, `#${node.id} ${what}`),
    make("span", {}, node.branch ? test(node.branch) : "the root"),
    make("span", { class: "muted" }, `${share(node.share)} of traffic`),
  );
  const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - wide - 8)}px`;
  tip.style.top = `${event.clientY + 18 + high > innerHeight ? event.clientY - high - 10 : event.clientY + 18}px`;
}

function tell(stats) {
  const texts = {
    "tile-window-accuracy": percent(stats.window_accuracy),
    "tile-accuracy": stats.accuracy == null ? "" : `${percent(stats.accuracy)} overall`,
    "tile-events": whole(stats.events),
    "tile-rate": whole(stats.events_per_second),
    "tile-nodes": whole(stats.nodes),
    "tile-shape": `${whole(stats.leaves)} leaves, depth ${stats.depth}`,
    "tile-splits": whole(stats.splits),
    "tile-attempts": `of ${short(stats.attempts)} attempts`,
    "tile-lag": stats.lag == null ? "–" : whole(stats.lag),
    "tile-memory": bytes(stats.memory_bytes),
    snapshot: stats.snapshot ?? "",
  };
  for (const [id, text] of Object.entries(texts)) byId(id).textContent = text;
  const notice = byId("notice");
  notice.hidden = stats.ready;
  if (!stats.ready) notice.textContent = `Not ready: ${stats.state}.`;
  byId("empty").textContent = stats.ready ? "Waiting for the tree." : `Waiting: ${stats.state}.`;
}

function onStats(stats) {
  tell(stats);
  charts.push(stats);
  splits.tell(stats.changes);
  refresh(stats);
}

function onState(state) {
  const words = { live: "live", polling: "live, asking once a second", offline: "no connection, trying again" };
  const place = byId("connection");
  place.className = `connection ${state}`;
  if (place.textContent !== words[state]) place.textContent = words[state];
}

function listen() {
  const on = (id, act) => byId(id).addEventListener("click", act);
  on("zoom-in", () => view.zoomBy(ZOOM));
  on("zoom-out", () => view.zoomBy(1 / ZOOM));
  on("zoom-fit", () => view.fit());
  on("reset", () => {
    view.choice.clear();
    light(null);
    view.moved = false;
    view.show(tree);
  });
  on("key-button", async () => {
    await askForKey("The new key takes the place of the old one.");
    location.reload();
  });
  byId("key-button").hidden = !hasKey();
  byId("budget").addEventListener("change", ({ target }) => {
    view.budget = Number(target.value);
    view.moved = false;
    if (tree) view.show(tree);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      search.clear();
      light(null);
    }
    if (event.key !== "/" || event.target.closest("input, select, textarea, dialog")) return;
    event.preventDefault();
    byId("search").focus();
  });
}

async function begin() {
  listen();
  try {
    const stats = await getJson("/stats?history=true");
    charts.start(stats.history);
    onStats(stats);
    await splits.start();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    onState("offline");
  } finally {
    nameModel();
    follow(onStats, onState);
  }
}

/** Say which model it is; before there is one, try again. */
async function nameModel() {
  try {
    const model = await getJson("/model");
    byId("model-name").textContent = model.name;
    byId("variant").textContent = model.variant;
    byId("model-name").hidden = byId("variant").hidden = false;
    const name = `last ${whole(model.window.events)}`;
    byId("window-name").textContent = name;
    charts.nameWindow(name);
    document.title = `${model.name} – livetree`;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    setTimeout(nameModel, 2000);
  }
}

begin();
