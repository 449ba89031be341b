"""The words and schemas of the OpenAPI document that FastAPI cannot read off the code.

/predict, /explain, /tree, /model and /schema are encoded by msgspec; their schemas are generated
from the same types that encode them, or written here where the answer is a plain mapping.
"""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.answer import ManyAnswer, SingleAnswer
from app.api.explain import ExplainBody, Explained
from app.api.leaves import SCHEMAS as LEAVES
from app.api.live_schema import STATS
from app.api.problems import SCHEMA as PROBLEM
from app.api.problems import is_v2, responses, v2_responses
from app.api.splits import SCHEMAS as SPLITS
from app.api.timeline_schema import DIFFERENCE, SNAPSHOTS
from app.api.v2_infer import InferRequest, InferResponse
from app.moment import ABOUT as AT_ABOUT

ABOUT = """
Events arrive on a Kafka topic; the tree learns from each of them once and never stops. This API
answers from a **snapshot** of the tree: published every second or so, never changed, named by its
id in every answer. Predicting does not change the model.

Errors are `application/problem+json` (RFC 9457): `detail` names the thing, the value and what was
expected; `field` names the culprit where it has a name.

This document is `/openapi.json`. The page `/docs` shows it in a browser.
""".strip()

TAGS = [
    {"name": "page", "description": "The tree as it grows, in a browser."},
    {"name": "predict", "description": "Labels and probabilities, and why."},
    {"name": "tree", "description": "The tree itself."},
    {"name": "model", "description": "What the model is and how far it has come."},
    {"name": "v2", "description": "The Open Inference Protocol, for clients that speak it."},
    {"name": "health", "description": "Probes and metrics."},
]

PREDICT_ABOUT = """
Predict the label of one row (`features`) or of many (`instances`).

A feature that is absent or null is missing, which the tree handles; a name the model does not know
is ignored; a value of a wrong type is refused (422) with the name of the feature. Every answer
names the leaf that answered, as in `/tree`. Probabilities come as a list of label and probability
in the order of the model's classes, so that labels keep their JSON type.
""".strip()

_ROW = {"salary": 52000, "commission": 0, "age": 31, "elevel": "e3", "car": "c7"}
_PREDICTION = {
    "label": "A",
    "leaf": 12,
    "probabilities": [
        {"label": "A", "probability": 0.93},
        {"label": "B", "probability": 0.07},
    ],
}
_STEP = {
    "node": 0,
    "feature": "age",
    "operator": "<=",
    "value": 39.5,
    "observed": 31,
    "branch": 1,
}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


PREDICT_EXTRA: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _ref("PredictBody"),
                "examples": {
                    "one": {"summary": "One row", "value": {"features": _ROW}},
                    "many": {
                        "summary": "Many rows",
                        "value": {"instances": [_ROW, {"age": 25, "car": None}]},
                    },
                },
            }
        },
    },
    "parameters": [
        {
            "name": "probabilities",
            "in": "query",
            "description": "false leaves the probabilities out.",
            "schema": {"type": "boolean", "default": True},
        },
        {
            "name": "path",
            "in": "query",
            "description": "true adds the tests from the root to the leaf.",
            "schema": {"type": "boolean", "default": False},
        },
        {
            "name": "at",
            "in": "query",
            "description": f"Answer from an earlier snapshot. {AT_ABOUT}",
            "schema": {"type": "string"},
        },
    ],
}

PREDICT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The prediction, or one for each row in the order of the rows.",
        "headers": {
            "livetree-snapshot-age-seconds": {
                "description": "How old the snapshot is that answered.",
                "schema": {"type": "string"},
            },
            "livetree-snapshot-offsets": {
                "description": "What it has learned: the next offset of each partition. Left out "
                "where there are too many; `GET /model` has them.",
                "schema": {"type": "string", "examples": ["livetree-events-0=12005"]},
            },
        },
        "content": {
            "application/json": {
                "schema": {"anyOf": [_ref("SingleAnswer"), _ref("ManyAnswer")]},
                "examples": {
                    "one": {"value": {**_PREDICTION, "snapshot": "vfdt-12000"}},
                    "path": {
                        "summary": "With ?path=true",
                        "value": {**_PREDICTION, "path": [_STEP], "snapshot": "vfdt-12000"},
                    },
                    "many": {"value": {"predictions": [_PREDICTION], "snapshot": "vfdt-12000"}},
                },
            }
        },
    },
    **responses(400, 404, 413, 415, 421, 422, 503),
}

