"""All git queries and actions, with their hygiene rules (R3, R4, R5)."""

from irontree.repository.repository import GitRepository, open_repository

__all__ = ["GitRepository", "open_repository"]
