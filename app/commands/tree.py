"""`livetree tree`: the tree of a running service, or of a checkpoint on disk."""

from __future__ import annotations

import json
import shutil
import ssl
import sys
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.ask import HERE, ApiKey, At, CaFile, CertificateFile, KeyFile, Url, ask, trust_of

if TYPE_CHECKING:
    from learner import Snapshot

WATCH_SECONDS = 2.0
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
    url: Url = HERE,
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
    at: At = None,
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
    api_key: ApiKey = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
    key_file: KeyFile = None,
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


def from_service(
    url: str,
    path: str,
    asked: Mapping[str, object],
    api_key: str | None = None,
    trust: ssl.SSLContext | None = None,
) -> str:
    """Return what the service answers; its problems become our errors."""
    found = ask(url, path, asked, api_key, trust)
    return found if found.endswith("\n") else found + "\n"


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
