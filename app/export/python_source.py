"""A tree as a Python file without imports: a table of nodes, and a function that walks it."""

from __future__ import annotations

from app.export.document import ExportedTree, Node, branches_by_value

WALK = '''


def predict(record):
    """Return the label of a record: a mapping from names of features to values, None = missing."""
    place = 0
    while True:
        kind, feature, test, first, second, other, label = NODES[place]
        value = record.get(feature)
        if kind == "leaf":
            return label
        if kind == "number":
            try:
                value = float("nan") if value is None else float(value)
            except OverflowError:
                value = float("nan")
            if value - value != 0.0:
                place = other
            else:
                place = first if value <= test else second
        elif kind == "token":
            if isinstance(value, dict):
                held = bool(value.get(test))
            else:
                held = value is not None and test in value
            place = second if held else first
        else:
            place = test.get(value, other)
        if place is None:
            return label
'''


def python_source(tree: ExportedTree) -> str:
    """Return the file; ``predict(record)`` in it answers as the tree does."""
    places = {node: place for place, node in enumerate(tree.nodes)}
    lines = [
        repr(f"The tree {tree.snapshot} of livetree: predict(record) is its answer."),
        "",
        "# kind, feature, threshold | token | places by value, first, second, other, label",
        "NODES = [",
        *(f"    {_entry(node, places)}," for node in tree.nodes.values()),
        "]",
    ]
    return "\n".join(lines) + WALK


def _entry(node: Node, places: dict[int, int]) -> str:
    other = None if node.missing is None else places[node.missing]
    if not node.children:
        return repr(("leaf", None, None, None, None, None, node.label))
    if node.kind in ("numeric", "contains"):
        number = node.kind == "numeric"
        kind, test = ("number", node.threshold) if number else ("token", node.values[0])
        first, second = (places[child] for child in node.children)
        return repr((kind, node.feature, test, first, second, other, node.label))
    by_value = {value: places[child] for value, child in branches_by_value(node).items()}
    return repr(("value", node.feature, by_value, None, None, other, node.label))
