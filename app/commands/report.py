"""What the command line says when something is wrong, on standard error."""

from __future__ import annotations

import typer


def report_error(exc: Exception) -> int | None:
    """Print an error of ours and return its exit code; None for a fault that needs its trace."""
    from app.errors import AppError, SettingsError, policy_of
    from app.secret import masked
    from learner import LearnerError
    from streams import StreamError

    if isinstance(exc, SettingsError):
        for problem in exc.problems:
            typer.echo(f"error: {masked(problem)}", err=True)
        return policy_of(exc).exit_code
    if isinstance(exc, AppError | LearnerError):
        typer.echo(f"error: {masked(str(exc))}", err=True)
        return policy_of(exc).exit_code
    if isinstance(exc, StreamError):
        typer.echo(f"error: {exc}", err=True)
        return 2
    return None
