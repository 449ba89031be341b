"""`livetree export`: the tree of a service or checkpoint in a form that works without livetree."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands.ask import HERE, ApiKey, At, CaFile, CertificateFile, KeyFile, Url, ask, trust_of
from app.commands.tree import read_snapshot


class ExportFormat(StrEnum):
    """What a tree is written as."""

    sql = "sql"
    python = "python"
    onnx = "onnx"
    json = "json"


def export(
    format: Annotated[
        ExportFormat,
        typer.Option(
            help="sql: a CASE expression; python: a file with predict(record); onnx: a model; "
            "json: the tree with its schema."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The file to write; - is standard output.")],
    by_votes: Annotated[
        bool,
        typer.Option(
            "--by-votes",
            help="Let leaves that answer by naive Bayes answer by their votes; some labels differ.",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Read the newest checkpoint in this folder instead; no service is needed.",
            show_default=False,
        ),
    ] = None,
    at: At = None,
    url: Url = HERE,
    api_key: ApiKey = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
    key_file: KeyFile = None,
) -> None:
    """Write the tree of a running service, or of a checkpoint, for use without livetree.

    The labels are the same. What cannot be written so is refused, with the reason.

    [bold]Examples[/bold]

    livetree export --format sql --out tree.sql

    livetree export --format onnx --out tree.onnx --checkpoint checkpoints

    livetree export --format python --out - > tree.py
    """
    from app.export.document import export_document, read_document

    if checkpoint is not None and at is not None:
        raise typer.BadParameter("a checkpoint holds one moment only", param_hint="--at")
    if checkpoint is not None:
        document = export_document(read_snapshot(checkpoint))
    else:
        trust = trust_of(ca_file, certificate_file, key_file)
        document = read_document(json.loads(ask(url, "/export", {"at": at}, api_key, trust)))
    written = render(document, format, by_votes)
    if str(out) == "-":
        typer.echo(written, nl=False)
        return
    try:
        out.write_bytes(written)
    except OSError as exc:
        message = f"'{out}': expected a file that can be written ({exc.strerror or exc})"
        raise typer.BadParameter(message, param_hint="--out") from exc
    shape = document["shape"]
    typer.echo(
        f"{out}: {document['snapshot']}, {shape['nodes']:,} nodes, {shape['leaves']:,} leaves, "
        f"{len(written):,} bytes",
        err=True,
    )


def render(document: dict[str, Any], form: ExportFormat, by_votes: bool = False) -> bytes:
    """Return the bytes of a format; raises NotExportable."""
    from app.errors import NotExportable
    from app.export.document import tree_of
    from app.export.python_source import python_source
    from app.export.sql import sql_expression

    if form is ExportFormat.json:
        return (json.dumps(document, indent=1) + "\n").encode()
    tree = tree_of(document, by_votes)
    if form is ExportFormat.sql:
        return sql_expression(tree).encode()
    if form is ExportFormat.python:
        return python_source(tree).encode()
    try:
        from app.export.onnx_model import onnx_model
    except ImportError as exc:
        raise NotExportable(
            f"ONNX needs a package that is not installed ({exc}): pip install 'livetree[onnx]'"
        ) from exc
    return onnx_model(tree)