_IMPORTANCE = {"feature": "age", "importance": 1.0}

MODEL_EXAMPLE = {
    "name": "livetree",
    "variant": "vfdt",
    "params": {"n_min": 200.0, "delta": 1e-7, "tau": 0.05, "leaf_predictor": "mc"},
    "events": 12000,
    "counters": {"split_attempts": 55, "splits_bound": 1, "splits_tie": 0, "no_split": 54},
    "shape": {"nodes": 3, "leaves": 2, "active_leaves": 2, "depth": 1},
    "importance": [_IMPORTANCE],
    "memory_bytes": 4064,
    "accuracy": 0.871,
    "kappa": 0.702,
    "window": {"events": 1000, "accuracy": 0.912, "kappa": 0.801},
    "offsets": {"livetree-events-0": 12005},
    "snapshot": {"id": "vfdt-12000", "published_at": 1767225600.0, "age_seconds": 0.4},
}

SCHEMA_EXAMPLE = {
    "features": [
        {"name": "age", "kind": "numeric"},
        {"name": "car", "kind": "nominal", "values": ["c7", "c1"]},
    ],
    "classes": ["A", "B"],
}

_NODE = {
    "id": 0,
    "parent": None,
    "depth": 0,
    "branch": "",
    "kind": "numeric",
    "feature": "age",
    "test": "age <= 39.5",
    "threshold": 39.5,
    "values": [],
    "children": [1, 2],
    "prediction": "B",
    "distribution": [{"label": "A", "weight": 4200.0}, {"label": "B", "weight": 7800.0}],
    "weight": 12000.0,
    "share": 1.0,
    "n": 1400.0,
    "active": True,
    "created_at": 0,
    "age_events": 12000,
    "split": {
        "reason": "bound",
        "merit": 0.214,
        "second_merit": 0.083,
        "bound": 0.0759,
        "n": 1400.0,
        "event": 1400,
        "second": "salary <= 51200",
    },
}

TREE_EXAMPLE = {
    "snapshot": "vfdt-12000",
    "variant": "vfdt",
    "events": 12000,
    "shape": {"nodes": 3, "leaves": 2, "active_leaves": 2, "depth": 1},
    "root": 0,
    "importance": [_IMPORTANCE],
    "nodes": [_NODE],
}

_LABEL = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}
_NUMBERS = {"type": "object", "additionalProperties": {"type": "number"}}
_SCORE = {"anyOf": [{"type": "number"}, {"type": "null"}]}
_IMPORTANCES = {
    "type": "array",
    "description": "Features that the tree tests, the most important first; shares sum to 1.",
    "items": {
        "type": "object",
        "properties": {"feature": {"type": "string"}, "importance": {"type": "number"}},
    },
}

