"""Programs that tests need: skipped in one clear line without them, a failure where required."""

from __future__ import annotations

import os
import shutil

import pytest


def required_program(name: str, variable: str, package: str) -> str:
    """Return the program's path; skips without it, or fails where the variable requires it."""
    found = shutil.which(name)
    if found is None:
        missing(f"there is no `{name}` (Debian's package {package}; `make tools`)", variable)
    return str(found)


def missing(reason: str, variable: str) -> None:
    """Skip for a reason; fail where the variable says that nothing may be skipped for it."""
    if os.environ.get(variable):
        pytest.fail(f"required here ({variable}): {reason}", pytrace=False)
    pytest.skip(reason)
