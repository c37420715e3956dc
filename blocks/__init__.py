"""Prefect blocks: credentials and the place of a repository, turned into ports."""

from irontree.blocks.gitea_credentials import GiteaCredentials
from irontree.blocks.github_credentials import GitHubCredentials
from irontree.blocks.repository import IrontreeRepository

__all__ = ["GitHubCredentials", "GiteaCredentials", "IrontreeRepository"]
