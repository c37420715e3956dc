"""The command line with a repository whose issues are on GitHub: what a person types, against the double."""

from __future__ import annotations

import pytest

from irontree.domain.state import COLORS
from tests.support.github.server import GithubServer, serve
from tests.support.github.state import Hub


@pytest.fixture
def server():
    hub = Hub(labels={name.casefold(): label(name) for name in COLORS})
    with serve(hub) as running:
        yield running


def label(name: str) -> dict[str, object]:
    return {"id": 1, "node_id": "L_1", "name": name, "color": "ededed", "description": None, "default": False}


def move_to_github(shell, server: GithubServer) -> None:
    config = shell.root / ".mino/config.yml"
    forge = f"forge:\n  adapter: github\n  url: {server.url}\n  repository: ada/engine\n"
    config.write_text(f"agent:\n  command: agent\nverify:\n  commands: [{{name: tests, run: 'true'}}]\n{forge}")


def publish(shell):
    (shell.root / "MORE.md").write_text("# More\n\n## First text\n\n- [ ] It is there (check: tests)\n\nKey: more\n")
    name = shell("task", "MORE.md", "--plan", "--json").data["name"]
    return shell("task", "MORE.md", "--stepwise", "--approve", name)


@pytest.fixture
def on_github(bare_shell, server: GithubServer, monkeypatch):
    """The shell in a repository that is set up for the double."""
    monkeypatch.setenv("GITHUB_TOKEN", "token-irontree")
    (bare_shell.root / ".mino").mkdir()
    move_to_github(bare_shell, server)
    assert bare_shell("init").code == 0
    return bare_shell


def test_setting_up_says_where_issues_go_and_as_whom(on_github, server: GithubServer):
    done = on_github("init")
    assert done.code == 0, done.err
    assert f"issues go to {server.url}/ada/engine as irontree, who may write" in done.out


def forge_lines(shell) -> list[str]:
    return [finding["found"] for finding in shell("doctor", "--json").data["findings"] if finding["what"] == "forge"]


def test_the_doctor_says_who_we_are_and_what_is_in_the_way(on_github, server: GithubServer, monkeypatch):
    assert forge_lines(on_github) == [f"github: issues go to {server.url}/ada/engine as irontree, who may write"]
    server.hub.archived = True
    assert forge_lines(on_github)[0] == "ada/engine is archived"
    monkeypatch.setenv("GITHUB_TOKEN", "token-mallory")
    assert "mallory may not write to ada/engine" in forge_lines(on_github)
    monkeypatch.setenv("GITHUB_TOKEN", "revoked")
    assert "does not accept the token" in forge_lines(on_github)[0]
    monkeypatch.delenv("GITHUB_TOKEN")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert "no credential" in forge_lines(on_github)[0]


def test_the_doctor_says_that_merged_branches_stay_where_requests_are_opened(on_github, server: GithubServer):
    said = "the branches of merged requests stay"
    server.hub.deletes_merged_branches = False
    assert said not in forge_lines(on_github)
    config = on_github.root / ".mino" / "config.yml"
    config.write_text(config.read_text() + "publish: {mode: pull_request, remote: origin}\n")
    assert said in forge_lines(on_github)
    server.hub.deletes_merged_branches = True
    assert said not in forge_lines(on_github)


def test_a_document_becomes_issues_there_and_the_token_nowhere(on_github, server: GithubServer):
    done = publish(on_github)
    assert done.code == 0, done.err
    assert f"are written to `{server.url}/ada/engine`" in done.out, "the approval names the place"
    (issue,) = server.hub.issues.values()
    assert (issue["title"], issue["state"], issue["author"]) == ("First text", "open", "irontree")
    assert issue["labels"] == {"enhancement", "stage:task"}
    texts = [path.read_text(errors="replace") for path in (on_github.root / ".mino").rglob("*") if path.is_file()]
    assert not any("token-irontree" in text for text in texts)


def test_a_log_that_began_on_another_forge_is_not_mixed_with_this_one(shell, server: GithubServer, monkeypatch):
    """The numbers of two trackers mean different issues."""
    monkeypatch.setenv("GITHUB_TOKEN", "token-irontree")
    move_to_github(shell, server)
    refused = publish(shell)
    assert refused.code == 1
    assert "#1" in refused.err
    assert "began on another forge" in refused.err
    assert [issue["state"] for issue in server.hub.issues.values()] == ["closed"]
