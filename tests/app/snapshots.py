"""Published snapshots of small trees, and their messages."""

from __future__ import annotations

import json
import random
from typing import Any

from app.serving import Published
from app.snapshot_message import About, about, message_pieces
from learner import Encoder, Schema, StreamingTree, Value
from tests.app.conftest import FEATURES, events

ROWS = [{"age": float(age), "car": f"c{age % 4}"} for age in range(18, 90, 3)]


def grown_tree(leaves: str = "mc") -> StreamingTree:
    """Return a tree of the tests' events that knows nothing yet."""
    schema = Schema.from_dict({"features": FEATURES, "classes": []})
    return StreamingTree(Encoder(schema), n_min=50.0, leaf_predictor=leaves)


def teach(tree: StreamingTree, count: int, seed: int = 1) -> None:
    """Learn so many events."""
    found = [json.loads(value) for value in events(count, seed)]
    labels = tree.encoder.encode_labels([event.pop("label") for event in found])
    tree.learn(tree.encoder.encode_records(found), labels)


def published(count: int = 600, leaves: str = "mc", seed: int = 1, **more: Any) -> Published:
    """Return a snapshot after so many events."""
    tree = grown_tree(leaves)
    teach(tree, count, seed)
    given = {"published_at": 1_700_000_000.0, "offsets": {"events-0": count}, "accuracy": 0.9}
    return Published(tree.snapshot(), **{**given, **more})


def message(of: Published, model: str = "livetree", **more: Any) -> memoryview:
    """Return a message, in memory of its own."""
    header = about(of, model, f"{random.getrandbits(64):016x}")
    changed = About(**{name: getattr(header, name) for name in header.__struct_fields__} | more)
    return memoryview(bytearray(b"".join(message_pieces(of, changed))))


def answers(of: Published) -> list[Value | None]:
    """Return the labels of the same rows, whoever is asked."""
    snapshot = of.snapshot
    codes = snapshot.predict(snapshot.encode_records(ROWS))
    return [snapshot.classes[code] for code in codes]
