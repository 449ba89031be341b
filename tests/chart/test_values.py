"""Values, settings and docs tell the same story, because they come from one model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings
from app.settings_file import setting_paths, variable_of
from docs.chart import EITHER, THE_CHARTS, camel, described_values
from tests.chart.rendering import CHART, objects, only, refused

VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
PATHS = [path for path in setting_paths(Settings) if path not in THE_CHARTS]


def at(schema: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    for name in path:
        schema = schema["properties"].get(camel(name), {}) if "properties" in schema else {}
    return schema or None


def nested(path: tuple[str, ...], value: object) -> dict[str, Any]:
    for name in reversed(path):
        value = {camel(name): value}
    assert isinstance(value, dict)
    return value


def flat(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict) or (path and path[-1] == "extra"):
        return {path: value}
    found: dict[tuple[str, ...], Any] = {}
    for key, inner in value.items():
        found |= flat(inner, (*path, key))
    return found


def test_every_setting_is_a_value_or_a_secret() -> None:
    plain, secret = SCHEMA["properties"]["settings"], SCHEMA["properties"]["secrets"]
    for path in PATHS:
        places = [at(plain, path) is not None, at(secret, path) is not None]
        assert sum(places) == (2 if path in EITHER else 1), path


def test_passwords_tokens_and_keys_are_taken_by_reference_only() -> None:
    secret = {path for path in PATHS if at(SCHEMA["properties"]["settings"], path) is None}

    assert {path[-1] for path in secret} == {"password", "token", "keys", "key_password",
                                             "ssl_key_password"}  # fmt: skip
    assert ("kafka", "password") in secret


def test_every_setting_arrives_under_its_own_name(tmp_path: Path) -> None:
    """Through helm's own change from camelCase, all at once."""
    sent: dict[str, Any] = {}
    for path in PATHS:
        schema = at(SCHEMA["properties"]["settings"], path)
        if schema is not None:
            merge(sent, nested(path, sample(path, schema)))
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({"settings": sent}))

    text = only(objects(values=file), "ConfigMap")["data"]["livetree.json"]

    arrived = flat(json.loads(text))
    assert set(arrived) == {path for path in PATHS if at(SCHEMA["properties"]["settings"], path)}


def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict) and key != "extra":
            merge(into[key], value)
        else:
            into[key] = value


def sample(path: tuple[str, ...], schema: dict[str, Any]) -> Any:
    """Return a value that the schema allows."""
    if path[-1] == "extra":
        return {"client.rack": "a"}
    default = schema.get("default")
    if default is not None:
        return default
    (kind, *_) = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    if "enum" in kind:
        return kind["enum"][0]
    low = kind.get("minimum", kind.get("exclusiveMinimum", 0) + 1)
    fraction = kind.get("minimum", 0.5)
    choices = {"string": "x", "array": [], "boolean": True, "integer": low, "number": fraction}
    if path == ("event", "registry", "url"):
        return "https://registry:8081"
    return choices[kind["type"]]


def test_the_settings_in_the_configmap_are_what_the_service_reads(tmp_path: Path) -> None:
    features = CHART / "ci/alone-values.yaml"
    text = only(objects(values=features), "ConfigMap")["data"]["livetree.json"]
    file = tmp_path / "livetree.json"
    file.write_text(text)

    settings = Settings.load(file, environ={})

    assert settings.name == "live-livetree"
    assert settings.kafka.bootstrap_servers == "kafka:9092"
    assert settings.schema_.features is not None
    assert [feature.name for feature in settings.schema_.features] == ["age", "car"]


def test_large_numbers_stay_whole() -> None:
    found = objects("--set", "settings.tree.maxMemoryBytes=100000000")

    assert '"max_memory_bytes": 100000000' in only(found, "ConfigMap")["data"]["livetree.json"]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("learner.replicas=2", "learner.replicas"),
        ("learner.replicas=0", "learner.replicas"),
        ("settings.kafka.topik=t", "topik"),
        ("settings.kafka.pollBatch=5000", "pollBatch"),
        ("settings.kafka.password=hunter2", "password"),
        ("settings.role=api", "role"),
        ("secrets.kafka.password=hunter2", "password"),
        ("secrets.kafka.topic.name=s", "topic"),
        ("service.port=99999", "port"),
        ("apy.replicas=3", "apy"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("api.autoscaling.minReplicas=0", "minReplicas"),
        ("prometheusRule.runbookUrl=ftp://x", "runbookUrl"),
    ],
)
def test_what_is_wrong_is_refused_by_name(option: str, named: str) -> None:
    assert named in refused("--set", option)


def test_secrets_become_variables_that_only_name_them() -> None:
    found = objects(values=CHART / "ci/everything-values.yaml")
    (container,) = only(found, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    given = {entry["name"]: entry for entry in container["env"]}

    for path, name in {
        ("kafka", "password"): "kafka-login",
        ("auth", "keys"): "livetree-api",
        ("event", "registry", "token"): "registry",
    }.items():
        reference = given[variable_of(path)]["valueFrom"]["secretKeyRef"]
        assert reference["name"] == name
    assert not any(o["kind"] == "Secret" for o in found)


def test_every_value_is_explained_and_checked() -> None:
    explained = {path for path, _, _ in described_values()}
    for path in flat(VALUES):
        above = {path[:depth] for depth in range(1, len(path) + 1)}
        assert above & explained, path
        schema: Any = SCHEMA
        for name in path:
            schema = schema.get("properties", {}).get(name, {} if "properties" in schema else None)
            if not schema or schema == {"type": "object"}:
                break
        assert schema is not None, path
    assert all(words.endswith((".", ")")) for _, _, words in described_values())


def test_the_table_of_values_has_them_all() -> None:
    table = (CHART / "README.md").read_text(encoding="utf-8")
    for path, _, _ in described_values():
        assert f"| `{'.'.join(path)}` |" in table
