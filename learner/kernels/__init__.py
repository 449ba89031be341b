"""Formulas, each one small compiled function.

Letters, everywhere in this folder and in ``variants``:

    i  attribute (j where only numeric columns are meant)      k  class
    v  value of a nominal attribute, or a token                node, slot, row as they say
    n  weight observed by a node since it was created          n_ijk, n_ij, n_k counts (weights)
    G  gain of a candidate, bigger is better                   epsilon  radius of the split test

A *node* is a place in the tree. A *slot* is a place for observers: every active leaf owns one.
The first axis of every array of ``Nodes`` is the node, of ``Observers`` the slot.
"""
