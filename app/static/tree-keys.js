// The keyboard in the tree, as trees of the system have it: arrows, Home, End, Enter.

const ZOOM = 1.3;

export function keys(view, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = ACTIONS[event.key];
  if (!act || !view.tree) return;
  event.preventDefault();
  act(view);
}

const ACTIONS = {
  ArrowDown: (view) => go(view, neighbour(view, 1)),
  ArrowUp: (view) => go(view, neighbour(view, -1)),
  ArrowRight: (view) => {
    const node = view.tree.get(view.active);
    if (!node?.children.length) return;
    if (view.open.has(node.id)) go(view, node.children[0].id);
    else toggle(view);
  },
  ArrowLeft: (view) => {
    const node = view.tree.get(view.active);
    if (node && view.open.has(node.id)) toggle(view);
    else if (node?.parent) go(view, node.parent.id);
  },
  Home: (view) => go(view, order(view)[0]),
  End: (view) => go(view, order(view).at(-1)),
  Enter: (view) => view.heard.select(view.active),
  " ": (view) => view.heard.select(view.active),
  "+": (view) => view.zoomBy(ZOOM),
  "=": (view) => view.zoomBy(ZOOM),
  "-": (view) => view.zoomBy(1 / ZOOM),
  0: (view) => view.fit(),
};

/** The ids of the drawn nodes, as they are read. */
function order(view) {
  return [...view.items.children].map((item) => Number(item.dataset.id));
}

function neighbour(view, step) {
  const ids = order(view);
  const place = ids.indexOf(view.active) + step;
  return ids[Math.min(Math.max(place, 0), ids.length - 1)];
}

function go(view, id) {
  if (id === undefined) return;
  view.active = id;
  view.centre(id);
  view.focus();
}

function toggle(view) {
  view.toggle(view.active);
  view.focus();
}
