"""One log: JSON lines on standard output, or text for people on a terminal.

Our own events go through structlog; what the standard library and uvicorn log is routed through
the same processors, so every line has the same shape.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, TextIO

import structlog

from app.secret import masked

SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    structlog.processors.StackInfoRenderer(),
]

FIRST_KEYS = ("time", "level", "event", "logger")


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger; `log.info("checkpoint written", size_bytes=10)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def configure(
    level: str = "info",
    style: Literal["auto", "json", "console"] = "auto",
    stream: TextIO | None = None,
) -> None:
    """Route all logging of the process to one stream; called once, at start."""
    out = stream or sys.stdout
    console = style == "console" or (style == "auto" and out.isatty())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*SHARED, structlog.stdlib.ExtraAdder(allow=())],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(console, out.isatty()),
                _without_secrets,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # uvicorn brings handlers of its own; its records must reach the root's instead.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        named = logging.getLogger(name)
        named.handlers.clear()
        named.propagate = True
    # librdkafka tells of every attempt to reach a broker that is away, twenty times a second.
    logging.getLogger("librdkafka").filters[:] = [SeldomOfAKind()]
    logging.captureWarnings(capture=True)


def _rendering(console: bool, colors: bool) -> list[structlog.typing.Processor]:
    if console:
        return [structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="time")]
    return [
        structlog.processors.format_exc_info,
        _ordered,
        structlog.processors.JSONRenderer(default=str),
    ]


def _ordered(_logger: Any, _method: str, event: Any) -> Any:
    """Put time, level, event and logger first: lines are read by people too."""
    first = {key: event[key] for key in FIRST_KEYS if key in event}
    return first | {key: value for key, value in event.items() if key not in first}


def _without_secrets(_logger: Any, _method: str, line: Any) -> Any:
    """Mask the whole line, last of all: nobody can know what others put into theirs."""
    return masked(line)


class Seldom:
    """Keeps a line that could repeat many times a second to one in a while."""

    def __init__(self, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._next: dict[str, float] = {}

    def due(self, what: str) -> bool:
        """Return whether this line may be written again, and count it as written."""
        now = self._clock()
        if now < self._next.get(what, now):
            return False
        self._next[what] = now + self._seconds
        return True


class SeldomOfAKind(logging.Filter):
    """Lets a line of librdkafka pass once in a while; "FAIL [rdkafka#consumer-1]" is its kind.

    What was asked for by its property `debug` passes always.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        super().__init__()
        self._seldom = Seldom(seconds)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        kind, _, _ = record.getMessage().partition("]")
        return record.levelno <= logging.DEBUG or self._seldom.due(kind)
