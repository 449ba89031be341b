"""From files and variables to Settings, with every problem found on the way."""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

import learner
from app.errors import SettingsError
from app.secret import MASK, shown

if TYPE_CHECKING:
    from app.settings import KafkaSettings, SchemaSettings, Settings

PREFIX = "LIVETREE_"
CONFIG_FILE = "LIVETREE_CONFIG_FILE"
CLIENT_KEY = "LIVETREE_API_KEY"  # the key that `livetree tree` shows to a service; no setting

# Kubernetes adds these for a Service whose name begins with "livetree"; they are no settings.
SERVICE_LINK = re.compile(r"LIVETREE_(\w+_)?(SERVICE_(HOST|PORT)\w*|PORT(_\d+_\w+)?)")


def load_settings(
    model: type[Settings],
    config_file: Path | None,
    environ: Mapping[str, str] | None,
    overrides: Mapping[str, Any],
) -> Settings:
    """Merge the sources, the later over the earlier, and validate; raises SettingsError."""
    problems: list[str] = []
    variables: Mapping[str, str | None] = (
        {**_read_dotenv(problems), **os.environ} if environ is None else environ
    )
    named = config_file or variables.get(CONFIG_FILE) or None
    data = _read_mapping(Path(named), "config file", problems) if named else {}
    _merge(data, _from_variables(variables))
    _merge(data, _given(overrides))
    settings = _validated(model, data, problems)
    problems += _contradictions(settings)
    if problems:
        raise SettingsError(problems)
    return settings


def declared_schema(schema: SchemaSettings) -> learner.Schema | None:
    """Return the schema that the settings declare, or None; raises SettingsError, SchemaError."""
    if schema.features is not None:
        features = [feature.model_dump() for feature in schema.features]
        return learner.Schema.from_dict({"features": features, "classes": schema.classes})
    if schema.file is None:
        return None
    problems: list[str] = []
    found = _read_mapping(schema.file, "schema.file (LIVETREE_SCHEMA__FILE)", problems)
    if problems:
        raise SettingsError(problems)
    return learner.Schema.from_dict({**found, "classes": found.get("classes") or schema.classes})


def variable_of(path: tuple[str, ...]) -> str:
    """Return the environment variable of a setting: ("kafka", "topic") -> LIVETREE_KAFKA__TOPIC."""
    return PREFIX + "__".join(path).upper()


def _read_mapping(path: Path, what: str, problems: list[str]) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        problems.append(f"{what} is '{path}'; expected a readable file ({exc.strerror})")
        return {}
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        problems.append(f"{what} is '{path}'; expected YAML or JSON ({_yaml_words(exc)})")
        return {}
    if found is None:
        return {}
    if not isinstance(found, dict):
        kind = "a list" if isinstance(found, list) else "a single value"
        problems.append(f"{what} is '{path}'; expected keys and values in it, not {kind}")
        return {}
    return found


def _yaml_words(exc: Exception) -> str:
    """Say what is wrong and where, without the line itself: it may hold a secret."""
    problem, mark = getattr(exc, "problem", None), getattr(exc, "problem_mark", None)
    if problem is None or mark is None:
        return "not UTF-8" if isinstance(exc, UnicodeDecodeError) else "unreadable characters"
    words = re.sub(r"'(?!<)[^']{2,}'", "'...'", problem)
    return f"{words} in line {mark.line + 1}, column {mark.column + 1}"


def _read_dotenv(problems: list[str]) -> dict[str, str | None]:
    try:
        return dotenv_values(".env")
    except OSError as exc:
        problems.append(f"file '.env' is there; expected a readable one ({exc.strerror})")
    except UnicodeDecodeError:
        problems.append("file '.env' is not UTF-8; expected NAME=value in each line")
    return {}


def _from_variables(variables: Mapping[str, str | None]) -> dict[str, Any]:
    """Nest LIVETREE_KAFKA__TOPIC=t as {"kafka": {"topic": "t"}}."""
    data: dict[str, Any] = {}
    for name, value in variables.items():
        linked = "__" not in name and SERVICE_LINK.fullmatch(name)
        if not name.startswith(PREFIX) or name in (CONFIG_FILE, CLIENT_KEY) or linked or not value:
            continue
        *groups, key = name.removeprefix(PREFIX).lower().split("__")
        place = data
        for group in groups:
            if not isinstance(place.get(group), dict):
                place[group] = {}
            place = place[group]
        place[key] = value
    return data


