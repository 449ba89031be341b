"""The container image: built, and run as a cluster would run it."""
