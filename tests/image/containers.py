"""Buildah and podman with a storage of their own, and a base image that needs no registry.

Everything lies in the user's cache folder, outside the repository. The base is Debian with its
Python, from the mirror that this machine installs packages from; pip inside it gets this machine's
own configuration, so that the image can be built wherever `make setup` works.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CACHE = Path.home() / ".cache" / "livetree" / "containers"
BASE = "localhost/livetree-base:bookworm"
IMAGE = "localhost/livetree-test"
PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
PROGRAMS = ("buildah", "podman", "runc", "debootstrap")
AUTHORITIES = "/etc/ssl/certs/of-this-machine.crt"
PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout")

STORAGE = """[storage]
driver = "overlay"
graphroot = "{folder}/images"
runroot = "{folder}/run"
"""
# Neither systemd nor limits above our own are taken for granted: tests may run in a container.
ENGINE = """[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


class Unavailable(Exception):
    """Containers cannot be had on this machine; the message says why."""


def require_programs() -> None:
    """Look for what is needed; raises Unavailable."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise Unavailable(f"there is no `{missing[0]}` (Debian's package; `make tools`)")
    if os.geteuid() != 0:
        raise Unavailable("images are built here as root, which this is not")


def environment() -> dict[str, str]:
    """Return the environment in which the programs use our storage."""
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "storage.conf").write_text(STORAGE.format(folder=CACHE))
    (CACHE / "containers.conf").write_text(ENGINE)
    return os.environ | {
        "CONTAINERS_STORAGE_CONF": str(CACHE / "storage.conf"),
        "CONTAINERS_CONF": str(CACHE / "containers.conf"),
        "BUILDAH_ISOLATION": "chroot",
        "BUILDAH_LAYERS": "true",
    }


def run(
    *command: str, cwd: Path | None = None, seconds: float = 1800, errors_too: bool = False
) -> str:
    """Run a program on our storage; return what it wrote, or fail with it."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return (done.stdout + done.stderr if errors_too else done.stdout).strip()


def base_image() -> str:
    """Return the name of the base image; made at the first call on a machine."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not run("buildah", "images", "--quiet", "--filter", f"reference={BASE}"):
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                _make_base(Path(folder) / "root")
    return BASE


def _make_base(root: Path) -> None:
    sites = run("apt-get", "indextargets", "--format", "$(SITE)").splitlines()
    mirror = next((site for site in sorted(set(sites)) if "security" not in site), None)
    if mirror is None:
        raise Unavailable("apt-get knows no mirror to make a base image from")
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root), mirror)
    (root / "usr/bin/python").symlink_to("python3")  # as in the official images
    (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink(missing_ok=True)
    (root / "etc/pip.conf").write_text(pip_configuration(root))
    container = run("buildah", "from", "scratch")
    run("buildah", "add", "--quiet", container, str(root), "/")
    run("buildah", "commit", "--quiet", "--rm", container, BASE)


def pip_configuration(root: Path) -> str:
    """Return this machine's own for pip, as a file; its authorities are copied beside it."""
    told = run(sys.executable, "-m", "pip", "config", "list")
    given = dict(re.findall(r"^(?:global|install|:env:)\.([\w-]+)='(.*)'$", told, re.MULTILINE))
    lines = ["[global]"]
    lines += [f"{key.removeprefix('default-')} = {given[key]}" for key in PIP_KEYS if key in given]
    if "cert" in given:
        shutil.copyfile(given["cert"], root / AUTHORITIES.lstrip("/"))
        lines.append(f"cert = {AUTHORITIES}")
    return "\n".join(lines) + "\n"
