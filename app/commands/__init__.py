"""The commands of `livetree`, one a file: their options and words. The work is done elsewhere."""
