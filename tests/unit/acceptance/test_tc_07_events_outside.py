"""Acceptance cases TC-7.x: what happens beside the work."""

from __future__ import annotations

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.state import Phase
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.world import ONE_TASK, does, has


def test_tc_7_1_an_issue_that_was_closed_outside_is_blocked_and_never_done(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    scene.forge_seen.edit_issue(1, state="closed")
    reconcile(scene.app)
    state, brief = scene.state(), scene.projections.read("brief", 1)
    assert (state.workflow_entry_state, state.phase, state.done) == ("blocked", Phase.BLOCKED, False)
    assert scene.last().event.event == "checkup_reconcile_external_close_detected"
    external = brief.partition("## External Event")[2].partition("\n## ")[0]
    assert "- Event: issue_closed" in external
    assert "- Source: forge" in external
    reconcile(scene.app)
    assert "checkup_done" not in scene.events()


def test_tc_7_3_code_that_is_edited_during_verify_does_not_touch_the_verdict(scene):
    """It is about the anchor: the checks run at that commit, elsewhere, and that commit is published."""
    scene.agent = ScriptedAgent(does(greet_txt="hello"))
    scene.publish(ONE_TASK)
    anchor = run(scene.app, 1).commit

    def edits_meanwhile(command, workspace):
        (scene.root / "greet.txt").write_text("broken by its user")
        return has(command, workspace)

    scene.checks = type(scene.checks)(edits_meanwhile)
    state = verify(scene.app, 1)
    assert (state.pass_fail_outcome, state.anchor, state.code_ref) == ("pass", anchor, anchor)
    assert scene.repository.remote["main"] == anchor
