"""The loop entity, the choice of a loop for an approval, and the budgets of agents (protocol, Loop Mode)."""

from __future__ import annotations
