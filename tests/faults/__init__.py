"""Faults: what happens, what is said, which metric moves, how the process ends, what is kept."""
