"""Nothing in the repository runs data as code: no pickles, no eval, no unsafe YAML.

What numba keeps in its own cache folder is not ours; docs/security.md says what that means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PICKLES = {
    "_pickle", "cloudpickle", "cPickle", "dill", "joblib", "jsonpickle", "marshal", "pickle",
    "shelve",
}  # fmt: skip
RUNNING = {"__import__", "eval", "exec"}
UNSAFE = {"read_pickle", "to_pickle", "full_load", "unsafe_load", "unsafe_load_all"}
IMPORTED = re.compile(rf"\b(?:import|from)\s+({'|'.join(sorted(PICKLES))})\b")


def files() -> list[Path]:
    """Return the files of the repository, without environments, caches and git's own."""
    found = (path for path in ROOT.rglob("*") if path.is_file())
    return sorted(path for path in found if not _is_foreign(path.relative_to(ROOT).parts[:-1]))


def _is_foreign(folders: tuple[str, ...]) -> bool:
    return any(name == "__pycache__" or (name[0] == "." and name != ".ci") for name in folders)


def offences(source: str) -> list[str]:
    """Return what a Python file does that it must not, each with its line."""
    return [f"line {node.lineno}: {what}" for node, what in _found(ast.parse(source))]


def _found(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Call):
            for what in _wrong_calls(node):
                yield node, what
            continue
        else:
            continue
        for name in names:
            if name.partition(".")[0] in PICKLES or name in UNSAFE:
                yield node, f"imports {name}"


def _wrong_calls(call: ast.Call) -> Iterator[str]:
    target = call.func
    name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
    owner = getattr(getattr(target, "value", None), "id", "")
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    if name in RUNNING and owner in ("", "builtins"):
        yield f"calls {name}"
    if name in UNSAFE or (owner, name) == ("yaml", "load"):
        yield f"calls {name}"
    if name == "import_module" and call.args and isinstance(call.args[0], ast.Constant):
        module = str(call.args[0].value)
        if module.partition(".")[0] in PICKLES:
            yield f"imports {module}"
    pickles = options.get("allow_pickle")
    if owner in ("np", "numpy") and name == "load" and pickles is None:
        yield "loads arrays without allow_pickle=False"
    if pickles is not None and not (isinstance(pickles, ast.Constant) and pickles.value is False):
        yield "allows pickles"


def test_no_python_file_runs_data_as_code() -> None:
    sources = [path for path in files() if path.suffix == ".py"]
    assert len(sources) > 100

    found = {
        path.relative_to(ROOT).as_posix(): wrong
        for path in sources
        if (wrong := offences(path.read_text(encoding="utf-8")))
    }

    assert found == {}


def test_no_other_file_does_either() -> None:
    for path in files():
        if path.suffix in (".py", ".md") or b"\0" in (content := path.read_bytes()):
            continue
        assert not IMPORTED.search(content.decode(errors="replace")), path


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, marshal as m",
        "def f():\n    from dill import dumps",
        "from joblib.numpy_pickle import load",
        "import shelve",
        "import importlib\nimportlib.import_module('pickle')",
        "__import__('pickle')",
        "eval('1')",
        "exec(code)",
        "import builtins\nbuiltins.eval('1')",
        "import numpy as np\nnp.load(file)",
        "import numpy as np\nnp.load(file, allow_pickle=True)",
        "import numpy\nnumpy.load(file, allow_pickle=wanted)",
        "np.save(file, array, allow_pickle=True)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "pandas.read_pickle(path)",
        "from yaml import unsafe_load",
    ],
)
def test_the_search_finds(source: str) -> None:
    assert offences(source)


@pytest.mark.parametrize(
    "source",
    [
        "np.load(file, allow_pickle=False)",
        "model.eval()",
        "yaml.safe_load(text)",
        "literal_eval('1')",
        "executor.exec(x)",
        "'import pickle'",
    ],
)
def test_the_search_leaves_alone(source: str) -> None:
    assert offences(source) == []
