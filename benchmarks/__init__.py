"""One script a question. Ratios from one run are what to trust; see README.md beside this file."""
