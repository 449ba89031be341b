"""`livetree`: the commands, and what becomes of an error on the command line.

Command modules import the learner only when they run, so that `--help` answers at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.commands import (
    demo,
    dlq,
    evaluate,
    explain,
    export,
    produce,
    replay,
    serve,
    tree,
    variants,
)
from app.commands.report import report_error

EXIT_CODES = (
    "[bold]Exit codes[/bold]: 0 done; 1 unexpected failure; 2 wrong usage, settings or input; "
    "3 the broker or the source failed; 4 the checkpoint cannot be read or does not fit; "
    "130 interrupted."
)

ABOUT = """
Kafka events in, a decision tree that never stops learning, predictions and the tree itself out.

Start with [bold]livetree demo[/bold]: it needs no Kafka, feeds a stream that keeps changing, and
shows how the tree follows. [bold]livetree serve[/bold] is the real service.
[bold]livetree evaluate[/bold] compares algorithms and parameters without Kafka;
[bold]livetree variants[/bold] lists them.
"""


def unwrapped(text: str) -> str:
    """Return a docstring with one line a paragraph, for terminals of any width."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


class ReportingGroup(TyperGroup):
    """The group of commands; turns our own errors into one readable message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except Exception as exc:
            code = report_error(exc)
            if code is None:
                raise
            raise typer.Exit(code) from exc


app = typer.Typer(
    cls=ReportingGroup,
    help=unwrapped(ABOUT),
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: tuple[Callable[..., None], ...] = (
    demo.demo,
    serve.serve,
    produce.produce,
    evaluate.evaluate,
    replay.replay,
    tree.tree,
    explain.explain,
    export.export,
    variants.variants,
)
for command in COMMANDS:
    app.command(help=unwrapped(command.__doc__ or ""), epilog=EXIT_CODES)(command)

dead_letters = typer.Typer(
    help=unwrapped(dlq.ABOUT), epilog=EXIT_CODES, no_args_is_help=True, rich_markup_mode="rich"
)
for name, part in dlq.COMMANDS.items():
    dead_letters.command(name, help=unwrapped(part.__doc__ or ""), epilog=EXIT_CODES)(part)
app.add_typer(dead_letters, name="dlq")


def show_version(value: bool) -> None:
    """Print the version and leave."""
    if not value:
        return
    try:
        typer.echo(f"livetree {version('livetree')}")
    except PackageNotFoundError:
        typer.echo("livetree (not installed as a package)")
    raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """Carry the options that belong to no command."""


def main() -> None:
    """Run the command line under its name."""
    app(prog_name="livetree")
