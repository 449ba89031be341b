"""How commands ask a running service: its address, our key and certificates, its problems."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

TIMEOUT_SECONDS = 10.0

Url = Annotated[str, typer.Option(help="Where the service runs.")]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="LIVETREE_API_KEY",
        help="A key of the service; the variable is safer: others see options in `ps`.",
        show_default=False,
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        help="Authorities (PEM) that the service's certificate must lead to.",
        show_default="the system's",
    ),
]
CertificateFile = Annotated[
    Path | None,
    typer.Option(help="Our certificate, where the service asks for one.", show_default=False),
]
KeyFile = Annotated[
    Path | None, typer.Option(help="The private key of our certificate.", show_default=False)
]
At = Annotated[
    str | None,
    typer.Option(
        help="An earlier snapshot: its id, events:N, an offset (topic-0:123) or a time.",
        show_default="the current one",
    ),
]
HERE = "http://127.0.0.1:8000"


def trust_of(
    ca_file: Path | None, certificate_file: Path | None, key_file: Path | None
) -> ssl.SSLContext:
    """Return whom to trust, and how we show who we are; a wrong file is a wrong option."""
    try:
        trust = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except OSError as exc:  # an SSLError is one
        message = f"'{ca_file}': expected certificates in PEM ({exc.strerror or exc})"
        raise typer.BadParameter(message, param_hint="--ca-file") from exc
    if certificate_file is None:
        return trust
    try:
        trust.load_cert_chain(certificate_file, key_file)
    except OSError as exc:
        message = (
            f"'{certificate_file}': expected a certificate and its key ({exc.strerror or exc})"
        )
        raise typer.BadParameter(message, param_hint="--certificate-file") from exc
    return trust


def ask(
    url: str,
    path: str,
    query: Mapping[str, object],
    api_key: str | None = None,
    trust: ssl.SSLContext | None = None,
    body: Mapping[str, Any] | None = None,
) -> str:
    """Return what the service answers, to a GET or with a body to a POST; its problems are ours."""
    from app.errors import SourceError

    named = urllib.parse.urlencode({k: v for k, v in query.items() if v is not None})
    address = f"{url.rstrip('/')}{path}" + (f"?{named}" if named else "")
    if not address.startswith(("http://", "https://")):
        raise typer.BadParameter(f"'{url}' is not an http address", param_hint="--url")
    request = urllib.request.Request(address)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if api_key:
        # Not for the address that an answer may send us on to.
        request.add_unredirected_header("Authorization", f"Bearer {api_key}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=trust) as answer:
            found: str = answer.read().decode()
    except urllib.error.HTTPError as exc:
        raise SourceError(f"{address} answered {exc.code}: {_detail(exc)}") from exc
    except (urllib.error.URLError, OSError) as exc:
        reason = getattr(exc, "reason", exc)
        raise SourceError(f"no service answers at {url}: {reason}; is it running?") from exc
    return found


def _detail(exc: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(exc.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return str(exc.reason)
