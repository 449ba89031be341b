"""Questions to the learner: answered between batches, never in the way of learning."""

from __future__ import annotations

from concurrent.futures import CancelledError

import pytest

from app.errors import LearnerBusy
from app.question import MOST_WAITING, Questions
from learner import Encoder, StreamingTree, UnknownNode
from streams import open_stream


@pytest.fixture(scope="module")
def tree() -> StreamingTree:
    stream = open_stream("sea", 1)
    tree = StreamingTree(Encoder(stream.schema))
    tree.learn(*stream.take(300))
    return tree


def test_a_question_is_answered_when_the_learner_has_time(tree: StreamingTree) -> None:
    questions = Questions()
    asked = questions.ask(0)
    assert not asked.done()

    questions.answer(tree)

    assert asked.result(0).prospect().n == 300.0


def test_questions_wait_until_there_is_a_tree(tree: StreamingTree) -> None:
    questions = Questions()
    asked = questions.ask(0)

    questions.answer(None)
    assert not asked.done()
    questions.answer(tree)

    assert asked.done()


def test_an_unknown_leaf_is_an_answer_too(tree: StreamingTree) -> None:
    questions = Questions()
    unknown, known = questions.ask(99), questions.ask(0)

    questions.answer(tree)

    with pytest.raises(UnknownNode, match="leaf is 99"):
        unknown.result(0)
    assert known.result(0).prospect().leaf == 0


def test_who_no_longer_waits_costs_nothing(tree: StreamingTree) -> None:
    questions = Questions()
    left, stays = questions.ask(0), questions.ask(0)
    assert left.cancel()

    questions.answer(tree)

    with pytest.raises(CancelledError):
        left.result(0)
    assert stays.done()


def test_too_many_questions_are_refused(tree: StreamingTree) -> None:
    questions = Questions()
    for _ in range(MOST_WAITING):
        questions.ask(0)

    with pytest.raises(LearnerBusy, match="64 questions wait for the learner; expected fewer"):
        questions.ask(0)
    questions.answer(tree)
    assert questions.ask(0)
