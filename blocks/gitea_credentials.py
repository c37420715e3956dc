"""The token of an account on Gitea or Forgejo, kept by Prefect instead of the environment."""

from __future__ import annotations

from prefect.blocks.core import Block
from pydantic import Field, SecretStr


class GiteaCredentials(Block):
    """A token of an account with write access to the repository; where that is, its configuration says."""

    _block_type_name = "Iron Tree Gitea Credentials"
    _block_type_slug = "irontree-gitea-credentials"

    token: SecretStr = Field(description="With the scopes write:issue, write:repository and read:user.")

    def variables(self) -> dict[str, str]:
        """The same as the environment variables that docs/forges.md names; for a process of our own alone."""
        return {"GITEA_TOKEN": self.token.get_secret_value()}
