"""What /snapshots and /tree/diff answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from app.tree_diff import KINDS, SHOWN

_WHOLE = {"type": "integer"}
_SCORE = {"anyOf": [{"type": "number"}, {"type": "null"}]}
_NODES = {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}
_COUNTS = ("events", "nodes_before", "nodes_after", "added", "removed", "changed", *KINDS)

_ROW = {
    "id": {"type": "string"},
    "events": {"type": "integer", "description": "Events learned."},
    "published_at": {"type": "number", "description": "Seconds since 1970."},
    "time": {"type": "string", "format": "date-time", "description": "The same in RFC 3339."},
    "offsets": {
        "type": "object",
        "description": "For each partition the offset that was to be learned next.",
        "additionalProperties": _WHOLE,
    },
    "nodes": _WHOLE,
    "leaves": _WHOLE,
    "depth": _WHOLE,
    "accuracy": _SCORE,
    "window_accuracy": _SCORE,
}

SNAPSHOTS: dict[str, Any] = {
    "title": "Snapshots",
    "type": "object",
    "required": ["current", "held_bytes", "snapshots"],
    "properties": {
        "current": {"type": "string", "description": "The id of the snapshot that answers."},
        "held_bytes": {"type": "integer", "description": "Memory of those held to look back at."},
        "snapshots": {
            "type": "array",
            "description": "The newest first.",
            "items": {"type": "object", "required": list(_ROW), "properties": _ROW},
        },
    },
    "examples": [
        {
            "current": "vfdt-12000",
            "held_bytes": 1184,
            "snapshots": [
                {
                    "id": "vfdt-12000",
                    "events": 12000,
                    "published_at": 1767225600.0,
                    "time": "2026-01-01T00:00:00.000Z",
                    "offsets": {"livetree-events-0": 12005},
                    "nodes": 3,
                    "leaves": 2,
                    "depth": 1,
                    "accuracy": 0.871,
                    "window_accuracy": 0.912,
                }
            ],
        }
    ],
}

_FACTS = {
    "type": "object",
    "description": "The node as /tree shows it, without its place and its classes.",
    "required": list(SHOWN),
}

DIFFERENCE: dict[str, Any] = {
    "title": "Difference",
    "type": "object",
    "required": ["from", "to", "added", "removed", "changed", "summary"],
    "properties": {
        "from": {"type": "string", "description": "The id of the earlier snapshot."},
        "to": {"type": "string", "description": "The id of the later one."},
        "added": _NODES,
        "removed": _NODES,
        "changed": {
            "type": "array",
            "description": "Nodes of both that are not the same.",
            "items": {
                "type": "object",
                "required": ["id", "branch", "changes", "before", "after"],
                "properties": {
                    "id": _WHOLE,
                    "branch": {"type": "string"},
                    "changes": {"type": "array", "items": {"enum": list(KINDS)}},
                    "before": _FACTS,
                    "after": _FACTS,
                },
            },
        },
        "summary": {
            "type": "object",
            "description": "How many of each.",
            "required": list(_COUNTS),
            "properties": dict.fromkeys(_COUNTS, _WHOLE),
        },
    },
}
