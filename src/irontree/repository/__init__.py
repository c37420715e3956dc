"""Every git question and action, with the hygiene rules enforced here (design, section 2; rulings R3 to R5)."""

from irontree.repository.repository import GitRepository, open_repository

__all__ = ["GitRepository", "open_repository"]
