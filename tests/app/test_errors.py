"""Every error has a row, and one JSON shape."""

from __future__ import annotations

import pytest

import learner
from app import errors


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    found = {kind}
    for child in kind.__subclasses__():
        found |= subclasses(child)
    return found


OURS = {
    kind
    for kind in subclasses(errors.AppError) | subclasses(learner.LearnerError)
    if kind.__module__ in ("app.errors", "learner.errors")
}


def made(kind: type[Exception]) -> Exception:
    if kind is learner.BadValue:
        return learner.BadValue("age", "abc", "a number")
    if kind in (errors.SettingsError, learner.ParamsError):
        return kind(["tau is -1; expected at least 0"])
    return kind("what went wrong")


def test_every_error_class_has_a_row_of_its_own() -> None:
    assert set(errors.POLICY) == OURS


@pytest.mark.parametrize("kind", sorted(OURS, key=str))
def test_every_error_has_the_one_problem_shape(kind: type[Exception]) -> None:
    found = errors.problem(made(kind))

    assert set(found) - {"field"} == {"type", "title", "status", "detail"}
    assert found["status"] == errors.POLICY[kind].status
    assert found["type"].startswith("urn:livetree:problem:")


def test_the_tree_at_the_top_of_the_file_names_every_class_of_it() -> None:
    drawn = errors.__doc__ or ""

    names = {kind.__name__ for kind in OURS if issubclass(kind, errors.AppError)}

    assert {name for name in names if name not in drawn} == set()


def test_a_problem_names_the_field_where_there_is_one() -> None:
    found = errors.problem(learner.BadValue("age", "abc", "a number"))

    assert found["field"] == "age"
    assert found["detail"] == "feature 'age' is 'abc'; expected a number"


def test_a_fault_of_ours_tells_nothing_to_clients() -> None:
    found = errors.problem(KeyError("secret"))

    assert found["status"] == 500
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.Unexpected, 1),
        (errors.SettingsError, 2),
        (errors.SourceError, 3),
        (errors.DeadLetterLost, 3),
        (errors.OffsetOutOfRange, 4),
        (errors.SourceChanged, 4),
        (errors.CheckpointUnreadable, 4),
        (errors.CheckpointMismatch, 4),
        (KeyError, 1),
    ],
)
def test_exit_codes_are_the_documented_ones(kind: type[Exception], code: int) -> None:
    assert errors.policy_of(kind).exit_code == code
