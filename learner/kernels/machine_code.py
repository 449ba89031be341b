"""Where the machine code of kernels is kept.

Numba's cache looks at the file of the cached function only, so an edit in a kernel that another
file calls would go unseen. The cache folder is therefore named by a digest of every source file
that holds kernels. This is the only file of ``learner`` that touches the disk.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[2]  # where the packages lie


def sources_digest(compiler: str) -> str:
    """What the compiler's version and all sources with kernels come to."""
    digest = hashlib.sha256(compiler.encode())
    for package in ("learner", "streams", "app/kernels"):
        for source in sorted((_PROJECT / package).rglob("*.py")):
            digest.update(source.relative_to(_PROJECT).as_posix().encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder(named: str, compiler: str) -> Path:
    """The folder for machine code, below one that is named.

    Numba refuses to import a cached function when no folder is writable (a read-only container),
    so a temporary folder takes over there, with what the read-only one holds.
    """
    base = Path(named) if named else Path.home() / ".cache" / "livetree"
    folder = base / f"kernels-{sources_digest(compiler)}"
    if _writable(folder):
        return folder
    own = Path(tempfile.mkdtemp(prefix="livetree-kernels-"))
    _link_files(folder, own)
    return own


def folder_of_source(file: str) -> str:
    """What the folder for one source file is called; empty where it is none of the project's."""
    folder = Path(file).resolve().parent
    inside = folder.is_relative_to(_PROJECT)
    return "-".join(folder.relative_to(_PROJECT).parts) if inside else ""


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _link_files(ready: Path, own: Path) -> None:
    """Let one folder show the files of another; numba replaces links, it never writes into them."""
    for file in ready.rglob("*"):
        if file.is_file():
            link = own / file.relative_to(ready)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
