"""Tests of the learner: formulas, and the tree against its slow twin."""
