"""What every route that reads the model needs: the snapshot that answers, and its headers."""

from __future__ import annotations

import time
from dataclasses import replace
from urllib.parse import quote

from app import errors
from app.api.problems import Refused
from app.moment import find
from app.serving import Published
from app.wiring import Service
from learner import reopened

SNAPSHOT_HEADER = "livetree-snapshot"
AGE_HEADER = "livetree-snapshot-age-seconds"
OFFSETS_HEADER = "livetree-snapshot-offsets"
LONGEST_OFFSETS = 1000  # what proxies let pass beside all else; `GET /model` has them in any case
AGE_HEADER_BYTES = AGE_HEADER.encode()


def current(service: Service) -> Published:
    """Return what is served now; raise NotReady (503) before the first publication."""
    published = service.serving.current()
    if published is None:
        raise errors.NotReady("no snapshot has been published yet; try again in a moment")
    return published


def chosen(service: Service, at: str | None, name: str = "at") -> Published:
    """Return the snapshot that a query means, by default the current one.

    Raises UnknownSnapshot (404), and Refused (422) for what cannot be understood.
    """
    published = current(service)
    if at is None:
        return published
    try:
        found = find(at, service.serving.held())
    except ValueError as exc:
        detail = f"query parameter '{name}' is '{at:.80}'; expected {exc}"
        raise Refused(422, detail, field=name) from exc
    if found.snapshot is published.snapshot:
        return published
    # What readers derive from an old snapshot must not pile up behind those that are held.
    return replace(found, snapshot=reopened(found.snapshot), kept={})


def age_seconds(published: Published) -> float:
    """Return how old the served snapshot is; never negative, even when the clock is set back."""
    return max(time.time() - published.published_at, 0.0)


def raw_snapshot_headers(published: Published) -> list[tuple[bytes, bytes]]:
    """Return the same headers as snapshot_headers, as ASGI has them; all but the age are kept."""
    kept = published.kept.get(AGE_HEADER)
    if kept is None:
        named = snapshot_headers(published)
        kept = published.kept[AGE_HEADER] = [
            (name.encode(), value.encode()) for name, value in named.items() if name != AGE_HEADER
        ]
    return [*kept, (AGE_HEADER_BYTES, b"%.3f" % age_seconds(published))]


def snapshot_headers(published: Published) -> dict[str, str]:
    """Return the headers that tell a client which snapshot answered, of what, and how old it is."""
    headers = {
        # With the moment of publication: another start may reach the same count of events.
        "etag": f'"{published.snapshot.id}-{int(published.published_at * 1000):x}"',
        SNAPSHOT_HEADER: published.snapshot.id,
        AGE_HEADER: f"{age_seconds(published):.3f}",
        # A client may keep an answer if it asks whether it still holds; a shared cache may not.
        "cache-control": "private, no-cache",
    }
    offsets = ",".join(f"{quote(name)}={offset}" for name, offset in published.offsets.items())
    if 0 < len(offsets) <= LONGEST_OFFSETS:
        headers[OFFSETS_HEADER] = offsets
    return headers
