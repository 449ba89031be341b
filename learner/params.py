"""The parameters of a tree, with their bounds, and their translation for the kernels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from learner.errors import ParamsError
from learner.kernels import rules as code
from learner.kernels.bound import GINI, INFO_GAIN
from learner.kernels.rules import ADAPTIVE, EMPTY, INHERIT, MAJORITY, NAIVE_BAYES, SEPARATE, Rules

CHOICES: dict[str, dict[str, int]] = {
    "timing": {
        "periodic": code.PERIODIC,
        "cgd": code.PREDICTED_GAP,
        "osm": code.PREDICTED_PURITY,
        "imac": code.FOLLOWED,
    },
    "policy": {
        "commit_once": code.COMMIT_ONCE,
        "anytime": code.ANYTIME,
        "anytime_eager": code.ANYTIME_EAGER,
    },
    "split_test": {
        "hoeffding": code.HOEFFDING,
        "normal_min": code.NORMAL_MIN,
        "normal_strict": code.NORMAL_STRICT,
    },
    "covariance": {"independent": 0, "worst_case": 1},
    "criterion": {"info_gain": INFO_GAIN, "gini": GINI},
    "gini_range": {"one": 0, "tight": 1},
    "numeric_observer": {
        "gaussian": code.GAUSSIAN,
        "ordered": code.ORDERED,
        "sample": code.SAMPLE,
        "intervals": code.INTERVALS,
    },
    "interval_details": {"discard": 0, "keep": 1},
    "interval_bound": {
        "auto": code.AUTO_BOUND,
        "corner": code.CORNER_BOUND,
        "loose": code.LOOSE_BOUND,
    },
    "leaf_predictor": {"mc": MAJORITY, "nb": NAIVE_BAYES, "nba": ADAPTIVE},
    "new_leaf": {"separate": SEPARATE, "inherit": INHERIT, "empty": EMPTY},
    "null_merit": {"zero": 1, "minus_inf": 0},
    "nominal_split": {
        "multiway": code.BY_VALUE,
        "binary": code.ONE_AGAINST_REST,
        "subset": code.BY_SUBSET,
    },
    "unseen": {"other": 0, "grow": 1},
    "bound_n": {"weight": 0, "effective": 1},
    "mu_swaps": {"one": 0, "all": 1},
    "queue_order": {"fifo": 0, "promise": 1},
}

# name -> (lowest, highest, whether the lowest itself is allowed)
BOUNDS: dict[str, tuple[float, float, bool]] = {
    "n_min": (0.0, 1e15, False),
    "n_first": (0.0, 1e15, True),
    "delta": (0.0, 1.0, False),
    "tau": (0.0, 100.0, True),
    "min_merit": (0.0, 100.0, True),
    "min_branch_fraction": (0.0, 0.5, True),
    "split_points": (1, 1000, True),
    "max_distinct": (2, 2**24, True),
    "intervals": (2, 100_000, True),
    "mu": (0.0, 1e15, False),
    "candidates": (0, 1000, True),
    "min_attempt_gap": (0.0, 1e15, True),
    "max_wait": (1.0, 1e15, True),
    "reevaluate_every": (0.0, 1e15, False),
    "collapse_after": (0.0, 1e15, True),
    "queue_bytes": (0, 2**62, True),
    "stop_purity": (0.0, 1.0, True),
    "stop_depth": (0, 2**31, True),
    "stop_share": (0.0, 1.0, True),
    "max_memory_bytes": (0, 2**62, True),
    "memory_check_every": (1, 2**62, True),
    "audit_fraction": (0.0, 1.0, True),
    "audit_step": (0, 2**31, True),
    "reference_from": (0.0, 1e15, True),
}


@dataclass(frozen=True)
class TreeParams:
    """What every variant understands; the defaults are VFDT's, other variants have their own."""

    timing: str = "periodic"  # when a leaf is checked
    n_min: float = 200.0  # weight between two checks of a leaf
    n_first: float = 0.0  # weight before a leaf's first check; 0 = n_min
    max_wait: float = 100_000.0  # cgd, osm: the longest wait for the next check
    mu: float = 200.0  # imac: weight between two checks of the candidates
    candidates: int = 0  # imac: attributes followed; 0 = a tenth of them, from 5 to 10
    mu_swaps: str = "one"  # imac: exchanges in one check of the candidates
    min_attempt_gap: float = 1.0  # imac: least weight between two attempts at a leaf
    policy: str = "commit_once"  # whether a split stays for good
    reevaluate_every: float = 2000.0  # anytime: weight between two looks at a split
    refine_threshold: bool = False  # anytime: move the cut of a numeric split that is still best
    collapse_after: float = 0.0  # anytime: weight without a useful attribute; 0 = never
    split_test: str = "hoeffding"
    covariance: str = "independent"  # normal tests: of the two best gains
    delta: float = 1e-7  # allowed error of one decision
    tau: float = 0.05  # below this bound a tie is broken
    criterion: str = "info_gain"
    gini_range: str = "one"
    null_merit: str = "zero"
    min_merit: float = 1e-10  # a split must gain more than this
    min_branch_fraction: float = 0.01  # two branches must hold more than this share
    bound_n: str = "weight"
    numeric_observer: str = "gaussian"
    split_points: int = 10  # gaussian: candidate cuts of a numeric attribute
    max_distinct: int = 20_000  # ordered: values of one attribute at a leaf; more become intervals
    intervals: int = 500  # of equal width
    interval_details: str = "keep"  # intervals: values inside those that cannot win
    interval_bound: str = "auto"  # intervals: of the gain inside; corner up to four classes
    nominal_split: str = "multiway"
    unseen: str = "other"
    leaf_predictor: str = "mc"
    new_leaf: str = "separate"
    remove_poor: bool = False  # drop hopeless attributes at a leaf
    max_memory_bytes: int = 0  # 0 = unbounded
    memory_check_every: int = 10_000  # events
    queue_bytes: int = 0  # statistics of the nodes that learn, the others queue; 0 = no queues
    queue_order: str = "fifo"
    stop_purity: float = 0.95  # queues: a node is done with this share of one class
    stop_depth: int = 12  # queues: nodes this deep are never split
    stop_share: float = 0.01  # queues: a node is done that gets less of the stream
    reopen: bool = False  # queues: a node that is no longer pure queues again
    audit_fraction: float = 0.01  # share of leaves whose split delay is measured
    audit_step: int = 0  # events between two audits of a leaf; 0 = 1, or 10 with numeric features
    reference_from: float = 0.0  # an every-event reference grows the tree from this n; 0 = off

    @classmethod
    def from_mapping(
        cls, given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
    ) -> TreeParams:
        """Parameters from names and values; raises ParamsError with every problem at once."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        problems = []
        taken: dict[str, Any] = dict(defaults or {})
        for name, value in given.items():
            if name not in fields:
                known = ", ".join(fields)
                problems.append(f"parameter '{name}' is unknown; expected one of {known}")
                continue
            problem, clean = _checked(name, fields[name].default, value)
            if problem:
                problems.append(problem)
            else:
                taken[name] = clean
        params = cls(**taken)
        problems += contradictions(params)
        if problems:
            raise ParamsError(problems)
        return params

    @property
    def measured_late(self) -> bool:
        """Whether it is known how long candidates stay silent: see learner/kernels/quiet.py."""
        return (
            self.timing == "imac"
            and self.policy == "commit_once"
            and self.split_test == "hoeffding"
            and self.null_merit == "zero"
            and self.new_leaf != "inherit"
            and self.bound_n == "weight"
            and self.reference_from == 0
        )

    def rules(self, *, has_numeric: bool) -> Rules:
        """The same as numbers for the kernels."""
        chosen = {name: table[getattr(self, name)] for name, table in CHOICES.items()}
        return Rules(
            n_min=float(self.n_min),
            log_inverse_delta=math.log(1.0 / self.delta),
            tau=float(self.tau),
            min_merit=float(self.min_merit),
            min_branch_fraction=float(self.min_branch_fraction),
            split_points=int(self.split_points),
            criterion=chosen["criterion"],
            tight_range=bool(chosen["gini_range"]),
            null_competes=bool(chosen["null_merit"]),
            nominal_split=chosen["nominal_split"],
            grow_unseen=bool(chosen["unseen"]),
            new_leaf=chosen["new_leaf"],
            predictor=chosen["leaf_predictor"],
            effective_n=bool(chosen["bound_n"]),
            remove_poor=bool(self.remove_poor),
            max_memory_bytes=int(self.max_memory_bytes),
            memory_check_every=int(self.memory_check_every),
            audit_fraction=float(self.audit_fraction),
            audit_step=int(self.audit_step) or (10 if has_numeric else 1),
            timing=chosen["timing"],
            policy=chosen["policy"],
            split_test=chosen["split_test"],
            worst_covariance=bool(chosen["covariance"]),
            quantile=normal_quantile(self.delta),
            observer=chosen["numeric_observer"],
            max_distinct=int(self.max_distinct),
            intervals=int(self.intervals),
            keep_details=bool(chosen["interval_details"]),
            interval_bound=chosen["interval_bound"],
            n_first=float(self.n_first or self.n_min),
            mu=float(self.mu),
            candidates=int(self.candidates),
            swap_all=bool(chosen["mu_swaps"]),
            min_attempt_gap=float(self.min_attempt_gap),
            measured_late=self.measured_late,
            max_wait=float(self.max_wait),
            reevaluate_every=float(self.reevaluate_every),
            refine_threshold=bool(self.refine_threshold),
            collapse_after=float(self.collapse_after),
            queue_bytes=int(self.queue_bytes),
            queue_by_promise=bool(chosen["queue_order"]),
            stop_purity=float(self.stop_purity),
            stop_depth=int(self.stop_depth),
            stop_share=float(self.stop_share),
            reopen=bool(self.reopen),
            reference_from=float(self.reference_from),
        )


def normal_quantile(delta: float) -> float:
    """The z that a standard normal variable exceeds with probability delta; 0 from one half on.

    Rounded, so that the last digit of a mathematics library does not reach the model.
    """
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2.0
        if 0.5 * math.erfc(middle / math.sqrt(2.0)) > delta:
            low = middle
        else:
            high = middle
    return round(high, 9)


def contradictions(params: TreeParams) -> list[str]:
    """What is wrong between parameters that are right one by one, with the reason."""
    anytime, queues = params.policy != "commit_once", params.queue_bytes > 0
    followed = params.timing == "imac"
    clashes = (
        (
            params.remove_poor and params.leaf_predictor != "mc",
            "remove_poor", "true", f"leaf_predictor '{params.leaf_predictor}'",
            "false, since naive Bayes needs every attribute",
        ),
        (
            params.remove_poor and anytime,
            "remove_poor", "true", f"policy '{params.policy}'",
            "false, since a split that is looked at again needs every attribute",
        ),
        (
            params.remove_poor and followed,
            "remove_poor", "true", "timing 'imac'",
            "false, since imac has its own set of hopeless attributes",
        ),
        (
            anytime and params.new_leaf == "inherit",
            "new_leaf", "'inherit'", f"policy '{params.policy}'",
            "separate or empty, since a split is judged by the node's own events",
        ),
        (
            queues and anytime,
            "queue_bytes", str(params.queue_bytes), f"policy '{params.policy}'",
            "0, since queued nodes have no statistics to look at again",
        ),
        (
            queues and params.max_memory_bytes > 0,
            "queue_bytes", str(params.queue_bytes), f"max_memory_bytes {params.max_memory_bytes}",
            "one of the two, since both would own the same memory",
        ),
        (
            followed and params.nominal_split == "subset",
            "nominal_split", "'subset'", "timing 'imac'",
            "multiway or binary, since the set changes with every event and cannot be followed",
        ),
        (
            followed and params.refine_threshold,
            "refine_threshold", "true", "timing 'imac'",
            "false, since imac follows the installed test as it is",
        ),
        (
            params.candidates == 1,
            "candidates", "1", f"timing '{params.timing}'",
            "0 or at least 2, since the best is compared with the second best",
        ),
        (
            params.refine_threshold and not anytime,
            "refine_threshold", "true", "policy 'commit_once'",
            "false, since a split that stays is not looked at again",
        ),
        (
            params.collapse_after > 0.0 and not anytime,
            "collapse_after", f"{params.collapse_after:g}", "policy 'commit_once'",
            "0, since a split that stays is not looked at again",
        ),
        (
            params.reference_from > 0.0 and params.remove_poor,
            "remove_poor", "true", f"reference_from {params.reference_from:g}",
            "false, since the reference looks at every attribute",
        ),
        (
            params.numeric_observer == "intervals" and params.new_leaf == "inherit",
            "new_leaf", "'inherit'", "numeric_observer 'intervals'",
            "separate or empty, since the bound of an interval is about the node's own events",
        ),
        (
            params.reference_from > 0.0 and (anytime or queues or params.max_memory_bytes > 0),
            "reference_from", f"{params.reference_from:g}", "revised splits or bounded memory",
            "0, since the reference commits once and keeps every statistic",
        ),
    )  # fmt: skip
    return [
        f"parameter '{name}' is {value} with {other}; expected {expected}"
        for wrong, name, value, other, expected in clashes
        if wrong
    ]


def _checked(name: str, default: Any, value: Any) -> tuple[str, Any]:
    """A problem, or the clean value."""
    if name in CHOICES:
        if value in CHOICES[name]:
            return "", value
        return f"parameter '{name}' is {value!r}; expected {' or '.join(CHOICES[name])}", None
    if isinstance(default, bool):
        if isinstance(value, bool):
            return "", value
        return f"parameter '{name}' is {value!r}; expected true or false", None
    low, high, closed = BOUNDS[name]
    whole = isinstance(default, int)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    expected = f"a {'whole ' if whole else ''}number from {low:g} to {high:g}"
    expected += "" if closed else f", not {low:g} itself"
    if not number or (whole and isinstance(value, float) and not value.is_integer()):
        return f"parameter '{name}' is {value!r}; expected {expected}", None
    if (
        not (low <= value <= high)
        or (value == low and not closed)
        or (name == "delta" and value >= 1)
    ):
        return f"parameter '{name}' is {value!r}; expected {expected}", None
    return "", int(value) if whole else float(value)
