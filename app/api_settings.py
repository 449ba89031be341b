"""The API: where it listens, who may use it, and over which connections.

Files of keys and certificates are looked at when the service starts, not when settings are read:
`livetree produce` may share the settings, and has no use for them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from app.group import Group

SHORTEST_KEY = 16
LONGEST_KEY = 512


def _listed(value: object) -> object:
    """Read a JSON list, or texts with commas between, that came as one environment variable."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("["):
        return [part.strip() for part in value.split(",")]
    try:
        return json.loads(value)
    except ValueError as exc:
        raise ValueError("a JSON list, or keys with commas between") from exc


def key_problem(keys: Sequence[str]) -> str | None:
    """Return what is wrong with a list of keys, in words that show none of them; None: nothing."""
    for place, key in enumerate(keys, 1):
        if not key:
            return f"keys that are not empty; key {place} of {len(keys)} is"
        if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
            return (
                f"keys of {SHORTEST_KEY} to {LONGEST_KEY} characters; "
                f"key {place} of {len(keys)} has {len(key)}"
            )
        if not (key.isascii() and key.isprintable()) or " " in key or "," in key:
            return (
                "keys of ASCII letters, digits and signs without blanks or commas; "
                f"key {place} of {len(keys)} has others"
            )
        if key in keys[: place - 1]:
            first = keys.index(key) + 1
            return f"every key once; keys {first} and {place} of {len(keys)} are the same"
    return None


class HttpSettings(Group):
    """The API."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address to listen on."""
    port: int = Field(default=8000, ge=0, le=65_535)
    """Port to listen on; 0: any free one."""
    workers: int = Field(default=1, ge=1, le=64)
    """Processes that answer on this port, in the role `api`; they share one snapshot."""
    body_limit_bytes: int = Field(default=10_000_000, ge=1_000)
    """Longest request body."""
    max_rows: int = Field(default=10_000, ge=1)
    """Most events in one request."""
    max_listeners: int = Field(default=100, ge=0)
    """Most streams of GET /live at the same time; a page that gets none asks once a second."""
    shutdown_seconds: float = Field(default=20, gt=0, le=3600)
    """Longest wait for requests and the final checkpoint when the process is told to stop."""
    stalled_after_seconds: float = Field(default=300, ge=10)
    """The process counts as dead when the consumer made no step for so long."""


class AuthSettings(Group):
    """Who may use the API; without a key, everybody who can reach it."""

    keys: Annotated[list[SecretStr], BeforeValidator(_listed)] = Field(default=[])
    """Keys that open the API, never shown; each of 16 characters or more, with commas between."""
    keys_file: Path | None = None
    """File with further keys, one a line; read again when it changes. Lines with # say nothing."""
    open_metrics: bool = True
    """Answer /metrics without a key too."""
    open_docs: bool = False
    """Answer /docs and /openapi.json without a key too."""

    @field_validator("keys")
    @classmethod
    def _good_keys(cls, keys: list[SecretStr]) -> list[SecretStr]:
        problem = key_problem([key.get_secret_value() for key in keys])
        if problem is not None:
            raise ValueError(problem)
        return keys

    @property
    def enabled(self) -> bool:
        """Whether a key is asked for."""
        return bool(self.keys) or self.keys_file is not None


class TlsSettings(Group):
    """Encrypted connections to the API; without a certificate it speaks plain HTTP."""

    certificate_file: Path | None = None
    """The server's certificate (PEM), followed by those that lead to its authority."""
    key_file: Path | None = None
    """Its private key (PEM); none: in the certificate's file."""
    key_password: SecretStr | None = None
    """Password of the private key, where it has one."""
    client_ca_file: Path | None = None
    """Authorities (PEM) of clients; with it, only clients with their certificates get through."""

    @model_validator(mode="after")
    def _certificate_first(self) -> Self:
        needing = [
            name
            for name in ("key_file", "key_password", "client_ca_file")
            if getattr(self, name) is not None
        ]
        if needing and self.certificate_file is None:
            raise ValueError(f"tls.certificate_file beside tls.{needing[0]}")
        return self

    @property
    def enabled(self) -> bool:
        """Whether the API speaks HTTPS."""
        return self.certificate_file is not None
