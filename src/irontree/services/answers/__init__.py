"""Puts approvals into force and records answers from every channel."""
