"""Prefect blocks: credentials and the place of a repository."""

from irontree.blocks.credentials import GiteaCredentials, GitHubCredentials
from irontree.blocks.repository import IrontreeRepository, load_repository

__all__ = ["GitHubCredentials", "GiteaCredentials", "IrontreeRepository", "load_repository"]
