"""Who runs the workers of a vertical tree: threads of this process, or actors on Ray."""
