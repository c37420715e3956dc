"""Prefect tasks, one service call each, and everything that Prefect shows about a step."""
