"""What GET /stats and GET /live tell, for the description of the API."""

from __future__ import annotations

from typing import Any

EXAMPLE = {
    "time": 1767225600.0,
    "snapshot": "vfdt-12000",
    "events": 12000,
    "events_per_second": 2000.0,
    "accuracy": 0.871,
    "window_accuracy": 0.912,
    "kappa": 0.702,
    "window_kappa": 0.801,
    "nodes": 3,
    "leaves": 2,
    "depth": 1,
    "lag": 0,
    "attempts": 55,
    "splits": 1,
    "delay_mean": 96.0,
    "memory_bytes": 4064,
    "ready": True,
    "state": "ready",
    "changes": [],
}

_SCORE = {"anyOf": [{"type": "number"}, {"type": "null"}]}
STATS: dict[str, Any] = {
    "type": "object",
    "title": "Stats",
    "examples": [EXAMPLE],
    "properties": {
        "time": {"type": "number", "description": "Seconds since 1970."},
        "snapshot": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "events": {"type": "integer", "description": "Events learned."},
        "events_per_second": {"type": "number", "description": "Over the last seconds."},
        "accuracy": _SCORE,
        "window_accuracy": _SCORE,
        "kappa": _SCORE,
        "window_kappa": _SCORE,
        "nodes": {"type": "integer"},
        "leaves": {"type": "integer"},
        "depth": {"type": "integer"},
        "lag": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "attempts": {"type": "integer", "description": "Split attempts."},
        "splits": {"type": "integer", "description": "Leaves that were split."},
        "delay_mean": {**_SCORE, "description": "Of the splits by bound since the start."},
        "memory_bytes": {"type": "integer"},
        "ready": {"type": "boolean", "description": "As /readyz has it."},
        "state": {"type": "string", "description": "Why it is not ready."},
        "changes": {
            "type": "array",
            "description": "What the tree did in the last seconds, as /splits tells it.",
            "items": {"$ref": "#/components/schemas/Change"},
        },
    },
}
