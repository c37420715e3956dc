"""The loop entity: start, spend, halt, resume, choose, and the budgets of agents (protocol, Loop Mode)."""

from __future__ import annotations
