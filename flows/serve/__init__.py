"""Serving the flows of repositories: from a terminal, or permanently with `irontree serve`."""
