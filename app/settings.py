"""Every setting, in one frozen model; the only reader of the environment.

Sources, the later wins: a YAML file, `.env`, the environment, arguments. A setting `kafka.topic`
is the key `topic` under `kafka` in YAML and `LIVETREE_KAFKA__TOPIC` in the environment; lists and
objects are JSON there, and an empty variable counts as not set. `Settings.load` reports every
problem at once. The groups are in order of the record's walk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

import learner
from app.api_settings import AuthSettings, HttpSettings, TlsSettings
from app.group import Group
from app.publish_settings import PublishSettings, TimelineSettings
from app.secret import MASK, hide, names_secret
from app.settings_file import declared_schema, load_settings
from app.snapshot_settings import SnapshotSettings
from app.tree_settings import HistorySettings, TreeSettings
from app.vht_settings import VhtSettings


def _from_json(value: object) -> object:
    """Read lists and objects that came as one environment variable."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as exc:
        raise ValueError(f"a JSON list or object ({exc})") from exc


Value = StrictStr | StrictInt | StrictFloat | StrictBool
Values = Annotated[list[Value], BeforeValidator(_from_json)]
Texts = Annotated[dict[str, str], BeforeValidator(_from_json)]


class FeatureSettings(Group):
    """One declared feature."""

    name: str = Field(min_length=1)
    """Name of the feature in the events."""
    kind: Literal["numeric", "nominal", "sparse_binary"]
    """How the feature is observed."""
    values: Values = Field(default=[])
    """Nominal values or tokens known in advance; more may appear."""


class SchemaSettings(Group):
    """What an event looks like; inferred from the first events when nothing is declared."""

    file: Path | None = None
    """YAML or JSON file with `features` and `classes`."""
    features: Annotated[list[FeatureSettings], BeforeValidator(_from_json)] | None = None
    """The features, instead of a file."""
    classes: Values = Field(default=[])
    """Class labels known in advance; more may appear."""
    infer_from: int = Field(default=500, ge=1, le=1_000_000)
    """Without a declared schema: how many good events it is inferred from."""
    growing: bool = False
    """Take up features that appear later."""
    max_features: int = Field(default=1_000, ge=1, le=1_000_000)
    """Most features that are inferred or taken up; further ones are ignored."""
    max_values: int = Field(default=10_000, ge=1, le=10_000_000)
    """Most values of a nominal feature, and tokens of a sparse one; further ones are unknown."""
    max_classes: int = Field(default=1_000, ge=2, le=100_000)
    """Most class labels; events with further ones are rejected."""

    @model_validator(mode="after")
    def _one_declaration(self) -> Self:
        if self.file is not None and self.features is not None:
            raise ValueError("either schema.file or schema.features, not both")
        return self


class RegistrySettings(Group):
    """The schema registry that events in Avro are read with."""

    url: str | None = None
    """Its address, as in `https://registry:8081`; required with the format `avro`."""
    username: str | None = None
    """User, where it asks for a password."""
    password: SecretStr | None = None
    """Password of the user."""
    token: SecretStr | None = None
    """Bearer token, instead of a user and a password."""
    ca_file: Path | None = None
    """Certificates that the registry's own must lead to; none: the system's."""
    timeout_seconds: float = Field(default=10, gt=0, le=60)
    """Longest wait for one answer; then it is asked again, with growing pauses, without end."""

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str | None) -> str | None:
        if url is not None and not re.fullmatch(r"https?://[^/@?#\s]+[^@?#\s]*", url):
            raise ValueError(
                "an address as in https://registry:8081, with neither a user nor a query in it"
            )
        return url


