"""The keys that open the API: those of the settings, and those of a file that may change.

Only digests are kept and compared, all of them each time, so that the time of an answer tells
nothing about a key. The file is looked at once a second at most, and read when it has changed: a
key is rotated without a restart. A file that cannot be used any more changes nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from app.api_settings import AuthSettings, key_problem
from app.errors import SettingsError
from app.log import get_logger
from app.secret import hide
from app.settings_file import variable_of

LOOK_SECONDS = 1.0

log = get_logger("app.api")

Stamp = tuple[int, int, int, int]


class Keys:
    """All keys that are accepted now; used by the event loop's thread alone."""

    def __init__(self, settings: AuthSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._file = settings.keys_file
        self._given = [key.get_secret_value() for key in settings.keys]
        self._look_again_at = clock() + LOOK_SECONDS
        # Taken before the file is read: a change in between is seen at the next look.
        self._stamp = stamp_of(self._file) if self._file is not None else None
        self._digests: tuple[bytes, ...] = ()
        self._use(read_keys(self._file, self._given) if self._file is not None else [])

    def __len__(self) -> int:
        return len(self._digests)

    def accepts(self, offered: bytes) -> bool:
        """Return whether this is one of the keys; takes as long for a wrong one."""
        if self._file is not None and self._clock() >= self._look_again_at:
            self._look_at(self._file)
        digest = hashlib.sha256(offered).digest()
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        return found

    def _look_at(self, file: Path) -> None:
        self._look_again_at = self._clock() + LOOK_SECONDS
        stamp = stamp_of(file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._use(read_keys(file, self._given))
        except SettingsError as exc:
            log.error("keys not read again, those before still hold", reason=str(exc))
        else:
            log.info("keys read again", file=str(file), keys=len(self))

    def _use(self, keys: list[str]) -> None:
        every = [*self._given, *keys]
        hide(*every)
        self._digests = tuple(hashlib.sha256(key.encode()).digest() for key in every)


def stamp_of(file: Path) -> Stamp | None:
    """Return what changes with the file, also where another takes its place; None: it is gone."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def read_keys(file: Path, given: Sequence[str]) -> list[str]:
    """Return the keys in a file, besides those given already; raises SettingsError."""
    name = f"auth.keys_file ({variable_of(('auth', 'keys_file'))}) is '{file}'; expected"
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except OSError as exc:
        raise SettingsError([f"{name} a readable file ({exc.strerror})"]) from exc
    except UnicodeDecodeError as exc:
        raise SettingsError([f"{name} text in UTF-8, one key a line"]) from exc
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise SettingsError([f"{name} at least one key in it, one a line"])
    problem = key_problem(keys)
    if problem is not None:
        raise SettingsError([f"{name} {problem}"])
    if set(keys) & set(given):
        raise SettingsError([f"{name} other keys than those in auth.keys"])
    return keys
