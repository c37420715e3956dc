"""One plan that waits for its approval has one name: on every surface that shows it, and in every way to give it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from irontree.app import Origin
from irontree.cli.task import plan_data
from irontree.domain.gates import name_in_key
from irontree.domain.state import Phase
from irontree.errors import ApprovalRefused
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import adopt, approve, approve_stepwise, question_key, wanted_for
from irontree.services.answers.comments import look
from irontree.services.execution.run import run
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.proposal import Proposal
from irontree.services.proposals.sources import propose
from irontree.services.questions.commands import answers_to, question_json
from irontree.services.questions.listing import waiting
from irontree.services.questions.pages import issue_form, question_text
from irontree.services.questions.questions import FORM, question_about_approval
from tests.support.issues import CLEAR, edit, resolved, say, write
from tests.support.world import ONE_TASK, Scene

NAME = re.compile(r"(?<![\w-])[0-9a-f]{16}(?![\w-])")


@pytest.fixture
def adopted(scene) -> Scene:
    """Issue 1 was taken in and waits; what a comment adds is part of it."""
    scene.tracker.writers |= {"alice"}
    write(scene)
    say(scene, 1, "- [ ] it is there `$ has greet.txt`\n", author="alice")
    adopt(scene.app, 1)
    return scene


def edited(scene: Scene) -> Scene:
    """Issue 1 was approved, and edited before its attempt: it waits again."""
    scene.tracker.writers |= {"alice"}
    write(scene)
    approve(scene.app, resolved(scene, 1), resolved(scene, 1).name, "ada")
    edit(scene, 1, body=f"{CLEAR}- [ ] it is there `$ has greet.txt`\n")
    run(scene.app, 1)
    return scene


def shown_of(scene: Scene, document: str, wanted: Proposal) -> dict[str, set[str]]:
    """Every surface that names what waits for approval, and the names on it."""
    [asked] = waiting(scene.app)
    form = wanted_for(scene.app, document)
    key = question_key(form)
    of_form = question_about_approval(document, key, name_in_key(key) or "", None)
    texts = {
        "status, inbox: the command": " ".join(command for _, command in answers_to(asked)),
        "status, inbox as JSON": str(question_json(asked)["answers"]),
        "the form of the issue": question_text(scene.app, asked),
        "the name in that form": issue_form(scene.app, asked)["revision"],
        "task --plan": approval_text(scene.app, wanted, loop_mode=True, command="irontree task SPEC.md"),
        "task --plan --json": str(plan_data(wanted)["name"]),
        "the form of intake": approval_text(scene.app, form, loop_mode=True, answer=""),
        "the form of intake, listed": str(question_json(of_form)["answers"]),
    }
    return {surface: set(NAME.findall(text)) for surface, text in texts.items()}


@pytest.mark.parametrize("make", [lambda scene: scene, edited], ids=["adopted", "edited"])
def test_an_issue_that_waits_has_one_name_on_every_surface(request, make):
    scene = request.getfixturevalue("adopted") if make is not edited else edited(request.getfixturevalue("scene"))
    look(scene.app)
    [name] = {found for body in scene.comments() for found in re.findall(r"/approve (\S+)`", body)}
    names = shown_of(scene, "#1", resolved(scene, 1))
    assert {surface: found for surface, found in names.items() if found != {name}} == {}
    say(scene, 1, "/approve 0000000000000000", author="alice")
    look(scene.app)
    assert f"`/approve {name}`" in scene.comments()[-1]


def test_a_changed_document_has_one_name_on_every_surface(scene):
    scene.start(ONE_TASK)
    document = scene.write(ONE_TASK.replace("it says hello", "it says hello to all"))
    run(scene.app, 1)
    wanted = propose(scene.app, document)
    names = shown_of(scene, wanted.what, wanted)
    assert {surface: found for surface, found in names.items() if found != {wanted.name}} == {}


def by_comment(scene: Scene, name: str) -> None:
    look(scene.app)
    say(scene, 1, f"/approve {name}", author="alice")
    assert [found.outcome for found in look(scene.app)] == ["taken"]


def by_command(scene: Scene, name: str) -> None:
    answer_issue(scene.app, 1, Answer("approve", "ada", revision=name))


def by_task(scene: Scene, name: str) -> None:
    wanted = resolved(scene, 1)
    wanted.require_named(name)
    approve(scene.app, wanted, name, "ada")


def stepwise(scene: Scene, name: str) -> None:
    approve_stepwise(scene.app, resolved(scene, 1), name, "ada")


def by_form(scene: Scene, name: str) -> None:
    app = replace(scene.app, origin=Origin("ada", FORM))
    wanted = wanted_for(app, "#1")
    wanted.require_named(name)
    approve(app, wanted, name, "ada")


@pytest.mark.parametrize("way", [by_comment, by_command, by_task, stepwise, by_form])
def test_every_way_to_approve_an_issue_takes_that_name(adopted, way: Callable[[Scene, str], None]):
    [asked] = waiting(adopted.app)
    way(adopted, asked.revision or "")
    assert adopted.state().phase is Phase.READY


@pytest.mark.parametrize("again", [False, True])
def test_the_name_covers_the_budget_that_the_comment_names(adopted, again):
    """Whoever approved one budget has not seen another; the comment asks anew."""
    look(adopted.app)
    before = resolved(adopted, 1).name
    if again:
        adopted.preferences = replace(adopted.preferences, loop_budget=7)
    look(adopted.app)
    assert len([body for body in adopted.comments() if "`/approve " in body]) == 1 + again
    if again:
        with pytest.raises(ApprovalRefused):
            resolved(adopted, 1).require_named(before)


def test_a_name_is_sixteen_digits_or_more_of_the_whole_digest(scene):
    """R6"""
    proposal = propose(scene.app, scene.write(ONE_TASK))
    for too_little in ("", proposal.name[:4], proposal.revision, proposal.digest[:15], f"{proposal.digest}0"):
        with pytest.raises(ApprovalRefused, match=r"not named|does not name an approval|only the beginning") as refused:
            proposal.require_named(too_little)
        assert proposal.name in refused.value.remedy
    for enough in (proposal.name.upper(), proposal.digest[:17], proposal.digest):
        proposal.require_named(enough)
    other = "f" if proposal.digest[20] != "f" else "e"
    with pytest.raises(ApprovalRefused, match="was approved, but"):
        proposal.require_named(f"{proposal.digest[:20]}{other}")


def test_a_name_of_an_earlier_version_is_refused_with_the_reason(scene):
    proposal = propose(scene.app, scene.write(ONE_TASK))
    for earlier in ("0123abcd-4567ef89", "0123abcd-4567ef89-89abcdef"):
        with pytest.raises(ApprovalRefused, match="as earlier versions gave it") as refused:
            proposal.require_named(earlier)
        assert proposal.name in refused.value.remedy
