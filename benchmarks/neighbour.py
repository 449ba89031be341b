"""Other work on the machine while something is measured."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

COUNTING = "while True: pass"
ADDING = "import numpy as np; a, b = np.ones((2, 30_000_000))\nwhile True: a += b"


@contextmanager
def neighbour(code: str) -> Iterator[None]:
    """Have another process run a loop meanwhile."""
    process = subprocess.Popen([sys.executable, "-c", code])
    time.sleep(1.0)  # for its imports
    try:
        yield
    finally:
        process.kill()
        process.wait()
