"""Effects on the forge, derived from the log: labels, comments, replies (ruling R9)."""
