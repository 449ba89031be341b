"""`livetree`, and `python -m app` under the same name."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it without a trace, also while it is being imported."""
    try:
        from app import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
