"""What an approval shows: who works, what runs, and what is written where (R6)."""

from __future__ import annotations

import shlex

import pytest

from irontree.domain.agents import Member
from irontree.domain.places import PlaceSpec
from irontree.domain.plan import PublishPolicy
from irontree.domain.task_types import TASK_TYPES
from irontree.domain.values import PromotionPolicy
from irontree.rendering import JinjaRenderer
from tests.support.hostile_texts import ORDINARY
from tests.support.views import approval, policy

RENDERER = JinjaRenderer()


def approval_shown(**changes) -> str:
    return RENDERER.render("forms/intake.md", approval={**approval(ORDINARY), **changes})


def test_an_approval_with_open_questions_says_to_answer_them_first_and_not_how_to_approve():
    assert "## Open questions" in approval_shown()
    assert approval_shown().endswith("## Your decision\n\nAnswer the open questions first.\n")


def test_the_approval_names_loop_mode_the_revision_every_command_and_the_branch():
    shown = approval_shown(questions=())
    assert "You are authorizing Loop Mode to autonomously execute the following plan" in shown
    assert shown.count("`1a2b3c4d5e6f7a8b`") == 2
    assert f"- Agent: `{shlex.join((ORDINARY, '--print'))}`" in shown
    assert f"- Check of `auth-login`: `{ORDINARY}`" in shown
    assert f"- Check `{ORDINARY}`: `{ORDINARY}`" in shown
    assert "pushed to `main` of `origin`" in shown


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("always", "- Notes of each task go into `handbook/`, a commit of their own"),
        ("auto", "- Notes of a task about set-up or integration go into `handbook/`"),
        ("never", None),
    ],
)
def test_the_approval_says_whether_notes_go_into_the_documents_and_where(mode, line):
    """No push without a line in the approval (R6)."""
    promotion = PromotionPolicy(mode=mode, docs_path="handbook")
    shown = approval_shown(policy=policy(ORDINARY).model_copy(update={"promotion": promotion}))
    assert line in shown if line else "handbook" not in shown


FOLLOWS = "Where you have that branch checked out, your checkout is fast-forwarded"
OWN = PublishPolicy(remote="origin", target_branch="main").on_own_branch("hotl/a", "1" * 40)
STAYS = "Your branches and your checkout stay where they are: `git pull` brings what was merged."


@pytest.mark.parametrize(
    ("publish", "line", "checkout"),
    [
        (PublishPolicy(target_branch="main"), "moves the local branch `main`; nothing is pushed", FOLLOWS),
        (PublishPolicy(remote="origin", target_branch="main"), "is pushed to `main` of `origin`", FOLLOWS),
        (PublishPolicy(mode="pull_request", remote="origin", target_branch="main"), "proposed for `main`", STAYS),
        (
            OWN,
            "It starts from commit `111111111111`, with all that is in it: the first task that passes makes it.",
            FOLLOWS,
        ),
        (OWN, "is pushed to `hotl/a` of `origin`", FOLLOWS),
        (
            OWN.model_copy(update={"mode": "pull_request"}),
            "One request to merge it there is opened when all is",
            FOLLOWS,
        ),
        (
            OWN.model_copy(update={"branch_from": None}),
            "It is the one that was chosen, in place of `main`.",
            FOLLOWS,
        ),
    ],
)
def test_the_approval_says_what_will_be_written(publish: PublishPolicy, line: str, checkout: str):
    settings = policy(ORDINARY).model_copy(update={"publish": publish, "checks": ()})
    shown = approval_shown(tasks=(), policy=settings, loop_mode=False, questions=(), loop_id="")
    assert line in shown
    assert checkout in shown
    assert (FOLLOWS in shown) is publish.pushes
    assert ("stop it, and you are asked" in shown) is (publish.remote is None)
    assert ("Your other branches stay" in shown) is bool(publish.remote and publish.pushes)
    assert "If `package.json` appears" in shown
    assert "Loop Mode" not in shown


