"""VFDTc: exact splits on numeric attributes, and naive Bayes at the leaves.

Paper
    [GRM03] J. Gama, R. Rocha, P. Medas: Accurate Decision Trees for Mining High-Speed Data Streams.
    KDD 2003.
Idea
    A leaf keeps every observed value of a numeric attribute with its class counts in order, so that
    every value is a cut point with exact counts; and it predicts by naive Bayes from what it keeps
    anyway, which uses the events of a young leaf far better than their majority.
Differs from VFDT
    Numeric observers (learner/kernels/numeric/: entries.py is the ordered map, ordered.py all cut
    points in one sweep, bins.py the intervals of naive Bayes), the other branch for values that a
    nominal split has not seen, and functional leaves. When and how a leaf splits is VFDT's, and
    does not depend on how it predicts.
Symbols
    VE, VH the class weights up to and above a cut; p_min the least share of a branch
    (min_branch_fraction); min(10, distinct) intervals between the lowest and highest value.
Departures
    - A sorted array with a tail that is merged in when it is needed, for the paper's binary tree,
      which becomes a list on sorted input. The counts are the same.
    - More than max_distinct values: equal intervals take over, and memory stays bounded.
    - Shares are Laplace-corrected; the table of intervals is counted anew as the leaf grows, where
      the paper counts it once, between training and testing.
    - delta 5e-5 and tau 0.05: the reading of the printed values under which the paper's own tree
      sizes can be reached.
"""

from __future__ import annotations

from learner.kernels.jit import inner, int64
from learner.kernels.numeric.bins import build_bins
from learner.kernels.rules import Rules, Scratch
from learner.kernels.tree import CLASSES, Tree


@inner
def count_intervals(tree: Tree, rules: Rules, scratch: Scratch, node: int) -> None:
    """Count the intervals of naive Bayes anew when the leaf has doubled, or grown by n_min."""
    at = tree.node[node]
    watch = tree.slot[at.slot]
    if at.n - watch.binned_n >= min(rules.n_min, max(1.0, watch.binned_n)):
        watch.binned_n = at.n
        build_bins(tree, rules, scratch, int64(at.slot), tree.counts[CLASSES])