class EventSettings(Group):
    """Where an event carries what; an event is one JSON object, or an Avro record."""

    format: Literal["json", "avro", "binary"] = "json"
    """How events are written: JSON, Avro after its schema's id in a registry, or binary rows."""
    registry: RegistrySettings = RegistrySettings()
    """The schema registry that events in Avro are read with."""
    label_field: str = Field(default="label", min_length=1)
    """Field with the class label: a text, a number or a truth value."""
    weight_field: str | None = None
    """Field with the event's weight, a number above zero; none: every event weighs 1."""
    id_field: str | None = None
    """Field with the event's id: never learned, shown where the event is rejected."""
    time_field: str | None = None
    """Field with the event's time: seconds, milliseconds or RFC 3339; none: the broker's."""
    features_field: str | None = None
    """Field that holds the features as an object; none: they are fields of the event itself."""
    max_bytes: int = Field(default=1_000_000, ge=16, le=1_000_000_000)
    """Longest record that is read; longer ones are rejected."""

    @property
    def reserved(self) -> tuple[str, ...]:
        """Fields that are no features."""
        named = (self.label_field, self.weight_field, self.id_field, self.time_field)
        return tuple(field for field in named if field is not None)

    @model_validator(mode="after")
    def _distinct_fields(self) -> Self:
        named = [*self.reserved, *([self.features_field] if self.features_field else [])]
        twice = sorted({field for field in named if named.count(field) > 1})
        if twice:
            raise ValueError(
                f"a field of its own for each of label, weight, ...; not {twice} twice"
            )
        return self


# Properties that decide which records are learned; exactly-once training depends on them.
OWN_PROPERTIES = (
    "bootstrap.servers",
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "isolation.level",
    "allow.auto.create.topics",
    "enable.partition.eof",
)


class KafkaSettings(Group):
    """The topic the events come from."""

    bootstrap_servers: str = Field(default="127.0.0.1:9092", min_length=1)
    """Brokers to start from, host:port with commas between."""
    topic: str = Field(
        default="livetree-events", min_length=1, max_length=249, pattern=r"^[\w.-]+$"
    )
    """Topic with the labelled events."""
    group_id: str = Field(default="livetree", min_length=1)
    """Group under which progress is committed, for lag tools only."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where to begin without a checkpoint."""
    offset_reset: Literal["error", "earliest", "latest"] = "error"
    """When the topic lost the next record, was created anew or is another's: stop, or go on."""
    poll_batch: int = Field(default=1000, ge=1, le=1000)
    """Most records learned at once."""
    poll_timeout_seconds: float = Field(default=0.2, gt=0, le=10)
    """Longest wait for the first record of a batch."""
    fetch_wait_ms: int = Field(default=50, ge=1, le=10_000)
    """Longest time the broker may hold back an answer while nothing is new."""
    partition_refresh_seconds: float = Field(default=60, ge=1, le=86_400)
    """How often to look for new partitions, and whether the topic is still the same one."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How the connection is protected."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """How the service proves who it is; OAUTHBEARER takes its properties from `extra`."""
    username: str | None = None
    """SASL user."""
    password: SecretStr | None = None
    """SASL password."""
    password_file: Path | None = None
    """File with the SASL password, instead; read again when the broker refuses the old one."""
    ssl_ca_file: Path | None = None
    """Certificates that the broker's own must lead to; none: the system's."""
    ssl_verify_hostname: bool = True
    """Refuse a broker whose certificate is not for the address it was reached at."""
    ssl_certificate_file: Path | None = None
    """Our own certificate (PEM), for brokers that ask for one."""
    ssl_key_file: Path | None = None
    """The private key of our certificate (PEM)."""
    ssl_key_password: SecretStr | None = None
    """Password of that key, where it has one."""
    extra: Texts = Field(default={}, repr=False)
    """Further librdkafka properties, for example {"client.rack": "a"}; they win over the others."""

    @field_validator("extra")
    @classmethod
    def _leave_ours_alone(cls, extra: dict[str, str]) -> dict[str, str]:
        taken = sorted(set(extra) & set(OWN_PROPERTIES))
        if taken:
            raise ValueError(
                f"properties other than {', '.join(taken)}, which livetree sets itself"
            )
        return extra

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.password is not None and self.password_file is not None:
            raise ValueError("either kafka.password or kafka.password_file, not both")
        return self

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if (self.ssl_certificate_file is None) != (self.ssl_key_file is None):
            raise ValueError("kafka.ssl_certificate_file and kafka.ssl_key_file, both or neither")
        return self

    def current_password(self) -> str | None:
        """Return the SASL password; from its file as it is now, so OSError is possible."""
        if self.password_file is not None:
            return self.password_file.read_text(encoding="utf-8").strip("\r\n")
        return self.password.get_secret_value() if self.password else None

    def client_properties(self) -> dict[str, str | int | float | bool]:
        """Return the librdkafka properties that consumers and producers share.

        Secrets are among them, and hidden from every log line from now on.
        """
        key_password = self.ssl_key_password
        named: dict[str, object] = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.sasl_mechanism,
            "sasl.username": self.username,
            "sasl.password": self.current_password(),
            "ssl.ca.location": self.ssl_ca_file,
            "ssl.certificate.location": self.ssl_certificate_file,
            "ssl.key.location": self.ssl_key_file,
            "ssl.key.password": key_password.get_secret_value() if key_password else None,
            "ssl.endpoint.identification.algorithm": None if self.ssl_verify_hostname else "none",
        }
        properties = {key: str(value) for key, value in named.items() if value} | self.extra
        hide(*(value for name, value in properties.items() if names_secret(name)))
        return dict(properties)


class FileSettings(Group):
    """A growing file of JSON lines, instead of Kafka."""

    path: Path | None = None
    """The file; required when the source is `file`."""
    poll_timeout_seconds: float = Field(default=0.2, gt=0, le=10)
    """How long to wait for new lines at the end of the file."""


class DeadLetterSettings(Group):
    """Where records go that cannot be learned."""

    enabled: bool = True
    """Put them aside; otherwise they are only counted and logged."""
    topic: str = Field(default="", max_length=249, pattern=r"^[\w.-]*$")
    """Their topic; empty: the events' topic with `.dlq`. For a file: its path with `.dlq`."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """Longest wait for their delivery; learning stops when it is not confirmed by then."""


