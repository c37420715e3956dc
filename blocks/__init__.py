"""Prefect blocks: credentials and the place of a repository."""

from irontree.blocks.gitea_credentials import GiteaCredentials
from irontree.blocks.github_credentials import GitHubCredentials
from irontree.blocks.repository import IrontreeRepository, load_repository

__all__ = ["GitHubCredentials", "GiteaCredentials", "IrontreeRepository", "load_repository"]
