"""What comes from outside, made hostile."""
