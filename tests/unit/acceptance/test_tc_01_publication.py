"""Acceptance cases TC-1.x: what publication leaves behind."""

from __future__ import annotations

from tests.support.world import GREETING, SPEC, Scene

SECTIONS = (
    "Task Key",
    "Issue Number",
    "Parent Issue",
    "Type",
    "Shape",
    "Executability",
    "Approval State",
    "Depends On",
    "Spec Revision",
    "Approved Revision",
    "Current Stage",
    "Next Stage",
    "Workflow Entry State",
    "Attempt Count",
    "Max Retry Count",
    "Code Publication State",
)


def test_tc_1_2_briefs_carry_all_fields_sequences_are_contiguous_and_the_revision_is_the_approved_one(scene: Scene):
    loop = scene.start(SPEC)
    for key, state in scene.world.states.items():
        brief = scene.projections.texts[scene.root / f".mino/briefs/issue-{state.issue_number}.md"]
        assert [field for field in SECTIONS if f"- {field}: " not in brief] == [], key
    scene.drive(loop)
    for key in scene.world.states:
        events = [record.event for record in scene.records(key)]
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert {(event.spec_revision, event.approved_revision) for event in events} == {
            (loop_revision(scene), loop_revision(scene))
        }


def loop_revision(scene: Scene) -> str:
    return scene.world.plan(scene.state(GREETING)).spec_revision
