"""A package, so that the fixtures of `tests/prefect`, with a server, end with its last test."""
