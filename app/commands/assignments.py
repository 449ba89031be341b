"""`key=value` on the command line, for --set, --run and --option, and the names of the streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer

# Written out: to import the generators for a help text would load the compiler.
STREAM_NAMES = (
    "sea, sea_g, led, led_g, agrawal, agr_g, rtg, dense, rbf, waveform21, waveform40, tweets"
)


def parse_value(text: str) -> Any:
    """Read a number, true, false or null as JSON does; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_assignments(texts: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Read a list of key=value; the last one of a key wins."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"'{text}' is not of the form key=value", param_hint=option)
        found[key.strip()] = parse_value(value.strip())
    return found
