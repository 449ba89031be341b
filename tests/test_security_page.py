"""The commands of docs/security.md do what the page says, in the order of the page."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from streams import open_stream
from tests.app.test_api_server import free_port

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security.md"
DEADLINE_SECONDS = 300  # a cold compile on a slow machine
MARK = "-- what follows is said by command"


def commands() -> list[tuple[str, list[str]]]:
    """Return each command of the page with the lines that it should print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


def agrees(said: str, shown: str) -> bool:
    """Compare a line with the page, where dots at the end stand for the rest."""
    whole = not shown.endswith("...")
    return said == shown if whole else said.startswith(shown.removesuffix("...").rstrip())


def test_the_commands_do_what_the_page_says(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps(e) + "\n" for e in open_stream("sea").events(600)))
    port = free_port()
    script = "\n".join(
        f'echo "{MARK} {number}"\n{command}'.replace(":8000", f":{port}")
        for number, (command, _) in enumerate(commands())
    ).replace("livetree tree --depth", f"livetree tree --url http://localhost:{port} --depth")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("LIVETREE_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LIVETREE_SOURCE": "file",
        "LIVETREE_FILE__PATH": str(events),
        "LIVETREE_HTTP__PORT": str(port),
    }

    session = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that its services can be ended with it
    )
    try:
        output, _ = session.communicate(timeout=DEADLINE_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(session.pid, signal.SIGKILL)

    log = tmp_path / "serve.log"
    why = output + (log.read_text() if log.exists() else "")
    for number, (command, shown) in enumerate(commands()):
        said = output.partition(f"{MARK} {number}\n")[2].partition(MARK)[0].splitlines()
        assert len(said) == len(shown), f"{command}\n{why}"
        assert all(map(agrees, said, shown)), f"{command}\n{why}"
    assert len(commands()) > 25
