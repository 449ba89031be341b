"""The live page in a real browser, on real services."""
