"""Tests of livetree; every name of a test is a claim."""