def _given(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what a command line left out (None), at every level."""
    return {
        "schema" if key == "schema_" else key: _given(value)
        if isinstance(value, Mapping)
        else value
        for key, value in overrides.items()
        if value is not None
    }


def _merge(data: dict[str, Any], later: Mapping[str, Any]) -> None:
    for key, value in later.items():
        if isinstance(value, Mapping) and isinstance(data.get(key), dict):
            _merge(data[key], value)
        else:
            data[key] = value


def _validated(model: type[Settings], data: dict[str, Any], problems: list[str]) -> Settings:
    """Validate; a faulty setting is noted and left out, so that the others are checked too."""
    while True:
        try:
            return model(**data)
        except ValidationError as exc:
            for error in exc.errors():
                problems.append(_line(model, error))
                _drop(data, error["loc"])


def _drop(data: dict[str, Any], place: tuple[int | str, ...]) -> None:
    """Remove the value at the error's place, or the nearest thing above it that exists."""
    parents: list[tuple[dict[str, Any], str]] = []
    here: Any = data
    for part in place:
        if not isinstance(here, dict) or part not in here:
            break
        parents.append((here, str(part)))
        here = here[part]
    if parents:
        holder, key = parents[-1]
        holder.pop(key, None)
    else:
        data.clear()


def _line(model: type[Settings], error: ErrorDetails) -> str:
    """Return one problem as a line: the setting, its variable, its value, the expectation."""
    path = tuple(str(part) for part in error["loc"])
    name = f"{'.'.join(path)} ({variable_of(path)})"
    value = error.get("input")
    if error["type"] == "extra_forbidden":
        return f"{name} is not a setting{_suggestion(model, path)}"
    if error["type"] == "missing":
        return f"{name} is missing; expected a value"
    message = error["msg"].removeprefix("Value error, ")
    expected = message.removeprefix("Input should be ").removeprefix("String should ")
    if expected.startswith(("greater", "less")):
        expected = f"a value {expected}"
    if error["type"] == "string_pattern_mismatch":
        expected = "letters, digits, '_', '.' and '-' only"
    expected = expected.removeprefix("have ")
    given = _shown(model, path, value)
    return f"{name} is {given}; expected {expected[:1].lower()}{expected[1:]}"


def _shown(model: type[BaseModel], path: tuple[str, ...], value: object) -> str:
    """Return a faulty value for people; masked where it is a secret, or may hold one."""
    named = path[-2] if path[-1].isdigit() and len(path) > 1 else path[-1]
    groups = {known[:depth] for known in setting_paths(model) for depth in range(1, len(known))}
    free_text = isinstance(value, str | list) and (path in groups or path == ("kafka", "extra"))
    return _short(MASK if free_text else shown(named, value))


def _suggestion(model: type[BaseModel], path: tuple[str, ...]) -> str:
    known = {"__".join(known): variable_of(known) for known in setting_paths(model)}
    close = difflib.get_close_matches("__".join(path), sorted(known), 1, 0.7)
    return f"; did you mean {known[close[0]]}?" if close else ""


def setting_paths(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every setting of a model: ("kafka", "topic")."""
    for name, field in model.model_fields.items():
        path = (*above, field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from setting_paths(field.annotation, path)
        else:
            yield path


def _contradictions(settings: Settings) -> list[str]:
    """Return what is wrong between settings that are right one by one."""
    problems: list[str] = []
    if settings.source == "file" and settings.file.path is None:
        problems.append("file.path (LIVETREE_FILE__PATH) is missing; expected the path of a file")
    schema: learner.Schema | None = None
    try:
        schema = declared_schema(settings.schema_)
    except SettingsError as exc:
        problems += exc.problems
    except learner.SchemaError as exc:
        problems.append(f"schema (LIVETREE_SCHEMA__FEATURES or __FILE): {exc}")
    if schema is not None and settings.event.features_field is None:
        problems += [
            f"schema lists the feature '{feature.name}', which is also a field of the event's own "
            "(LIVETREE_EVENT__...); expected different names"
            for feature in schema.features
            if feature.name in settings.event.reserved
        ]
    return [
        *problems,
        *_format_problems(settings),
        *_layout_problems(settings, schema),
        *_kafka_problems(settings),
        *_tree_problems(settings),
        *_role_problems(settings),
        *_worker_problems(settings),
    ]


def _role_problems(settings: Settings) -> list[str]:
    """Name what does not go with the role."""
    problems, role = [], settings.role
    if settings.http.workers > 1 and role != "api":
        problems.append(
            f"http.workers (LIVETREE_HTTP__WORKERS) is {settings.http.workers}; expected 1 in the "
            f"role '{role}' (LIVETREE_ROLE): one process learns, several may answer in the role api"
        )
    if role == "api" and settings.snapshots.transport == "both":
        problems.append(
            "snapshots.transport (LIVETREE_SNAPSHOTS__TRANSPORT) is 'both'; expected topic or "
            "folder in the role 'api', which follows one of them"
        )
    return problems


def _worker_problems(settings: Settings) -> list[str]:
    """Name what does not go with workers."""
    spread = settings.execution != "local"
    if settings.variant != "vht":
        named = f"execution (LIVETREE_EXECUTION) is '{settings.execution}'"
        expected = f"local with the variant '{settings.variant}', since only vht has workers"
        return [f"{named}; expected {expected}"] if spread else []
    if not spread and settings.vht.mode == "sync":
        return []
    if settings.execution == "ray" and importlib.util.find_spec("ray") is None:
        named = "execution (LIVETREE_EXECUTION) is 'ray'"
        return [f"{named}, which needs an extra; install it: pip install 'livetree[ray]'"]
    if settings.vht.ray.join and not settings.vht.ray.address:
        named = "vht.ray.join (LIVETREE_VHT__RAY__JOIN) is true and vht.ray.address is empty"
        return [f"{named}; expected the address of the cluster to join"]
    if settings.vht.ray.ingest:
        named = "vht.ray.ingest (LIVETREE_VHT__RAY__INGEST) is true"
        lacks = _ingest_lacks(settings)
        if lacks:
            return [f"{named}; expected {it}" for it in lacks]
    try:
        params = learner.VARIANTS["vht"].params_from(settings.tree.given())
    except learner.ParamsError:
        return []  # told already
    return [f"tree (LIVETREE_TREE__...): {problem}" for problem in learner.unfit(params)]


def _ingest_lacks(settings: Settings) -> list[str]:
    """Name what an actor that reads the topic needs."""
    vht, lacks = settings.vht, []
    if settings.execution != "ray":
        lacks.append(f"execution ray, not {settings.execution}")
    if settings.event.format != "binary":
        lacks.append("event.format binary: the reader and the learner know the same beforehand")
    if vht.mode == "wk" and vht.keep_events:
        lacks.append("vht.keep_events 0 in mode wk: the learner has no columns to keep")
    return lacks


def _format_problems(settings: Settings) -> list[str]:
    """Name what Avro needs and does not have."""
    if settings.event.format != "avro":
        return []
    problems = []
    named = "event.format (LIVETREE_EVENT__FORMAT) is 'avro'"
    if importlib.util.find_spec("fastavro") is None:
        problems.append(f"{named}, which needs an extra; install it: pip install 'livetree[avro]'")
    if settings.event.registry.url is None:
        path = ("event", "registry", "url")
        problems.append(
            f"{'.'.join(path)} ({variable_of(path)}) is missing; expected the address of the "
            "schema registry with the format avro"
        )
    if settings.source == "file":
        problems.append(f"{named}; expected json with the source file, which has one event a line")
    registry, where = settings.event.registry, "event.registry (LIVETREE_EVENT__REGISTRY__...)"
    if (registry.username is None) != (registry.password is None):
        problems.append(f"{where} has one of username and password; expected both or neither")
    if registry.username is not None and registry.token is not None:
        problems.append(f"{where} has a username and a token; expected one way to get in")
    return problems


def _layout_problems(settings: Settings, schema: learner.Schema | None) -> list[str]:
    """Name what stands against rows of fixed width."""
    if settings.event.format != "binary":
        return []
    lacks = []
    if settings.source == "file":
        lacks.append("json with the source file, which has one event a line")
    if settings.schema_.growing:
        lacks.append("schema.growing to be false: rows have no place for more")
    lacks += [
        f"no event.{field}, which rows do not have"
        for field in ("features_field", "id_field")
        if getattr(settings.event, field) is not None
    ]
    if schema is None:
        lacks.append("a declared schema (schema.features or schema.file)")
    else:
        lacks += [] if schema.classes else ["all classes in schema.classes"]
    for feature in schema.features if schema is not None else ():
        values, most = len(feature.values), settings.schema_.max_values
        if feature.kind == learner.Kind.SPARSE:
            lacks.append(f"no sparse_binary feature, which '{feature.name}' is")
        if feature.kind == learner.Kind.NOMINAL and not 0 < values <= most:
            lacks.append(f"1 to {most} values of the feature '{feature.name}', all that there are")
    return [f"event.format (LIVETREE_EVENT__FORMAT) is 'binary'; expected {it}" for it in lacks]


def _kafka_problems(settings: Settings) -> list[str]:
    if settings.source != "kafka":
        return []
    return _kafka_file_problems(settings.kafka) or _sasl_problems(settings.kafka)


def _kafka_file_problems(kafka: KafkaSettings) -> list[str]:
    """Name files that are not there; the client library would not say which one it missed."""
    problems = []
    for name in ("password_file", "ssl_ca_file", "ssl_certificate_file", "ssl_key_file"):
        path = getattr(kafka, name)
        try:
            if path is not None and not path.is_dir():  # authorities may come as a folder
                path.open("rb").close()
        except OSError as exc:
            problems.append(
                f"kafka.{name} ({variable_of(('kafka', name))}) is '{path}'; expected a readable "
                f"file ({exc.strerror})"
            )
    return problems


def _sasl_problems(kafka: KafkaSettings) -> list[str]:
    """Name what is missing; the client library would speak of Kerberos instead."""
    given = {name.replace("mechanisms", "mechanism"): value for name, value in kafka.extra.items()}
    if not given.get("security.protocol", kafka.security_protocol).upper().startswith("SASL"):
        return []
    mechanism = given.get("sasl.mechanism") or kafka.sasl_mechanism
    if mechanism == "OAUTHBEARER":
        if "sasl.oauthbearer.method" in given or "enable.sasl.oauthbearer.unsecure.jwt" in given:
            return []
        return [
            "kafka.extra (LIVETREE_KAFKA__EXTRA) has no 'sasl.oauthbearer.method'; expected it, "
            "and where tokens come from, with the sasl_mechanism OAUTHBEARER"
        ]
    found = {
        "sasl_mechanism": mechanism,
        "username": given.get("sasl.username") or kafka.username,
        "password": given.get("sasl.password") or _password(kafka),
    }
    if mechanism is not None and mechanism != "PLAIN" and not mechanism.startswith("SCRAM"):
        return []  # something of the client library's own, such as GSSAPI
    return [
        f"kafka.{name} ({variable_of(('kafka', name))}) is missing; expected it with the "
        f"security_protocol {kafka.security_protocol}"
        for name, value in found.items()
        if not value
    ]


def _password(kafka: KafkaSettings) -> str | None:
    try:
        return kafka.current_password()
    except (OSError, UnicodeDecodeError):
        return None


def _tree_problems(settings: Settings) -> list[str]:
    if settings.variant not in learner.VARIANTS:
        known = ", ".join(learner.VARIANTS)
        return [f"variant (LIVETREE_VARIANT) is {settings.variant!r}; expected one of {known}"]
    try:
        learner.VARIANTS[settings.variant].params_from(settings.tree.given())
    except learner.ParamsError as exc:
        return [f"tree (LIVETREE_TREE__...): {line}" for line in exc.problems]
    return []


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
