"""Ingest actors: the wide columns never pass the learner, and the tree is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from learner import (
    Batch,
    Encoder,
    Events,
    InProcess,
    ParamsError,
    StreamingTree,
    Vertical,
    VerticalTree,
)
from tests.distributed.conftest import PATIENT
from tests.distributed.stream import BATCH, EAGER, EVENTS
from tests.learner.concepts import Concept

if TYPE_CHECKING:
    from app.distributed.ray_mesh import RayMesh
    from app.distributed.ray_workers import RayWorkers

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")

# All is declared: the reader and the learner know the same without telling each other.
WIDE = Concept(seed=5, numeric=40, nominal=8, sparse=0, classes=3, missing=0.02)
ROWS, LABELS, _ = zip(*WIDE.events(EVENTS), strict=True)


def fresh() -> StreamingTree:
    return StreamingTree(Encoder(WIDE.schema()), "vht", **EAGER)


def batches() -> Iterator[tuple[Events, Any]]:
    """What the reader reads."""
    encoder = Encoder(WIDE.schema())
    for at in range(0, EVENTS, BATCH):
        batch = encoder.encode(ROWS[at : at + BATCH])
        y = encoder.encode_labels(LABELS[at : at + BATCH])
        yield Events.of(Batch(*batch), y, np.zeros(0)), at


def mesh_of(tree: VerticalTree, nodes: tuple[str, ...]) -> RayMesh:
    from app.distributed.ray_mesh import RayMesh

    return RayMesh(PATIENT, batches, tree.shares, nodes)


@pytest.mark.parametrize(
    ("vertical", "together"), [(Vertical(2), True), (Vertical(2, "wok", lag=70), False)]
)
def test_columns_that_never_pass_the_learner_give_the_same_tree(
    workers: RayWorkers, vertical: Vertical, together: bool
) -> None:
    alone = VerticalTree(fresh(), InProcess(), vertical)
    for events, _ in batches():
        alone.learn(events.batch, events.y)

    tree = VerticalTree(fresh(), workers, vertical)
    nodes = workers.load().nodes if together else ("here", "there")
    mesh, before, notes = mesh_of(tree, nodes), workers.load().sent_bytes, []
    for batch in mesh.batches(tree):
        notes.append(batch.note)
        tree.learn_distant(batch)
    mesh.close()

    assert tree.hash() == alone.hash()
    assert not workers._lent
    assert tree.shape().nodes > 5
    assert notes == list(range(0, EVENTS, BATCH))
    assert mesh.fetches > 0  # splits tested columns that batches under way did not have
    assert workers.load().sent_bytes - before > EVENTS * 40 * 8


def test_events_that_are_elsewhere_cannot_be_kept(workers: RayWorkers) -> None:
    tree = VerticalTree(fresh(), workers, Vertical(2, "wk", lag=70, keep=40))
    with pytest.raises(ParamsError, match="keep is 40; expected 0"):
        tree.learn_distant(object())  # type: ignore[arg-type]
