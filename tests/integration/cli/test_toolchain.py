"""`irontree toolchain`: what the team is asked, by which settings, and what a repository needs for it."""

from __future__ import annotations

import pytest

from irontree.domain.adoption import INSUFFICIENT, read_issue
from irontree.domain.issues import Issue
from irontree.domain.task_types import TASK_TYPES
from tests.support.gitea.server import GiteaServer

LABELS = {profile.type_label for profile in TASK_TYPES.values()}
FOLDER = ".gitea/ISSUE_TEMPLATE"


def labels(gitea: GiteaServer) -> set[str]:
    return {label.name for label in gitea.contents.labels}


def test_what_would_be_made_is_listed_and_nothing_is_made(on_gitea, gitea: GiteaServer):
    shown = on_gitea("toolchain", "setup")
    assert shown.code == 0
    assert f"{FOLDER}/bug.md" in shown.out
    assert "The forge's webhook sends issues, comments, pull requests, reviews and statuses" in shown.out
    assert "irontree toolchain setup --write" in shown.out
    assert not (on_gitea.root / ".gitea").exists()
    assert not LABELS & labels(gitea)


def test_labels_and_templates_are_made_and_what_is_there_stays(on_gitea, gitea: GiteaServer):
    own = on_gitea.root / FOLDER / "bug.md"
    own.parent.mkdir(parents=True)
    own.write_text("ours\n")
    told = on_gitea("toolchain", "setup", "--write", "--json").data
    assert set(told["labels"]) == LABELS <= labels(gitea)
    assert {f"{FOLDER}/{name}.md" for name in TASK_TYPES} - {f"{FOLDER}/bug.md"} == set(told["templates"])
    assert own.read_text() == "ours\n"
    assert on_gitea("toolchain", "setup", "--write", "--json").data["templates"] == []


@pytest.mark.parametrize("profile", TASK_TYPES.values(), ids=TASK_TYPES)
def test_an_issue_written_in_a_template_is_read_as_it_says(on_gitea, profile):
    on_gitea("toolchain", "setup", "--write")
    text = (on_gitea.root / FOLDER / f"{profile.name}.md").read_text()
    _, front, body = text.split("---\n")
    assert f"labels: [{profile.type_label}]" in front
    assert [criterion.text for criterion in adopted(body, profile.type_label).criteria] == [INSUFFICIENT]
    written = body.replace("## Target files", "- it works `$ make test`\n\n## Target files\n\n- src/a.py")
    node = adopted(written, profile.type_label)
    assert (node.type, node.target_files, node.open_questions) == (profile.name, ("src/a.py",), ())
    assert [criterion.command for criterion in node.criteria] == ["make test"]


def adopted(body: str, label: str):
    issue = Issue(1, "Log in", body, "open", (label,), "ada", True, "http://127.0.0.1/1")
    return read_issue(issue, (), {}, type_labels=True).node


def test_the_local_forge_needs_no_template(shell):
    told = shell("toolchain", "setup", "--json").data
    assert (set(told["labels"]), told["templates"], told["type_labels"]) == (LABELS, [], False)


TEAM = "team:\n- {name: tester, command: [tester-agent, --careful], environment: [TESTER_KEY]}\n"


@pytest.fixture
def with_team(on_gitea):
    config = on_gitea.root / ".mino" / "config.yml"
    config.write_text(f"{config.read_text()}toolchain: {{}}\n{TEAM}")
    return on_gitea


def test_the_approval_shows_who_would_be_started_and_names_it(with_team):
    shown = with_team("toolchain", "approve")
    assert shown.code == 0
    assert "`tester-agent --careful`" in shown.out
    assert "TESTER_KEY" in shown.out
    assert "Nobody approves each of these." in shown.out
    name = with_team("toolchain", "approve", "--json").data["name"]
    assert f"irontree toolchain approve {name}" in shown.out


def test_it_holds_until_a_setting_changes(with_team):
    before = with_team("toolchain")
    assert "nobody approved that" in before.out
    name = with_team("toolchain", "approve", "--json").data["name"]
    done = with_team("toolchain", "approve", name)
    assert "tester may be asked in comments" in done.out
    assert with_team("toolchain", "--json").data == {"asked": [], "discussions": [], "problem": ""}
    config = with_team.root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace("--careful", "--careless"))
    assert "the settings changed since that was approved" in with_team("toolchain").out


def test_another_name_approves_nothing(with_team):
    refused = with_team("toolchain", "approve", "0123456789abcdef")
    assert refused.code != 0
    assert "does not name the settings of now" in refused.err
    assert "nobody approved that" in with_team("toolchain").out


def test_without_a_team_there_is_nothing_to_approve(on_gitea):
    refused = on_gitea("toolchain", "approve")
    assert refused.code != 0
    assert "there is no `team`" in refused.err


def test_a_name_has_no_meaning_elsewhere(on_gitea):
    assert on_gitea("toolchain", "setup", "abc").code == 2


@pytest.mark.parametrize("verb", ["status", "inbox"])
def test_a_request_that_cannot_be_read_is_trouble_because_the_team_is_silent_meanwhile(shell, verb: str):
    damaged = shell.root / ".mino" / "agent-requests" / "mention-C9-quant.yml"
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_text("garbage\n")
    [told] = [each for each in shell(verb, "--json").data["problems"] if damaged.name in each]
    assert "move it away" in told
    damaged.unlink()
    assert shell(verb, "--json").data["problems"] == []