class CheckpointSettings(Group):
    """The file that a restart continues from."""

    enabled: bool = True
    """Write checkpoints; without them every start begins with an empty tree."""
    folder: Path = Path("checkpoints")
    """Folder of the checkpoints; one learner at a time may use it."""
    every_seconds: float = Field(default=30, gt=0, le=86_400)
    """Seconds between two checkpoints while events arrive."""
    every_events: int = Field(default=0, ge=0)
    """Also after so many events, once the one before is written; 0: by time only."""
    keep: int = Field(default=3, ge=1, le=1000)
    """How many of the newest stay."""


class EvaluationSettings(Group):
    """Prequential scores."""

    window: int = Field(default=1000, ge=1, le=1_000_000)
    """Events in the sliding window."""


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )

    name: str = Field(default="livetree", min_length=1, max_length=64, pattern=r"^[\w.-]+$")
    """Name of the model, in the API and in metrics."""
    role: Literal["all", "learner", "api"] = "all"
    """Learn and answer in one process, or only learn, or only answer from a learner's snapshots."""
    variant: str = "vfdt"
    """Which algorithm grows the tree; `livetree variants` lists them."""
    execution: Literal["local", "threads", "ray"] = "local"
    """Who keeps the statistics: this thread, or workers in threads or on Ray (variant `vht`)."""
    source: Literal["kafka", "file"] = "kafka"
    """Where events come from."""
    kafka: KafkaSettings = KafkaSettings()
    """The topic the events come from."""
    file: FileSettings = FileSettings()
    """A growing file of JSON lines, instead of Kafka."""
    event: EventSettings = EventSettings()
    """Where an event carries what."""
    schema_: SchemaSettings = Field(SchemaSettings(), alias="schema")
    """What an event looks like."""
    dead_letter: DeadLetterSettings = DeadLetterSettings()
    """Where records go that cannot be learned."""
    tree: TreeSettings = TreeSettings()
    """Parameters of the tree."""
    vht: VhtSettings = VhtSettings()
    """Workers that keep the statistics of the attributes (variant `vht`)."""
    publish: PublishSettings = PublishSettings()
    """When predictions see what was learned."""
    timeline: TimelineSettings = TimelineSettings()
    """Snapshots that are held to look back at."""
    snapshots: SnapshotSettings = SnapshotSettings()
    """How snapshots travel from the learner to processes of the role `api`."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """The file that a restart continues from."""
    history: HistorySettings = HistorySettings()
    """The record of changes of the tree."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """Prequential scores."""
    http: HttpSettings = HttpSettings()
    """The API."""
    auth: AuthSettings = AuthSettings()
    """Who may use the API."""
    tls: TlsSettings = TlsSettings()
    """Encrypted connections to the API."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """JSON lines, or text for people; auto: text on a terminal."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read nothing behind the caller's back: `load` passes the environment in."""
        return (init_settings,)

    @classmethod
    def load(
        cls,
        config_file: Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        **overrides: Any,
    ) -> Settings:
        """Read all sources; raises SettingsError with every problem.

        Without ``environ`` the process's own environment and `.env` are read. Overrides are
        nested like the model (``kafka={"topic": "t"}``); None in them means not given.
        """
        return load_settings(cls, config_file, environ, overrides)

    def dead_letter_topic(self) -> str:
        """Return the topic of the dead letters."""
        return self.dead_letter.topic or f"{self.kafka.topic}.dlq"

    def shown(self) -> dict[str, Any]:
        """Return what differs from the defaults, by name and with secrets masked, for the log."""
        own, defaults = _flat(self), _flat(Settings(variant=self.variant))
        defaults["variant"] = Settings().variant
        return {
            name: MASK if name.startswith("kafka.extra.") and names_secret(name) else value
            for name, value in own.items()
            if name not in defaults or value != defaults[name]
        }

    def tree_params(self) -> dict[str, Any]:
        """Return all parameters of the tree: what was set, else the variant's own."""
        params = learner.VARIANTS[self.variant].params_from(self.tree.given())
        return {name: getattr(params, name) for name in TreeSettings.model_fields}

    def tree_shaping(self) -> dict[str, Any]:
        """Return what must not change between a checkpoint and the run that continues it."""
        event = self.event.model_dump(
            mode="json", include={"label_field", "weight_field", "features_field"}
        )
        schema = self.schema_.model_dump(
            mode="json", include={"growing", "max_features", "max_values", "max_classes"}
        )
        declared = declared_schema(self.schema_)
        schema["declared"] = declared.to_dict() if declared else None
        tree, vht = self.tree_params(), self.vht.shaping() if self.variant == "vht" else {}
        named = {"variant": self.variant, "tree": tree, "schema": schema, "event": event}
        return named | ({"vht": vht} if vht else {})

    def shaping_before(self, shaping: Mapping[str, Any]) -> dict[str, Any]:
        """Return what held where a checkpoint says nothing: the defaults of its variant."""
        variant = shaping.get("variant", Settings().variant)
        known = variant if str(variant) in learner.VARIANTS else self.variant
        return Settings(variant=known).tree_shaping()


def _flat(settings: Settings) -> dict[str, Any]:
    """Return all settings as plain data: {"kafka.topic": "t", ...}; the tree's as they hold."""
    flat: dict[str, Any] = {}
    plain = settings.model_dump(mode="json", by_alias=True) | {"tree": settings.tree_params()}
    left = list(plain.items())
    for name, value in left:  # grows while it is read: groups are put behind
        if isinstance(value, dict):
            left += [(f"{name}.{key}", inner) for key, inner in value.items()]
        else:
            flat[name] = value
    return flat
