"""The parameters of a tree, with their bounds, and their translation for the kernels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from learner.errors import ParamsError
from learner.kernels.bound import GINI, INFO_GAIN
from learner.kernels.rules import ADAPTIVE, EMPTY, INHERIT, MAJORITY, NAIVE_BAYES, SEPARATE, Rules

CHOICES: dict[str, dict[str, int]] = {
    "criterion": {"info_gain": INFO_GAIN, "gini": GINI},
    "gini_range": {"one": 0, "tight": 1},
    "leaf_predictor": {"mc": MAJORITY, "nb": NAIVE_BAYES, "nba": ADAPTIVE},
    "new_leaf": {"separate": SEPARATE, "inherit": INHERIT, "empty": EMPTY},
    "null_merit": {"zero": 1, "minus_inf": 0},
    "nominal_split": {"multiway": 0, "binary": 1},
    "unseen": {"other": 0, "grow": 1},
    "bound_n": {"weight": 0, "effective": 1},
}

# name -> (lowest, highest, whether the lowest itself is allowed)
BOUNDS: dict[str, tuple[float, float, bool]] = {
    "n_min": (0.0, 1e15, False),
    "delta": (0.0, 1.0, False),
    "tau": (0.0, 100.0, True),
    "min_merit": (0.0, 100.0, True),
    "min_branch_fraction": (0.0, 0.5, True),
    "split_points": (1, 1000, True),
    "max_memory_bytes": (0, 2**62, True),
    "memory_check_every": (1, 2**62, True),
    "audit_fraction": (0.0, 1.0, True),
    "audit_step": (0, 2**31, True),
}


@dataclass(frozen=True)
class TreeParams:
    """What every variant understands; the defaults are VFDT's."""

    n_min: float = 200.0  # weight between two checks of a leaf
    delta: float = 1e-7  # allowed error of one decision
    tau: float = 0.05  # below this bound a tie is broken
    criterion: str = "info_gain"
    gini_range: str = "one"
    leaf_predictor: str = "mc"
    new_leaf: str = "separate"
    null_merit: str = "zero"
    nominal_split: str = "multiway"
    unseen: str = "other"
    min_branch_fraction: float = 0.01  # two branches must hold more than this share
    min_merit: float = 1e-10  # a split must gain more than this
    split_points: int = 10  # candidate cuts of a numeric attribute
    bound_n: str = "weight"
    remove_poor: bool = False  # drop hopeless attributes at a leaf
    max_memory_bytes: int = 0  # 0 = unbounded
    memory_check_every: int = 10_000  # events
    audit_fraction: float = 0.01  # share of leaves whose split delay is measured
    audit_step: int = 0  # events between two audits of a leaf; 0 = 1, or 10 with numeric features

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> TreeParams:
        """Parameters from names and values; raises ParamsError with every problem at once."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        problems = []
        taken: dict[str, Any] = {}
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
        if taken.get("remove_poor") and taken.get("leaf_predictor", "mc") != "mc":
            problems.append(
                f"parameter 'remove_poor' is true with leaf_predictor "
                f"'{taken['leaf_predictor']}'; expected false, since naive Bayes needs every "
                "attribute"
            )
        if problems:
            raise ParamsError(problems)
        return cls(**taken)

    def rules(self, *, has_numeric: bool) -> Rules:
        """The same as numbers for the kernels."""
        code = {name: table[getattr(self, name)] for name, table in CHOICES.items()}
        return Rules(
            n_min=float(self.n_min),
            log_inverse_delta=math.log(1.0 / self.delta),
            tau=float(self.tau),
            min_merit=float(self.min_merit),
            min_branch_fraction=float(self.min_branch_fraction),
            split_points=int(self.split_points),
            criterion=code["criterion"],
            tight_range=bool(code["gini_range"]),
            null_competes=bool(code["null_merit"]),
            binary_nominal=bool(code["nominal_split"]),
            grow_unseen=bool(code["unseen"]),
            new_leaf=code["new_leaf"],
            predictor=code["leaf_predictor"],
            effective_n=bool(code["bound_n"]),
            remove_poor=bool(self.remove_poor),
            max_memory_bytes=int(self.max_memory_bytes),
            memory_check_every=int(self.memory_check_every),
            audit_fraction=float(self.audit_fraction),
            audit_step=int(self.audit_step) or (10 if has_numeric else 1),
        )


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
    if not number or (whole and value != int(value)):
        return f"parameter '{name}' is {value!r}; expected {expected}", None
    if (
        not (low <= value <= high)
        or (value == low and not closed)
        or (name == "delta" and value >= 1)
    ):
        return f"parameter '{name}' is {value!r}; expected {expected}", None
    return "", int(value) if whole else float(value)
