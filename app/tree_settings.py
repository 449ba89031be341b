"""The parameters of the tree as settings; the learner checks them again, and how they go together.

None means the variant's own value, so that `variant: imac` alone is the published algorithm. The
parameter `reference_from` is missing on purpose: it measures, and has no place in a service.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.group import Group


class TreeSettings(Group):
    """Parameters of the tree; where none is set, the variant's own holds."""

    timing: Literal["periodic", "cgd", "osm", "imac"] | None = None
    """When a leaf is checked: every n_min, when it may split (cgd, osm), at each event (imac)."""
    n_min: float | None = Field(default=None, gt=0, le=1e15)
    """Weight that a leaf sees between two split attempts."""
    n_first: float | None = Field(default=None, ge=0, le=1e15)
    """Weight that a leaf sees before its first attempt; 0: n_min."""
    max_wait: float | None = Field(default=None, ge=1, le=1e15)
    """Longest predicted wait of a leaf (cgd, osm)."""
    mu: float | None = Field(default=None, gt=0, le=1e15)
    """Weight between two checks of the followed attributes (imac)."""
    candidates: int | None = Field(default=None, ge=0, le=1000)
    """How many attributes are followed event by event (imac); 0: a tenth of them, from 5 to 10."""
    mu_swaps: Literal["one", "all"] | None = None
    """How many attributes one check may exchange (imac)."""
    min_attempt_gap: float | None = Field(default=None, ge=0, le=1e15)
    """Least weight between two split attempts at a leaf (imac)."""
    policy: Literal["commit_once", "anytime", "anytime_eager"] | None = None
    """Whether a split stays for good, or is looked at again and replaced by a better one."""
    reevaluate_every: float | None = Field(default=None, gt=0, le=1e15)
    """Weight that an inner node sees between two looks at its split (anytime)."""
    refine_threshold: bool | None = None
    """Move the cut of a numeric split that is still the best attribute (anytime)."""
    collapse_after: float | None = Field(default=None, ge=0, le=1e15)
    """Weight without a useful attribute until a subtree becomes a leaf (anytime); 0: never."""
    split_test: Literal["hoeffding", "normal_min", "normal_strict"] | None = None
    """Which radius the lead of the best attribute must exceed."""
    covariance: Literal["independent", "worst_case"] | None = None
    """How the spreads of the two best gains are joined (normal tests)."""
    delta: float | None = Field(default=None, gt=0, lt=1)
    """Probability that a split is not the one more data would choose."""
    tau: float | None = Field(default=None, ge=0, le=100)
    """A bound below this counts as a tie: split on the better one."""
    criterion: Literal["info_gain", "gini"] | None = None
    """How the merit of a split is measured."""
    gini_range: Literal["one", "tight"] | None = None
    """Range of the Gini merit in the bound: 1, or 1 - 1/classes."""
    null_merit: Literal["zero", "minus_inf"] | None = None
    """Merit of not splitting."""
    min_merit: float | None = Field(default=None, ge=0, le=100)
    """Least merit of a split."""
    min_branch_fraction: float | None = Field(default=None, ge=0, le=0.5)
    """Least share of the weight that two branches of a split must hold."""
    bound_n: Literal["weight", "effective"] | None = None
    """What counts as the number of events in the bound when events have weights."""
    numeric_observer: Literal["gaussian", "ordered", "sample", "intervals"] | None = None
    """What a leaf keeps of a numeric feature."""
    split_points: int | None = Field(default=None, ge=1, le=1000)
    """Cut points tried for a numeric feature (gaussian)."""
    max_distinct: int | None = Field(default=None, ge=2, le=2**24)
    """Most distinct values of a feature at a leaf (ordered); more become intervals."""
    intervals: int | None = Field(default=None, ge=2, le=100_000)
    """Intervals of equal width that the range of a numeric feature is cut into (intervals)."""
    interval_details: Literal["discard", "keep"] | None = None
    """What becomes of the values inside intervals that cannot hold the best cut (intervals)."""
    interval_bound: Literal["auto", "corner", "loose"] | None = None
    """Upper bound of the merit inside an interval (intervals); auto: corner up to four classes."""
    nominal_split: Literal["multiway", "binary", "subset"] | None = None
    """One branch for each value, or one value, or a set of values, against the rest."""
    unseen: Literal["other", "grow"] | None = None
    """Where a value goes that a multiway split has no branch for."""
    leaf_predictor: Literal["mc", "nb", "nba"] | None = None
    """How a leaf predicts: majority class, naive Bayes, or the better of both."""
    new_leaf: Literal["separate", "inherit", "empty"] | None = None
    """What a new leaf knows of its parent's events."""
    remove_poor: bool | None = None
    """Drop features at a leaf that can hardly win there any more."""
    max_memory_bytes: int | None = Field(default=None, ge=0, le=2**62)
    """Memory of the tree; 0: unbounded."""
    memory_check_every: int | None = Field(default=None, ge=1, le=2**62)
    """Events between two checks of the memory."""
    queue_bytes: int | None = Field(default=None, ge=0, le=2**62)
    """Memory for the statistics of the leaves that learn, while others queue; 0: no queues."""
    queue_order: Literal["fifo", "promise"] | None = None
    """Which leaf of the queue learns next (queues): the oldest, or the one with the most errors."""
    stop_purity: float | None = Field(default=None, ge=0, le=1)
    """Share of one class at which a leaf is done (queues); 0: never."""
    stop_depth: int | None = Field(default=None, ge=0, le=2**31)
    """Leaves this deep are never split (queues); 0: no limit."""
    stop_share: float | None = Field(default=None, ge=0, le=1)
    """A leaf that gets a smaller share of the stream is done (queues); 0: never."""
    reopen: bool | None = None
    """Queue a leaf again that was done and is no longer of one class (queues)."""
    audit_fraction: float | None = Field(default=None, ge=0, le=1)
    """Share of the leaves whose split delay is measured."""
    audit_step: int | None = Field(default=None, ge=0, le=2**31)
    """Events of an audited leaf between two audits; 0: chosen by the kinds of the features."""

    def given(self) -> dict[str, Any]:
        """Return what was set; the rest is the variant's."""
        return self.model_dump(exclude_none=True)


class HistorySettings(Group):
    """The record of changes of the tree."""

    keep: int = Field(default=5000, ge=1, le=100_000)
    """Changes that `GET /splits` keeps; of leaves without a split, a quarter as many."""
