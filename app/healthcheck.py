"""Asks the service of this container whether it is alive: `python -m app.healthcheck`.

For the HEALTHCHECK of an image, which runs it every half a minute: port and TLS are read from the
environment and the file in LIVETREE_CONFIG_FILE, as the settings are, but without loading those,
which would take as long as a hundred such questions.
"""

from __future__ import annotations

import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PATIENCE_SECONDS = 4.0


def address(environ: Mapping[str, str]) -> str:
    """Return the address of the probe that tells whether the process is alive."""
    named = environ.get("LIVETREE_CONFIG_FILE")
    file: Any = yaml.safe_load(Path(named).read_text(encoding="utf-8")) if named else None
    given = file if isinstance(file, dict) else {}
    port = environ.get("LIVETREE_HTTP__PORT") or _within(given, "http", "port") or 8000
    certificate = environ.get("LIVETREE_TLS__CERTIFICATE_FILE") or _within(
        given, "tls", "certificate_file"
    )
    return f"{'https' if certificate else 'http'}://127.0.0.1:{port}/livez"


def _within(given: dict[str, Any], group: str, name: str) -> Any:
    found = given.get(group)
    return found.get(name) if isinstance(found, dict) else None


def main() -> int:
    """Return 0 where the service says that it is alive, else 1 and one line why."""
    url = address(os.environ)
    # The process itself is asked, on its own machine: whose name the certificate has is no matter.
    unverified = ssl._create_unverified_context() if url.startswith("https") else None
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS, context=unverified):
            return 0
    except (OSError, urllib.error.URLError) as exc:
        sys.stderr.write(f"{url}: {exc}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
