"""Stories, one paper a file. The whole registry is the table below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from learner.params import TreeParams


class Variant(NamedTuple):
    """A published algorithm that a tree can follow: a story, and the parameters of its paper."""

    name: str
    year: int
    paper: str
    summary: str
    choose: str
    cost: str
    defaults: Mapping[str, Any]

    def params_from(self, given: Mapping[str, Any]) -> TreeParams:
        """The parameters given, else the variant's own; raises ParamsError with every problem."""
        return TreeParams.from_mapping(given, self.defaults)


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant(
            "vfdt",
            2000,
            "Domingos & Hulten: Mining High-Speed Data Streams",
            "splits once the best attribute leads the second best by the Hoeffding bound",
            "the plain baseline: fast, best understood",
            "one evaluation of all attributes every n_min events of a leaf",
            {},
        ),
        Variant(
            "vfdtc",
            2003,
            "Gama, Rocha & Medas: Accurate Decision Trees for Mining High-Speed Data Streams",
            "every observed value is a cut point; naive Bayes at the leaves",
            "numeric attributes whose best cut must be exact, accuracy from few events",
            "memory and evaluation grow with the distinct values at a leaf",
            {
                "numeric_observer": "ordered",
                "leaf_predictor": "nb",
                "delta": 5e-5,
                "tau": 0.05,
            },
        ),
        Variant(
            "streamtree",
            2003,
            "Jin & Agrawal: Efficient Decision Tree Construction on Streaming Data",
            "a memory budget for statistics, pruned numeric intervals, a normal split test",
            "a fixed memory for statistics, and trees that may stop growing",
            "a leaf waits in a queue until memory is free for its statistics",
            {
                "numeric_observer": "intervals",
                "split_test": "normal_min",
                "nominal_split": "subset",
                "n_first": 1000.0,
                "n_min": 500.0,
                "queue_bytes": 60_000_000,
            },
        ),
        Variant(
            "cgd",
            2018,
            "Garcia-Martin et al.: Hoeffding Trees with nmin adaptation",
            "waits until the bound can have fallen to the gap between the two best",
            "fewer attempts than vfdt on a quiet stream",
            "late splits where the gap widens while a leaf waits",
            {"timing": "cgd"},
        ),
        Variant(
            "osm",
            2018,
            "Losing, Wersing & Hammer: Enhancing VFDT with Local Split-Time Predictions",
            "waits until even the most helpful future could make an attempt succeed",
            "fewer attempts than vfdt, hardly any split later",
            "about 18 evaluations of one split more after each failed attempt",
            {"timing": "osm"},
        ),
        Variant(
            "efdt",
            2018,
            "Manapragada, Webb & Salehi: Extremely Fast Decision Tree",
            "splits once splitting beats not splitting, and replaces splits that are overtaken",
            "early accuracy, and streams whose rule changes",
            "statistics at every node: each event is counted once a level",
            {"policy": "anytime", "leaf_predictor": "nba"},
        ),
        Variant(
            "imac",
            2020,
            "Sun et al.: Speeding up Very Fast Decision Tree with Low Computational Cost",
            "follows the best candidates event by event and attempts when they pass",
            "splits without delay, and many attributes",
            "K measures more with every event: slower than vfdt on few attributes, faster on many",
            {"timing": "imac"},
        ),
        Variant(
            "vht",
            2016,
            "Kourtellis et al.: VHT: Vertical Hoeffding Tree",
            "vfdt, with the statistics of the attributes spread over workers",
            "events of thousands of attributes, on a machine with several cores",
            "messages to workers; below some hundred attributes one thread is faster",
            {"audit_fraction": 0.0},
        ),
    )
}
