"""Kernels are compiled before the first event."""

from __future__ import annotations

import pytest

from app import warmup
from app.warmup import warm_up
from learner import VARIANTS, StreamingTree, VerticalTree


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_warmed_up_as_it_is_and_with_naive_bayes_leaves(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[StreamingTree] = []

    class Watched(StreamingTree):
        """Remembers itself."""

        def __init__(self, *given: object, **params: object) -> None:
            super().__init__(*given, **params)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(warmup, "StreamingTree", Watched)
    assert warm_up(variant) > 0.0

    plain, hasty = made
    assert plain.params == VARIANTS[variant].params_from({})
    assert hasty.params.leaf_predictor == "nba"
    assert hasty.shape().nodes > 1


def test_parameters_that_do_not_go_with_naive_bayes_are_warmed_up_without() -> None:
    assert warm_up("vfdt", {"remove_poor": True}) > 0.0


def test_trees_with_workers_are_warmed_up_until_they_split(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[VerticalTree] = []

    class Watched(VerticalTree):
        """Remembers itself."""

        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(warmup, "VerticalTree", Watched)
    assert warmup.warm_up_workers() > 0.0

    assert made
    assert all(tree.shape().nodes > 1 for tree in made)


def test_variants_that_do_not_exist_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert warmup.main(["vfdt", "vfdx"]) == 2
    assert '"given": ["vfdx"]' in capsys.readouterr().out
