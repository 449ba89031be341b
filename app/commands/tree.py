"""`livetree tree`: the tree of a running service, or of a checkpoint on disk."""

from __future__ import annotations

import json
import ssl
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.ask import HERE, ApiKey, CaFile, CertificateFile, KeyFile, Url, ask, trust_of

if TYPE_CHECKING:
    from learner import Snapshot

WATCH_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class TreeFormat(StrEnum):
    """How a tree is printed."""

    text = "text"
    json = "json"
    dot = "dot"


def tree(
    url: Url = HERE,
    depth: Annotated[
        int | None, typer.Option(min=0, help="How many levels to show.", show_default="all")
    ] = None,
    node: Annotated[
        int | None, typer.Option(min=0, help="Id of the node to start at.", show_default="root")
    ] = None,
    format: Annotated[
        TreeFormat, typer.Option(help="text: a drawing; json: flat nodes; dot: Graphviz.")
    ] = TreeFormat.text,
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
    api_key: ApiKey = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
    key_file: KeyFile = None,
) -> None:
    """Print the tree of a running service, or of a checkpoint.

    [bold]Examples[/bold]

    livetree tree --depth 3 --watch

    livetree tree --format dot | dot -Tsvg -o tree.svg

    livetree tree --checkpoint checkpoints --node 12

    LIVETREE_API_KEY=... livetree tree --url https://livetree.example --ca-file ca.pem
    """
    trust = trust_of(ca_file, certificate_file, key_file)

    def draw() -> str:
        if checkpoint is not None:
            return from_checkpoint(checkpoint, format, node, depth)
        return from_service(url, format, node, depth, api_key, trust)

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


def from_service(
    url: str,
    form: TreeFormat,
    node: int | None,
    depth: int | None,
    api_key: str | None = None,
    trust: ssl.SSLContext | None = None,
) -> str:
    """Return the tree as the service renders it; its problems become our errors."""
    asked = {"format": form.value, "node": node, "depth": depth}
    found = ask(url, "/tree", asked, api_key, trust)
    return found if found.endswith("\n") else found + "\n"


def from_checkpoint(folder: Path, form: TreeFormat, node: int | None, depth: int | None) -> str:
    """Return the tree of the newest readable checkpoint in a folder."""
    from app.render import tree_document, tree_dot, tree_text

    snapshot = read_snapshot(folder)
    if form is TreeFormat.text:
        return tree_text(snapshot, node, depth)
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
