"""The `gitea` forge: issues and pull requests on a Gitea or Forgejo server, over its REST API (version 1).

gitea_http       the client: token, retries, pages, redirects
gitea_refusals   what each refusal means
gitea_mapping    JSON to the values of the port
gitea_issues, gitea_pulls   the port, on what gitea_access shares
"""

from __future__ import annotations

from urllib.parse import quote

from irontree.forges.gitea_issues import GiteaIssues
from irontree.forges.gitea_pulls import GiteaPullRequests


class GiteaForge(GiteaIssues, GiteaPullRequests):
    """Implements `Forge`. Forgejo answers the same calls in the same way."""

    name = "gitea"

    def issue_url(self, number: int) -> str | None:
        """The page of the issue."""
        return f"{self._client.web}/issues/{number}"

    def commit_url(self, sha: str | None) -> str | None:
        """The page of the commit."""
        return f"{self._client.web}/commit/{sha}" if sha else None

    def file_url(self, branch: str, path: str) -> str | None:
        """The page of the file on that branch."""
        return f"{self._client.web}/src/branch/{quote(branch)}/{quote(path)}"
