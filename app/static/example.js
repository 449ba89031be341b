// A row that goes where many events go: the tests on the way to a leaf, turned into values.

/** Return texts for the form by feature, or null while there is no tree. */
export function exampleRow(tree, schema, chance = Math.random) {
  const leaf = drawn(tree, chance);
  if (!leaf) return null;
  const kinds = new Map(schema.features.map((feature) => [feature.name, feature]));
  const ranges = thresholds(tree);
  const row = {};
  for (const feature of schema.features) {
    if (feature.kind === "numeric" && ranges.has(feature.name)) {
      row[feature.name] = within(-Infinity, Infinity, chance, ranges.get(feature.name));
    } else if (feature.kind === "nominal" && feature.values?.length) {
      row[feature.name] = JSON.stringify(feature.values[Math.floor(chance() * feature.values.length)]);
    }
  }
  const bounds = new Map();
  for (const node of tree.path(leaf.id).slice(1)) follow(node, bounds, row, kinds);
  for (const [name, { low, high }] of bounds) row[name] = within(low, high, chance, ranges.get(name));
  return row;
}

/** A leaf, the likelier the more traffic it has. */
function drawn(tree, chance) {
  let node = tree?.root;
  while (node?.children.length) {
    const total = node.children.reduce((sum, child) => sum + child.weight, 0);
    let left = chance() * total;
    node = node.children.find((child) => (left -= child.weight) <= 0) ?? node.children[0];
  }
  return node ?? null;
}

/** Make the row fit the branch that leads to a node. */
function follow(node, bounds, row, kinds) {
  const { parent } = node;
  const place = parent.children.indexOf(node);
  const name = parent.feature;
  if (parent.kind === "numeric") {
    const bound = bounds.get(name) ?? { low: -Infinity, high: Infinity };
    if (place === 0) bound.high = Math.min(bound.high, parent.threshold);
    else bound.low = Math.max(bound.low, parent.threshold);
    bounds.set(name, bound);
  } else if (parent.kind === "multiway") {
    if (place < parent.values.length) row[name] = JSON.stringify(parent.values[place]);
    else delete row[name];
  } else if (parent.kind === "contains") {
    if (place === 0) row[name] = [row[name], parent.values[0]].filter(Boolean).join(", ");
  } else {
    const inside = place === 0;
    const all = kinds.get(name)?.values ?? [];
    const fitting = inside ? parent.values : all.filter((value) => !parent.values.includes(value));
    if (fitting.length) row[name] = JSON.stringify(fitting[0]);
    else delete row[name];
  }
}

/** The lowest and highest threshold of every numeric feature. */
function thresholds(tree) {
  const found = new Map();
  for (const { kind, feature, threshold } of tree.nodes.values()) {
    if (kind !== "numeric" || threshold === null) continue;
    const range = found.get(feature) ?? { low: threshold, high: threshold };
    found.set(feature, { low: Math.min(range.low, threshold), high: Math.max(range.high, threshold) });
  }
  return found;
}

function within(low, high, chance, range) {
  const spread = range.high - range.low || Math.abs(range.high) || 1;
  const from = Number.isFinite(low) ? low : Math.min(high, range.low) - 0.2 * spread;
  const to = Number.isFinite(high) ? high : Math.max(low, range.high) + 0.2 * spread;
  const value = from + (0.2 + 0.6 * chance()) * (to - from);
  const rounded = [3, 4, 6, 9].map((digits) => Number(value.toPrecision(digits)));
  return String(rounded.find((short) => short > from && short <= to) ?? value);
}
