"""Prefect tasks: one service call each, and all that Prefect shows about a step."""
