"""`livetree tree`: the tree of a running service, or of a checkpoint on disk."""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from learner import Snapshot

WATCH_SECONDS = 2.0
TIMEOUT_SECONDS = 10.0
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class TreeFormat(StrEnum):
    """How a tree is printed."""

    text = "text"
    json = "json"
    dot = "dot"


def tree(
    url: Annotated[str, typer.Option(help="Where the service runs.")] = "http://127.0.0.1:8000",
    depth: Annotated[
        int | None, typer.Option(min=0, help="How many levels to show.", show_default="all")
    ] = None,
    node: Annotated[
        int | None, typer.Option(min=0, help="Id of the node to start at.", show_default="root")
    ] = None,
    format: Annotated[
        TreeFormat, typer.Option(help="text: a drawing; json: flat nodes; dot: Graphviz.")
    ] = TreeFormat.text,
    details: Annotated[
        bool, typer.Option("--details", help="Say of each node when and why it was split (text).")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Draw again every 2 seconds until Ctrl-C.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Read the newest checkpoint in this folder instead; no service is needed.",
            show_default=False,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="LIVETREE_API_KEY",
            help="A key of the service; the variable is safer: others see options in `ps`.",
            show_default=False,
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            help="Authorities (PEM) that the service's certificate must lead to.",
            show_default="the system's",
        ),
    ] = None,
    certificate_file: Annotated[
        Path | None,
        typer.Option(help="Our certificate, where the service asks for one.", show_default=False),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="The private key of our certificate.", show_default=False),
    ] = None,
) -> None:
    """Print the tree of a running service, or of a checkpoint.

    [bold]Examples[/bold]

    livetree tree --depth 3 --watch

    livetree tree --format dot | dot -Tsvg -o tree.svg

    livetree tree --checkpoint checkpoints --node 12 --details

    LIVETREE_API_KEY=... livetree tree --url https://livetree.example --ca-file ca.pem
    """
    trust = trust_of(ca_file, certificate_file, key_file)

    def draw() -> str:
        if checkpoint is not None:
            return from_checkpoint(checkpoint, format, node, depth, details)
        return from_service(url, format, node, depth, details, api_key, trust)

    if not watch:
        typer.echo(draw(), nl=False)
        return
    try:
        while True:
            drawing = draw()
            typer.echo(f"{CLEAR}{drawing}", nl=False)
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


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


def from_service(
    url: str,
    form: TreeFormat,
    node: int | None,
    depth: int | None,
    details: bool = False,
    api_key: str | None = None,
    trust: ssl.SSLContext | None = None,
) -> str:
    """Return the tree as the service renders it; its problems become our errors."""
    from app.errors import SourceError

    asked = {"format": form.value, "node": node, "depth": depth}
    asked |= {"details": "true"} if details else {}
    query = urllib.parse.urlencode({k: v for k, v in asked.items() if v is not None})
    address = f"{url.rstrip('/')}/tree?{query}"
    if not address.startswith(("http://", "https://")):
        raise typer.BadParameter(f"'{url}' is not an http address", param_hint="--url")
    request = urllib.request.Request(address)
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
    return found if found.endswith("\n") else found + "\n"


def _detail(exc: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(exc.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return str(exc.reason)


def from_checkpoint(
    folder: Path, form: TreeFormat, node: int | None, depth: int | None, details: bool = False
) -> str:
    """Return the tree of the newest readable checkpoint in a folder."""
    from app.render import tree_document, tree_dot, tree_text

    snapshot = read_snapshot(folder)
    if form is TreeFormat.text:
        return tree_text(snapshot, node, depth, details=details)
    if form is TreeFormat.dot:
        return tree_dot(snapshot, node, depth)
    return json.dumps(tree_document(snapshot, node, depth), indent=2) + "\n"


def read_snapshot(folder: Path) -> Snapshot:
    """Return the model of the newest readable checkpoint; the folder is not locked by this."""
    from app.checkpoint import CheckpointFolder
    from app.errors import CheckpointUnreadable
    from app.log import configure
    from learner import StreamingTree

    configure("warning", "console", sys.stderr)
    found = CheckpointFolder(folder).restore(lambda kept: StreamingTree.from_bytes(kept.model))
    if found is None:
        raise CheckpointUnreadable(f"folder '{folder}' holds no checkpoint; expected one")
    return found.snapshot()
