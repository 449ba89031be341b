"""What a failure of Ray means to a learner."""

from __future__ import annotations

from ray.exceptions import RayTaskError

from app.errors import AppError
from learner import LearnerError, WorkerLost


def lost(exc: Exception) -> LearnerError | AppError:
    """Return a fault of the events or the source as what it is, all else as a lost worker."""
    cause = exc.cause if isinstance(exc, RayTaskError) else exc
    if isinstance(cause, LearnerError | AppError):
        return cause
    first = next(iter(str(exc).strip().splitlines()), "")
    return WorkerLost(f"a worker on Ray is lost: {type(exc).__name__}: {first}")