SCHEMAS: dict[str, Any] = {
    "Problem": PROBLEM,
    "Snapshots": SNAPSHOTS,
    "Difference": DIFFERENCE,
    "PredictBody": {
        "title": "PredictBody",
        "description": "Features of one row, or instances of many. What a feature may be is in "
        "/schema.",
        "type": "object",
        "properties": {
            "features": {"type": "object"},
            "instances": {"type": "array", "minItems": 1, "items": {"type": "object"}},
        },
        "oneOf": [{"required": ["features"]}, {"required": ["instances"]}],
    },
    "Tree": {
        "type": "object",
        "title": "Tree",
        "examples": [TREE_EXAMPLE],
        "description": "Nodes in pre-order; a node whose children are not listed was cut by depth.",
        "properties": {
            "snapshot": {"type": "string"},
            "variant": {"type": "string"},
            "events": {"type": "integer"},
            "shape": _NUMBERS,
            "root": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "importance": _IMPORTANCES,
            "nodes": {"type": "array", "items": _ref("Node")},
        },
    },
    "Node": {
        "type": "object",
        "title": "Node",
        "properties": {
            "id": {"type": "integer", "description": "Stays the same while the tree grows."},
            "parent": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "depth": {"type": "integer"},
            "branch": {"type": "string", "description": "The test that leads here."},
            "kind": {"enum": ["leaf", "numeric", "multiway", "equals", "subset", "contains"]},
            "feature": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "test": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "threshold": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "values": {"type": "array", "items": _LABEL},
            "children": {"type": "array", "items": {"type": "integer"}},
            "prediction": _LABEL,
            "distribution": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"label": _LABEL, "weight": {"type": "number"}},
                },
            },
            "weight": {"type": "number", "description": "Weight of the events that came here."},
            "share": {"type": "number", "description": "That weight as a share of all."},
            "n": {"type": "number", "description": "Weight learned by this node itself."},
            "active": {"type": "boolean", "description": "Whether it still gathers statistics."},
            "created_at": {"type": "integer", "description": "Events learned when it was made."},
            "age_events": {"type": "integer", "description": "Events since."},
            "split": {"anyOf": [_ref("SplitFacts"), {"type": "null"}]},
        },
    },
    "SplitFacts": {
        "type": "object",
        "title": "SplitFacts",
        "description": "Why a node has its test, as things were when it was installed.",
        "properties": {
            "reason": {"enum": ["bound", "tie"]},
            "merit": {"type": "number", "description": "Gain of the test."},
            "second_merit": {**_SCORE, "description": "Gain of the runner-up; null: none."},
            "bound": {"type": "number", "description": "The lead that was asked for."},
            "n": {"type": "number", "description": "Weight that the node had observed."},
            "event": {"type": "integer", "description": "Events learned by the tree."},
            "second": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "description": "Test of the runner-up; null: not to split.",
            },
        },
    },
    **SPLITS,
    **LEAVES,
    "Model": {
        "type": "object",
        "title": "Model",
        "examples": [MODEL_EXAMPLE],
        "properties": {
            "name": {"type": "string"},
            "variant": {"type": "string"},
            "params": {
                "type": "object",
                "description": "The parameters in force: what was set, else the variant's own.",
            },
            "events": {"type": "integer", "description": "Events learned."},
            "counters": _NUMBERS,
            "shape": _NUMBERS,
            "importance": _IMPORTANCES,
            "memory_bytes": {"type": "integer"},
            "accuracy": _SCORE,
            "kappa": _SCORE,
            "window": {"type": "object", "description": "The scores over the last events."},
            "offsets": {
                "type": "object",
                "description": "For each partition the offset that is learned next.",
                "additionalProperties": {"type": "integer"},
            },
            "snapshot": {"type": "object", "description": "Id, publication time, age."},
        },
    },
    "Stats": STATS,
    "Schema": {
        "type": "object",
        "title": "Schema",
        "examples": [SCHEMA_EXAMPLE],
        "properties": {
            "features": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "kind"],
                    "properties": {
                        "name": {"type": "string"},
                        "kind": {"enum": ["numeric", "nominal", "sparse_binary"]},
                        "values": {"type": "array", "items": _LABEL},
                    },
                },
            },
            "classes": {"type": "array", "items": _LABEL},
        },
    },
}


WHOLE = (
    "Tree",
    "Node",
    "SplitFacts",
    "Splits",
    "Change",
    "LeafProspect",
    "Model",
    "Stats",
    "Schema",
)  # answers that always have all of their fields

KEYS = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def install(app: FastAPI, open_paths: frozenset[str] | None = None) -> None:
    """Make the app's OpenAPI document carry the schemas that its routes refer to.

    With ``open_paths`` a key is asked for on all other paths, and the document says so.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
            if open_paths is not None:
                _ask_for_keys(app.openapi_schema, open_paths)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        license_info=app.license_info,
    )
    _, written = msgspec.json.schema_components(
        [SingleAnswer, ManyAnswer, ExplainBody, Explained, InferRequest, InferResponse],
        ref_template="#/components/schemas/{name}",
    )
    components = found.setdefault("components", {}).setdefault("schemas", {})
    components.update(written)
    components.update(SCHEMAS)
    for name in WHOLE:
        components[name] = {**SCHEMAS[name], "required": list(SCHEMAS[name]["properties"])}
    return found


def _ask_for_keys(document: dict[str, Any], open_paths: frozenset[str]) -> None:
    document["components"]["securitySchemes"] = KEYS
    document["security"] = [{name: []} for name in KEYS]  # one of them is enough
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in open_paths:
                operation["security"] = []
            else:
                refused = v2_responses(401) if is_v2(path) else responses(401)
                found = {str(status): answer for status, answer in refused.items()}
                operation["responses"] |= found
