"""Code that a served process runs first, to bring a fault about in the middle of its work."""

from __future__ import annotations

from pathlib import Path

# `owner` is a class or module, as "app.training:Training"; the fault comes while `trigger` exists.
RAISING = """
import importlib, pathlib
module, _, name = {owner!r}.partition(":")
owner = importlib.import_module(module)
owner = getattr(owner, name) if name else owner
real = getattr(owner, {method!r})
trigger = pathlib.Path({trigger!r})

def faulty(*given, **named):
    if trigger.exists():
        raise {fault}
    return real(*given, **named)

setattr(owner, {method!r}, faulty)
"""

WAITING = """
import importlib, pathlib, time
module, _, name = {owner!r}.partition(":")
held = importlib.import_module(module)
held = getattr(held, name) if name else held
unheld = getattr(held, {method!r})
hold = pathlib.Path({trigger!r})

def waiting(*given, **named):
    while hold.exists():
        hold.with_suffix(".met").touch()
        time.sleep(0.05)
    return unheld(*given, **named)

setattr(held, {method!r}, waiting)
"""

SLOW = """
import importlib, time
module, _, name = {owner!r}.partition(":")
slow = getattr(importlib.import_module(module), name)
quick = getattr(slow, {method!r})

def slowly(*given, **named):
    time.sleep({seconds!r})
    return quick(*given, **named)

setattr(slow, {method!r}, slowly)
"""


def raising(owner: str, method: str, fault: str, trigger: Path) -> str:
    """Return code by which a method raises while a file exists."""
    return RAISING.format(owner=owner, method=method, fault=fault, trigger=str(trigger))


def waiting(owner: str, method: str, trigger: Path) -> str:
    """Return code by which a method waits while a file exists, and tells so by a file `.met`."""
    return WAITING.format(owner=owner, method=method, trigger=str(trigger))


def slow(owner: str, method: str, seconds: float) -> str:
    """Return code by which a method takes its time."""
    return SLOW.format(owner=owner, method=method, seconds=seconds)
