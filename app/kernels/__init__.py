"""Compiled readers of events: from the bytes of a batch to the arrays a tree learns from."""
