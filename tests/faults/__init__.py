"""What breaks, and that nothing is lost by it."""
