"""Progress for people, on standard error, so that standard output stays clean for pipes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

# Without a terminal, work that is over sooner than this is not worth a line.
PATIENCE_SECONDS = 2.0


def error_console() -> Console:
    """Return a console on standard error."""
    return Console(stderr=True)


@contextmanager
def counting(console: Console, words: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how many events are done; yields the function that is told."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(words, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def waiting(console: Console, words: str) -> Iterator[None]:
    """Show that something takes its time, with the seconds; one plain line without a terminal."""
    if not console.is_terminal:
        told = threading.Timer(PATIENCE_SECONDS, console.print, [words])
        told.daemon = True
        told.start()
        try:
            yield
        finally:
            told.cancel()
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        progress.add_task(words, total=None)
        yield