def test_the_approval_names_the_members_of_a_team_and_what_they_see():
    author = Member(
        name="coder", command=("code", "--quick"), kinds=("bug", "docs"), display="Wu", environment=("KEY",)
    )
    reviewer = Member(name="sceptic", command=("doubt",), role="reviewer", account="sceptic-bot")
    shown = approval_shown(policy=policy(ORDINARY).model_copy(update={"team": (author, reviewer)}))
    assert "- Author `coder` (Wu), in place of that agent for tasks of type bug, docs: `code --quick`, at most" in shown
    assert "- coder sees these variables of yours: `KEY`" in shown
    assert "- Reviewer `sceptic`, of all tasks, once the checks have passed: `doubt`, at most 3600 s" in shown
    assert "what the account `sceptic-bot` says on the forge is no answer and no command" in shown


KINDS = tuple(TASK_TYPES)
ALL_TYPES = {
    "one takes all": (Member(name="coder", command=("x",)),),
    "together": (
        Member(name="coder", command=("x",), kinds=KINDS[:3]),
        Member(name="writer", command=("y",), kinds=KINDS[3:]),
    ),
}


@pytest.mark.parametrize("authors", ALL_TYPES)
def test_the_agent_of_all_tasks_is_not_shown_where_authors_take_them_all_nor_is_what_it_sees(authors: str):
    settings = policy(ORDINARY)
    agent = settings.agent.model_copy(update={"environment": ("AGENTS_KEY",)})
    shown = approval_shown(policy=settings.model_copy(update={"team": ALL_TYPES[authors], "agent": agent}))
    assert "- Author `coder`, of" in shown
    assert "- Agent" not in shown
    assert "AGENTS_KEY" not in shown
    assert "in place of" not in shown


def test_the_approval_names_what_an_agent_of_the_team_needs_of_the_home():
    """Beside what that of all tasks does: known agents keep their log-in and sessions there."""
    own = PlaceSpec(kind="bubblewrap", read=("~/.config",), write=("~/.a", "~/.coder"))
    coder, other = Member(name="coder", command=("x",), place=own), Member(name="other", command=("x",), kinds=("bug",))
    settings = policy(ORDINARY)
    agent = settings.agent.model_copy(update={"place": PlaceSpec(kind="bubblewrap", write=("~/.a",))})
    shown = approval_shown(policy=settings.model_copy(update={"team": (other, coder), "agent": agent}))
    assert "it can also change `~/.a`\n- The agent coder can also read `~/.config`\n- The agent coder can also" in shown
    assert "- The agent coder can also change `~/.coder`\n- " in shown


def test_the_approval_names_what_a_member_is_told_that_it_is_good_at():
    """Its prompts say so: it is text for an agent like any other."""
    member = Member(name="coder", command=("x",), capabilities=("Python", "deleting tests"))
    shown = approval_shown(policy=policy(ORDINARY).model_copy(update={"team": (member,)}))
    assert "s of silence; told that it is good at Python, deleting tests\n" in shown


def test_the_approval_of_a_workflow_file_says_that_its_introduction_and_common_sections_are_told():
    shown = approval_shown(in_full=False)
    assert "the introduction and the common sections of the workflow file, and what earlier steps delivered" in shown


def test_the_approval_names_type_labels_and_what_branches_are_called_where_there_are_any():
    label, branch = "Issues get a `type/…` label", "each branch is named after it: `feat/12-log-in`"
    assert label not in approval_shown()
    direct, proposing = (
        policy(ORDINARY).model_copy(
            update={"publish": PublishPolicy(mode=mode, remote="origin", target_branch="main", type_labels=True)}
        )
        for mode in ("direct", "pull_request")
    )
    assert f"{label}.\n" in approval_shown(policy=direct)
    assert f"{label}, and {branch}." in approval_shown(policy=proposing)
