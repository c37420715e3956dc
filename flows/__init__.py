"""Prefect flows: they read like the protocol's prose and decide nothing themselves."""
