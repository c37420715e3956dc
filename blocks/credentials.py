"""Prefect blocks with a worker's credentials for forges; their values are shown nowhere."""

from __future__ import annotations

from prefect.blocks.core import Block
from pydantic import Field, SecretStr, model_validator


class GiteaCredentials(Block):
    """A token of an account with write access to the repository; where that is, its configuration says."""

    _block_type_name = "Iron Tree Gitea Credentials"
    _block_type_slug = "irontree-gitea-credentials"

    token: SecretStr = Field(description="With the scopes write:issue, write:repository and read:user.")

    def variables(self) -> dict[str, str]:
        """The same as the environment variables that docs/forges.md names; for a process of our own alone."""
        return {"GITEA_TOKEN": self.token.get_secret_value()}


# --- GitHub


class GitHubCredentials(Block):
    """A token, or the key of a GitHub App that is installed where the repository is."""

    _block_type_name = "Iron Tree GitHub Credentials"
    _block_type_slug = "irontree-github-credentials"

    token: SecretStr | None = Field(default=None, description="A personal access token; leave it empty for an App.")
    app_id: str | None = Field(default=None, description="The App's id or client id.")
    private_key: SecretStr | None = Field(default=None, description="The App's private key, the text of the .pem file.")
    installation_id: int | None = Field(
        default=None, description="The number at the end of the installation's address."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> GitHubCredentials:
        app = (self.app_id, self.private_key, self.installation_id)
        if self.token is None and not all(app):
            raise ValueError("a token is missing, or one of app_id, private_key and installation_id")
        if self.token is not None and any(app):
            raise ValueError("either a token or an App, not both")
        return self

    def variables(self) -> dict[str, str]:
        """The same as the environment variables that docs/forges.md names; for a process of our own alone."""
        if self.token is not None:
            return {"GITHUB_TOKEN": self.token.get_secret_value(), "GITHUB_APP_ID": ""}
        key = self.private_key.get_secret_value() if self.private_key else ""
        return {
            "GITHUB_APP_ID": self.app_id or "",
            "GITHUB_APP_PRIVATE_KEY": key,
            "GITHUB_APP_INSTALLATION_ID": str(self.installation_id),
        }
