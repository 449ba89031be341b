"""A schema registry over HTTP, as far as a reader of Avro needs one.

It speaks the Confluent REST API, which Karapace, Redpanda and Apicurio speak too. A schema of an
id never changes, so each is fetched once. While the registry cannot be reached, or answers as no
registry does, `RegistryUnreachable` says when to ask again; only a registry's own word that it
has no such schema counts as that.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from app.errors import (
    RegistryRefused,
    RegistryUnreachable,
    SettingsError,
    UnusableSchema,
)
from app.secret import hide
from app.settings import RegistrySettings

ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
MOST_BYTES = 16_000_000  # of one answer
MOST_REFERENCES = 1000  # of one schema, with those of its references
NO_SUCH = (40401, 40402, 40403)  # subject, version, schema
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0


class Reference(msgspec.Struct):
    """Another schema that one is written with."""

    subject: str
    version: int


class RegisteredSchema(msgspec.Struct):
    """A schema as the registry hands it out."""

    schema: str
    schema_type: str = msgspec.field(default="AVRO", name="schemaType")
    references: list[Reference] | None = None


class Fetched(NamedTuple):
    """The text of a schema, and of all that it refers to."""

    text: str
    referenced: list[str]


class Registry:
    """Asks one registry; remembers only how long it has been away."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._url = (settings.url or "").rstrip("/")
        self._timeout_seconds = settings.timeout_seconds
        self._authorization = _authorization(settings)
        self._pause_seconds = FIRST_PAUSE_SECONDS
        try:
            context = ssl.create_default_context(cafile=settings.ca_file)
        except (OSError, ssl.SSLError) as exc:
            raise SettingsError(
                [
                    f"event.registry.ca_file (LIVETREE_EVENT__REGISTRY__CA_FILE) is "
                    f"'{settings.ca_file}'; expected a readable file of certificates "
                    f"({exc.strerror or exc})"
                ]
            ) from exc
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def fetch(self, schema_id: int) -> Fetched:
        """Return a schema; raises UnusableSchema, RegistryUnreachable or RegistryRefused."""
        found = self._ask(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
        texts: dict[tuple[str, int], str] = {}
        left = list(found.references or ())
        for reference in left:  # grows while it is read: references may have their own
            subject, version = place = (reference.subject, reference.version)
            if place in texts:
                continue
            if len(texts) == MOST_REFERENCES:
                raise UnusableSchema(
                    f"schema {schema_id} refers to more than {MOST_REFERENCES} others"
                )
            # A schema that was deleted since still describes the records written with it.
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            named = f"version {version} of '{subject}', which schema {schema_id} refers to,"
            answer = self._ask(path, named)
            texts[place] = answer.schema
            left += answer.references or ()
        return Fetched(found.schema, list(texts.values()))

    def _ask(self, path: str, named: str) -> RegisteredSchema:
        """Return the schema at a path."""
        body = self._get(path, named)
        try:
            found = msgspec.json.decode(body, type=RegisteredSchema)
        except (ValueError, RecursionError) as exc:
            raise self._away(f"answers {body[:60]!r} to {path}; expected a schema") from exc
        self._pause_seconds = FIRST_PAUSE_SECONDS
        if found.schema_type.upper() != "AVRO":
            raise UnusableSchema(f"{named} is of type {found.schema_type}; expected AVRO")
        return found

    def _get(self, path: str, named: str) -> bytes:
        request = urllib.request.Request(self._url + path, headers={"Accept": ACCEPTED})
        if self._authorization is not None:
            # Not sent along when the registry points elsewhere.
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as answer:
                body: bytes = answer.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as exc:
            with exc:
                raise self._meaning(exc, path, named) from exc
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise self._away(str(getattr(exc, "reason", None) or exc or type(exc))) from exc
        if len(body) > MOST_BYTES:
            raise self._away(f"answers more than {MOST_BYTES:,} bytes to {path}")
        return body

    def _meaning(
        self, exc: urllib.error.HTTPError, path: str, named: str
    ) -> UnusableSchema | RegistryRefused | RegistryUnreachable:
        """Return what a status other than 200 means."""
        code, words = _error_of(exc)
        if exc.code in (401, 403):
            return RegistryRefused(
                f"schema registry {self._url} answers {exc.code} ({words}); expected to be let "
                "in: check LIVETREE_EVENT__REGISTRY__USERNAME and __PASSWORD, or __TOKEN"
            )
        if exc.code == 404 and code in NO_SUCH:
            self._pause_seconds = FIRST_PAUSE_SECONDS
            return UnusableSchema(f"{named} is not in the schema registry {self._url}")
        # A wrong address or a gateway without its server says 404 too: no reason to give up events.
        return self._away(f"answers {exc.code} ({words}) to {path}")

    def _away(self, why: str) -> RegistryUnreachable:
        pause = self._pause_seconds
        self._pause_seconds = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return RegistryUnreachable(f"schema registry {self._url}: {why}", pause)


def _authorization(settings: RegistrySettings) -> str | None:
    if settings.token is not None:
        token = settings.token.get_secret_value()
        hide(token)
        return f"Bearer {token}"
    if settings.username is None or settings.password is None:
        return None
    password = settings.password.get_secret_value()
    encoded = base64.b64encode(f"{settings.username}:{password}".encode()).decode()
    hide(password, encoded)
    return f"Basic {encoded}"


def _error_of(exc: urllib.error.HTTPError) -> tuple[int | None, str]:
    """Return the registry's own code and words; None and the status line's where it has none."""
    try:
        found: Any = msgspec.json.decode(exc.read(10_000))
        return int(found["error_code"]), str(found.get("message", exc.reason))[:200]
    except (OSError, http.client.HTTPException, ValueError, TypeError, LookupError, RecursionError):
        return None, str(exc.reason)
