"""The document behind all exports: the tree with its schema and every node's answer, versioned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from app.errors import NotExportable
from app.render import node_document
from learner import Snapshot, Value

FORMAT, VERSION = "livetree", 1


class Node(NamedTuple):
    """One node as the writers of formats need it."""

    id: int
    kind: str
    feature: str
    threshold: float
    values: tuple[Value, ...]
    children: tuple[int, ...]
    missing: int | None  # child of missing and unseen values; None: they end here
    label: Value  # of rows that end here
    probabilities: tuple[float, ...]


class Feature(NamedTuple):
    """A feature and the values that are known of it."""

    name: str
    kind: str
    values: tuple[Value, ...]


class ExportedTree(NamedTuple):
    """A tree that is whole in itself; every row that ends anywhere gets the label there."""

    snapshot: str
    features: dict[str, Feature]
    classes: tuple[Value, ...]
    root: int
    nodes: dict[int, Node]

    @property
    def tested(self) -> list[Feature]:
        """The features that a test looks at, in schema order."""
        used = {node.feature for node in self.nodes.values() if node.children}
        return [feature for feature in self.features.values() if feature.name in used]

    def tokens_of(self, feature: str) -> list[Value]:
        """The tokens of a set that a test looks at, in the order of the nodes."""
        found = (n.values[0] for n in self.nodes.values() if n.children and n.feature == feature)
        return list(dict.fromkeys(found))


def export_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return the tree as one JSON-ready object, from which every format is written."""
    decisions = snapshot.explanation.decisions()
    nodes = []
    for view in snapshot.walk():
        decision = decisions[view.id]
        nodes.append(
            {
                **node_document(view),
                "missing": decision.missing,
                "label": decision.label,
                "probabilities": list(decision.probabilities),
                "answers_by": "bayes" if decision.by_bayes else "votes",
            }
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "snapshot": snapshot.id,
        "variant": snapshot.variant,
        "events": snapshot.events,
        "shape": snapshot.shape._asdict(),
        "schema": snapshot.schema.to_dict() | {"classes": list(snapshot.classes)},
        "root": nodes[0]["id"],
        "nodes": nodes,
    }


def read_document(found: Any) -> dict[str, Any]:
    """Return a document that was read; raises NotExportable for anything else."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise NotExportable(f"the service answered {json.dumps(found):.80}; expected a tree")
    if found.get("version") != VERSION:
        raise NotExportable(
            f"the tree is of format version {found.get('version')!r}; expected {VERSION}: "
            "use the command of the service's own version"
        )
    return found


def tree_of(document: Mapping[str, Any], by_votes: bool = False) -> ExportedTree:
    """Return the tree of a document; raises NotExportable where a leaf's answer has no form.

    With ``by_votes`` leaves that answer by naive Bayes answer by their votes instead.
    """
    schema, listed = document["schema"], document["nodes"]
    if not schema["classes"]:
        raise NotExportable("the model has seen no class yet; expected at least one event")
    bayes = sum(node["answers_by"] == "bayes" for node in listed)
    if bayes and not by_votes:
        leaves = document["shape"]["leaves"]
        raise NotExportable(
            f"{bayes:,} of {leaves:,} leaves answer by naive Bayes, which depends on all values of "
            "a record; only JSON tells so. --by-votes lets them answer by their votes, and some "
            "labels differ; leaf_predictor=mc grows trees without it"
        )
    return ExportedTree(
        snapshot=document["snapshot"],
        features={
            each["name"]: Feature(each["name"], each["kind"], tuple(each.get("values", ())))
            for each in schema["features"]
        },
        classes=tuple(schema["classes"]),
        root=document["root"],
        nodes={each["id"]: _node(each) for each in listed},
    )


def _node(entry: Mapping[str, Any]) -> Node:
    threshold = entry["threshold"]
    return Node(
        id=entry["id"],
        kind=entry["kind"],
        feature=entry["feature"] or "",
        threshold=0.0 if threshold is None else float(threshold),
        values=tuple(entry["values"]),
        children=tuple(entry["children"]),
        missing=entry["missing"],
        label=entry["label"],
        probabilities=tuple(entry["probabilities"]),
    )


def branches_by_value(node: Node) -> dict[Value, int]:
    """Return where the named values of a nominal test lead; all others go the way of missing."""
    if node.kind == "multiway":
        return dict(zip(node.values, node.children, strict=False))
    return dict.fromkeys(node.values, node.children[0])


def text_of(label: object) -> str:
    """Return a label as text: text as it is, everything else as JSON has it."""
    return label if isinstance(label, str) else json.dumps(label)
