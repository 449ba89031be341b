"""The slow twin: the papers' procedures in plain dictionaries, importing nothing of ours."""
