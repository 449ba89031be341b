"""The borders of the house that need no tool but the sources themselves."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import learner
from learner.variants import VARIANTS

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "learner", "streams")
COMPILER = "learner/kernels/jit.py"

SOURCES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
LEARNER = {name: tree for name, tree in SOURCES.items() if name.startswith("learner/")}

# What the pure core may import; everything else is a clock, a file, a thread, a log, ...
PURE = {
    "__future__", "collections", "dataclasses", "enum", "fractions", "functools", "hashlib",
    "itertools", "learner", "math", "numpy", "operator", "struct", "typing", "weakref",
}  # fmt: skip
EXCEPTIONS = {
    COMPILER: {"llvmlite", "numba"},
    "learner/kernels/machine_code.py": {"pathlib", "tempfile"},  # its folder has to be found
}

IMPURE_CALLS = {"breakpoint", "compile", "eval", "exec", "input", "open", "print", "__import__"}
IMPURE_ATTRIBUTES = {"default_rng", "fromfile", "load", "random", "save", "tofile"}
VAGUE = {"base", "common", "core", "helper", "helpers", "manager", "misc", "util", "utils"}
SECTIONS = ("Paper", "Idea", "Differs from VFDT", "Symbols", "Departures")


def imported(tree: ast.Module) -> Iterator[str]:
    """Top-level packages that a file imports, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def called(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def test_only_one_file_speaks_to_the_compiler() -> None:
    users = {name for name, tree in SOURCES.items() if {"llvmlite", "numba"} & set(imported(tree))}
    assert users == {COMPILER}


def test_learner_imports_nothing_that_is_not_pure() -> None:
    for name, tree in LEARNER.items():
        assert set(imported(tree)) <= PURE | EXCEPTIONS.get(name, set()), name


def test_learner_opens_nothing_and_draws_no_random_numbers() -> None:
    for name, tree in LEARNER.items():
        assert not IMPURE_CALLS & set(called(tree)), name
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        own = {"load"} if name == COMPILER else set()  # the compiler's word for reading memory
        assert not (IMPURE_ATTRIBUTES - own) & attributes, name


def test_packages_do_not_print() -> None:
    assert not [name for name, tree in SOURCES.items() if "print" in set(called(tree))]


def test_every_file_says_what_it_is_for() -> None:
    assert not [name for name, tree in SOURCES.items() if not ast.get_docstring(tree)]


def test_names_of_files_say_something() -> None:
    assert not [name for name in SOURCES if VAGUE & set(Path(name).with_suffix("").parts)]


def test_files_stay_short_enough_to_read() -> None:
    lengths = {name: len((ROOT / name).read_bytes().splitlines()) for name in SOURCES}
    assert not {name: length for name, length in lengths.items() if length > 450}


def test_the_face_of_a_package_holds_no_functions() -> None:
    faces = {name: tree for name, tree in SOURCES.items() if name.endswith("__init__.py")}
    assert not [
        name
        for name, tree in faces.items()
        if any(isinstance(node, ast.FunctionDef) for node in tree.body)
    ]


def test_the_public_face_is_sorted_and_complete() -> None:
    names = learner.__all__
    tree = SOURCES["learner/__init__.py"]
    bound = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    constants = sorted(name for name in names if name.isupper())
    classes = sorted(name for name in names if name[0].isupper() and not name.isupper())
    functions = sorted(name for name in names if name.islower())
    assert names == [*constants, *classes, *functions]
    assert set(names) == bound
    assert all(hasattr(learner, name) for name in names)


def test_every_error_of_the_learner_is_in_the_public_face() -> None:
    errors = importlib.import_module("learner.errors")
    raised = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, Exception) and not hasattr(builtins, name)
    }
    assert raised <= set(learner.__all__)
    assert raised == set(errors.__all__)


@pytest.mark.parametrize("variant", VARIANTS)
def test_docstring_of_a_variant_has_its_parts_in_order(variant: str) -> None:
    text = ast.get_docstring(SOURCES[f"learner/variants/{variant}.py"]) or ""
    headings = [line for line in text.splitlines()[1:] if line and not line.startswith(" ")]
    assert tuple(line.strip() for line in headings) == SECTIONS


def test_every_file_of_a_variant_is_registered() -> None:
    files = {Path(name).stem for name in SOURCES if name.startswith("learner/variants/")}
    assert files - {"__init__"} == set(VARIANTS)


def test_kernels_do_not_raise_and_do_not_call_themselves() -> None:
    for name, tree in LEARNER.items():
        if not name.startswith(("learner/kernels/", "learner/variants/")) or name == COMPILER:
            continue
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                inside = list(ast.walk(function))
                calls = {
                    node.func.id
                    for node in inside
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                }
                assert not any(isinstance(node, ast.Raise) for node in inside), function.name
                assert function.name not in calls, function.name
