"""Prepares an attempt: the request to the agent, and whether the attempt may start."""
