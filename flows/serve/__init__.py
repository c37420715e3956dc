"""Serving the flows of repositories: from a terminal, or all the time with `irontree serve`."""
