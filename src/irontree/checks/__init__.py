"""Runners of the repository's own checks: adapters of the port `CheckRunner`."""
