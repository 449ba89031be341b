"""Observers of numeric attributes."""
