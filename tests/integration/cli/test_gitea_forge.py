"""The command line with a repository whose issues are on Gitea: what a person types, against the double."""

from __future__ import annotations

from tests.support.gitea.server import GiteaServer


def forge_lines(shell) -> list[str]:
    return [finding["found"] for finding in shell("doctor", "--json").data["findings"] if finding["what"] == "forge"]


def test_the_doctor_says_who_we_are_and_what_is_in_the_way(on_gitea, gitea: GiteaServer, monkeypatch):
    line = f"gitea: issues go to {gitea.url}/palms/iron as irontree, who may write"
    unheard = "not everybody who may write is heard: irontree is no administrator of the repository"
    assert forge_lines(on_gitea) == [unheard, line]
    gitea.contents.account("irontree", "admin")
    assert forge_lines(on_gitea) == [line]
    gitea.contents.has_issues = False
    assert "palms/iron has no issues" in forge_lines(on_gitea)
    monkeypatch.setenv("GITEA_TOKEN", gitea.contents.account("mallory", "read"))
    assert "mallory may not write to palms/iron" in forge_lines(on_gitea)
    monkeypatch.setenv("GITEA_TOKEN", "revoked")
    assert "does not accept the token" in forge_lines(on_gitea)[0]
    monkeypatch.delenv("GITEA_TOKEN")
    assert "there is no token" in forge_lines(on_gitea)[0]


def test_the_doctor_says_that_merged_branches_stay_where_requests_are_opened(on_gitea, gitea: GiteaServer):
    said = "the branches of merged requests stay"
    gitea.contents.deletes_merged_branches = False
    assert said not in forge_lines(on_gitea)
    config = on_gitea.root / ".mino" / "config.yml"
    config.write_text(config.read_text() + "publish: {mode: pull_request, remote: origin}\n")
    assert said in forge_lines(on_gitea)
    gitea.contents.deletes_merged_branches = True
    assert said not in forge_lines(on_gitea)


def test_a_document_becomes_issues_there_and_the_token_nowhere(on_gitea, gitea: GiteaServer):
    (on_gitea.root / "MORE.md").write_text("# More\n\n## First text\n\n- [ ] It is there (check: tests)\n")
    name = on_gitea("task", "MORE.md", "--plan", "--json").data["name"]
    done = on_gitea("task", "MORE.md", "--stepwise", "--approve", name)
    assert done.code == 0, done.err
    (issue,) = gitea.contents.issues.values()
    names = {label.name for label in gitea.contents.labels if label.id in issue.labels}
    assert (issue.title, issue.state, issue.author, names) == (
        "First text",
        "open",
        "irontree",
        {"enhancement", "stage:task"},
    )
    texts = [path.read_text(errors="replace") for path in (on_gitea.root / ".mino").rglob("*") if path.is_file()]
    assert not any("token-of-irontree" in text for text in texts)
