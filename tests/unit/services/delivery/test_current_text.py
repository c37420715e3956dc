"""What an issue made from a document shows of its state, in the marked parts of its text alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Finalize, Run, Verify
from irontree.domain.plan import Shell
from irontree.errors import RemoteUnavailable
from irontree.services.answers.answers import answer_issue
from irontree.services.consistency.drift import EDITED, drifted_issues, look_outside
from irontree.services.consistency.reconcile import reconcile, repair
from irontree.services.delivery.issue_text import own_words
from irontree.services.execution.steps import perform
from irontree.services.work.preflight import block
from tests.support.issues import CLEAR, edit, take_in, write
from tests.support.requests import Refusing, look
from tests.support.watching import Watched
from tests.support.world import GREETING, MANUAL_TASK, ONE, ONE_TASK, PARTS, SPEC, TWO, Scene, accepts, does


class SilentAbout:
    """A forge that does not answer when the text of one of its issues is read."""

    def __init__(self, forge: Any, number: int) -> None:
        self._forge, self._number = forge, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def read_text(self, number: int) -> Any:
        if number == self._number:
            raise RemoteUnavailable("it does not answer")
        return self._forge.read_text(number)


def body(scene: Scene, key: str = GREETING) -> str:
    return scene.tracker.issues[scene.number(key)].body


def watch(scene: Scene) -> list[str]:
    """The calls to the forge about issues, from now on."""
    calls: list[str] = []
    methods = ("read_issue", "read_text", "edit_issue", "set_labels")
    scene.forge_seen = Watched(scene.forge_seen, methods, lambda call, side: side == "before" and calls.append(call))
    return calls


def found_outside(scene: Scene) -> list[str]:
    with scene.app.driver.hold("look"):
        return [change.what for change in look_outside(scene.app, scene.world).changes]


def test_status_and_boxes_follow_the_state_and_only_evidence_ticks_a_box(scene):
    scene.publish(ONE_TASK)
    assert "- [ ] it says hello" in body(scene)
    assert "- Current Stage: definition" in body(scene)
    perform(scene.app, Run(GREETING))
    assert "- Attempt Count: 1" in body(scene)
    assert "- [ ] it says hello" in body(scene)
    perform(scene.app, Verify(GREETING))
    perform(scene.app, Finalize(GREETING))
    for shown in ("- [x] it says hello", "- Current Stage: done", "- Code Publication State: published"):
        assert shown in body(scene)


def test_what_stands_in_the_way_is_shown_and_ticks_nothing(scene):
    scene.publish(ONE_TASK)
    block(scene.app, scene.state(), "missing-identity", "git does not know who commits")
    reconcile(scene.app)
    assert "- Workflow Entry State: blocked" in body(scene)
    assert "- [ ] it says hello" in body(scene)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (ONE_TASK, "`$ has greet.txt hello`"),
        (ONE_TASK.replace("- [ ]", "Verify: `true`\n\n- [ ]"), "`$ has greet.txt hello`"),
    ],
)
def test_what_verifies_the_task_is_listed_from_its_criteria_and_the_configuration(scene, document, said):
    scene.policy = scene.policy.model_copy(update={"checks": (Shell(name="all", run="make test"),)})
    scene.publish(document)
    section = body(scene).partition("## Verification")[2].partition("##")[0]
    assert said in section
    assert "`$ make test`" in section


def test_the_status_begins_with_what_somebody_who_has_never_heard_of_us_needs(scene):
    """What state, what happens next, who must do what."""

    def standing() -> str:
        return body(scene).partition("## Status\n\n<!-- irontree:current -->\n")[2].partition("\n")[0]

    scene.publish(MANUAL_TASK)
    assert standing() == ("**Waiting for its turn.** An agent will work on it. Nobody has to do anything.")
    perform(scene.app, Run(GREETING))
    perform(scene.app, Verify(GREETING))
    assert standing() == (
        "**Your acceptance is needed.** The work waits for somebody with write access: look at it, then comment "
        "`/accept`, or `/send-back` with a note. `irontree show issue-1` shows everything."
    )
    answer_issue(scene.app, 1, accepts())
    perform(scene.app, Finalize(GREETING))
    assert standing() == f"**Done** (accepted). Published as commit {scene.state().code_ref[:7]}."


def test_a_parent_lists_its_children_with_boxes_and_they_name_it(scene):
    scene.publish(SPEC)
    one, two, parts = (scene.number(key) for key in (ONE, TWO, PARTS))
    assert f"- [ ] #{one}" in body(scene, PARTS)
    assert f"- [ ] #{two}" in body(scene, PARTS)
    assert f"- Parent: #{parts}" in body(scene, ONE)
    for key in (GREETING, ONE):
        for step in (Run(key), Verify(key), Finalize(key)):
            perform(scene.app, step)
    assert f"- [x] #{one}" in body(scene, PARTS)
    assert f"- [ ] #{two}" in body(scene, PARTS)


def test_the_list_of_a_parent_that_could_not_be_written_is_written_later(scene):
    """R9: nothing else happens to the parent meanwhile."""
    scene.publish(SPEC)
    answers = scene.forge_seen
    for step in (Run(GREETING), Verify(GREETING), Finalize(GREETING), Run(ONE), Verify(ONE)):
        perform(scene.app, step)
    scene.forge_seen = SilentAbout(answers, scene.number(PARTS))
    perform(scene.app, Finalize(ONE))
    assert f"- [ ] #{scene.number(ONE)}" in body(scene, PARTS)
    look(scene)
    scene.forge_seen = answers
    look(scene)
    assert f"- [x] #{scene.number(ONE)}" in body(scene, PARTS)
    assert scene.app.deliveries.load(scene.number(PARTS)).failures == ()


def test_each_change_that_is_shown_is_a_look_and_an_edit_and_nothing_is_asked_if_nothing_changed(scene):
    """The look is needed: what people wrote around the marked parts stays."""
    scene.publish(ONE_TASK)
    calls = watch(scene)
    perform(scene.app, Run(GREETING))
    shown, labels = calls.count("edit_issue"), calls.count("set_labels")
    assert 1 <= shown <= labels
    assert calls.count("read_text") == shown
    assert "read_issue" not in calls, "that also asks who wrote it"
    calls.clear()
    reconcile(scene.app)
    assert "edit_issue" not in calls


def test_publishing_an_issue_edits_it_no_second_time(scene):
    calls = watch(scene)
    scene.publish(ONE_TASK)
    assert "edit_issue" not in calls


def test_what_a_person_writes_outside_of_it_stays_and_is_reported_as_before(scene):
    scene.publish(ONE_TASK)
    assert found_outside(scene) == []
    edit(scene, 1, body=f"My word.\n\n{body(scene)}")
    assert drifted_issues(scene.app) == {1}
    assert found_outside(scene) == [EDITED]
    perform(scene.app, Run(GREETING))
    assert body(scene).startswith("My word.\n")
    assert "- Attempt Count: 1" in body(scene)


def test_an_edit_inside_of_it_is_no_drift_and_is_put_right(scene):
    scene.publish(ONE_TASK)
    found_outside(scene)
    before = body(scene)
    edit(scene, 1, body=before.replace("- [ ] it says", "- [x] it says"))
    assert drifted_issues(scene.app) == frozenset()
    assert found_outside(scene) == []
    assert body(scene) == before


def test_a_text_of_an_earlier_version_is_ours_and_is_left_as_it_is(scene):
    scene.publish(ONE_TASK)
    earlier = "\n".join(
        line for line in body(scene).split("\n") if not line.startswith(("<!-- irontree:c", "<!-- irontree:e"))
    )
    edit(scene, 1, body=earlier)
    assert found_outside(scene) == []
    perform(scene.app, Run(GREETING))
    assert body(scene) == earlier
    assert found_outside(scene) == []


def test_taken_out_markers_are_an_edit_that_repair_puts_back(scene):
    scene.publish(ONE_TASK)
    found_outside(scene)
    edit(scene, 1, body="nothing of ours")
    perform(scene.app, Run(GREETING))
    assert body(scene) == "nothing of ours"
    with scene.app.driver.hold("repair"):
        repair(scene.app)
    assert body(scene) == own_words(scene.app, scene.world, scene.state())[1]
    assert "- Attempt Count: 1" in body(scene)


def test_the_text_of_an_adopted_issue_is_never_edited(scene):
    """TC-11.5, whatever it says."""
    marked = f"{CLEAR}\n<!-- irontree:current -->\nmine\n<!-- irontree:end -->\n"
    write(scene, body=marked)
    take_in(scene.app, 1)
    assert body(scene) == marked


@pytest.mark.parametrize("keeps", [True, False])
def test_it_can_be_switched_off(scene, keeps: bool):
    scene.preferences = replace(scene.preferences, keeps_current=keeps)
    scene.agent = ScriptedAgent(does(greet_txt="hello"))
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    assert ("- Attempt Count: 1" in body(scene)) is keeps


def test_parents_and_dependencies_are_shown_by_the_forge_too(scene):
    scene.publish(SPEC)
    greeting, one, two, parts = (scene.number(key) for key in (GREETING, ONE, TWO, PARTS))
    assert scene.tracker.parts == {parts: [one, two]}
    assert scene.tracker.dependencies[one] == [greeting]
    before = dict(scene.tracker.dependencies)
    scene.publish(SPEC)
    assert scene.tracker.dependencies == before


def test_an_issue_does_not_wait_on_the_forge_for_one_that_a_person_closes(scene):
    """Gitea would not let it be closed first."""
    scene.preferences = replace(scene.preferences, close_on_done="manual")
    scene.publish(SPEC)
    assert scene.tracker.dependencies == {}


def test_a_forge_that_refuses_a_relation_keeps_nothing_from_being_published(scene):
    scene.forge_seen = Refusing(scene.forge_seen, "depend")
    scene.publish(SPEC)
    assert scene.events(ONE) == ["task_published"]
