"""Stories, one paper a file. The whole registry is the table below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from learner.params import TreeParams
from learner.variants import vfdt


class Variant(NamedTuple):
    """A published algorithm that a tree can follow."""

    name: str
    year: int
    paper: str
    summary: str
    params: type[TreeParams]
    learn_many: Callable[..., Any]


VARIANTS: dict[str, Variant] = {
    "vfdt": Variant(
        "vfdt",
        2000,
        "Domingos & Hulten: Mining High-Speed Data Streams",
        "splits once the best attribute leads by the Hoeffding bound; the plain, fast baseline",
        TreeParams,
        vfdt.learn_many,
    ),
}
