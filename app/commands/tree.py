"""`livetree tree`: the tree of a running service, or of a checkpoint on disk."""

from __future__ import annotations

import json
import shutil
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from learner import Snapshot

WATCH_SECONDS = 2.0
TIMEOUT_SECONDS = 10.0
HOME, END_OF_LINE, END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


class TreeFormat(StrEnum):
    """How a tree is printed."""

    text = "text"
    json = "json"
    dot = "dot"
    mermaid = "mermaid"
    svg = "svg"
    html = "html"


def tree(
    url: Annotated[str, typer.Option(help="Where the service runs.")] = "http://127.0.0.1:8000",
    depth: Annotated[
        int | None, typer.Option(min=0, help="How many levels to show.", show_default="all")
    ] = None,
    node: Annotated[
        int | None, typer.Option(min=0, help="Id of the node to start at.", show_default="root")
    ] = None,
    format: Annotated[
        TreeFormat,
        typer.Option(
            help="text: a drawing in letters; json: flat nodes; dot: Graphviz; mermaid: a flowchart"
            " for Markdown; svg: a picture; html: a page with the picture and an outline."
        ),
    ] = TreeFormat.text,
    details: Annotated[
        bool, typer.Option("--details", help="Say of each node when and why it was split (text).")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            help="An earlier snapshot: its id, events:N, an offset (topic-0:123) or a time.",
            show_default="the current one",
        ),
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="FROM TO",
            help="Print what changed between two snapshots, each named as for --at.",
            show_default=False,
        ),
    ] = None,
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

    livetree tree --format html --at 2026-11-18T08:00:00Z > tree.html

    livetree tree --diff vfdt-12000 vfdt-14000

    livetree tree --checkpoint checkpoints --node 12 --details

    LIVETREE_API_KEY=... livetree tree --url https://livetree.example --ca-file ca.pem
    """
    trust = trust_of(ca_file, certificate_file, key_file)
    if checkpoint is not None and (at is not None or diff is not None):
        wrong = "--at" if at is not None else "--diff"
        raise typer.BadParameter("a checkpoint holds one moment only", param_hint=wrong)
    if diff is not None:
        form = "json" if format is TreeFormat.json else "text"
        named = {"from": diff[0], "to": diff[1], "format": form}
        typer.echo(from_service(url, "/tree/diff", named, api_key, trust), nl=False)
        return

    def draw() -> str:
        if checkpoint is not None:
            return from_checkpoint(checkpoint, format, node, depth, details)
        asked = {"format": format.value, "node": node, "depth": depth, "at": at}
        asked |= {"details": "true"} if details else {}
        return from_service(url, "/tree", asked, api_key, trust)

    if not watch:
        typer.echo(draw(), nl=False)
        return
    try:
        while True:
            typer.echo(screenful(draw(), *shutil.get_terminal_size()), nl=False)
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def screenful(drawing: str, columns: int, rows: int) -> str:
    """Return as much of a drawing as a terminal shows, written over the one before."""
    lines = drawing.splitlines()
    if len(lines) >= rows:
        left = len(lines) - (rows - 2)
        lines = [*lines[: rows - 2], f"... {left:,} more lines; --depth and --node show less"]
    shown = (line if len(line) <= columns else f"{line[: columns - 1]}…" for line in lines)
    return HOME + "".join(f"{line}{END_OF_LINE}\n" for line in shown) + END_OF_SCREEN


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
    path: str,
    asked: Mapping[str, object],
    api_key: str | None = None,
    trust: ssl.SSLContext | None = None,
) -> str:
    """Return what the service answers; its problems become our errors."""
    from app.errors import SourceError

    query = urllib.parse.urlencode({k: v for k, v in asked.items() if v is not None})
    address = f"{url.rstrip('/')}{path}?{query}"
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
    from app.render import tree_document, tree_text
    from app.tree_format import FORMATS

    snapshot = read_snapshot(folder)
    if form is TreeFormat.json:
        return json.dumps(tree_document(snapshot, node, depth), indent=2) + "\n"
    if form is TreeFormat.text:
        return tree_text(snapshot, node, depth, details=details)
    return FORMATS[form.value].write(snapshot, node, depth)


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
