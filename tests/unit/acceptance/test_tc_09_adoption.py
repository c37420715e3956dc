"""Acceptance cases TC-9.x: existing issues are taken in."""

from __future__ import annotations

import pytest

from irontree.domain.state import ADOPTED, NEEDS_BREAKDOWN, STAGE_TASK
from irontree.errors import NotEligible
from irontree.services.answers.approve import adopt
from tests.support.issues import CLEAR, authorise, edit, write
from tests.support.world import Scene


def brief(scene: Scene) -> str:
    return scene.projections.texts[scene.root / ".mino/briefs/issue-1.md"]


def test_tc_9_1_a_clean_issue_is_adopted_with_event_brief_and_labels_and_no_comment(scene: Scene):
    write(scene)
    adopt(scene.app, 1)
    assert scene.events() == ["task_adopted"]
    assert (scene.last().event.sequence, scene.last().event.attempt_count) == (1, 0)
    assert scene.labels() == {ADOPTED, STAGE_TASK}
    assert "it says hello" in brief(scene)
    assert scene.comments() == []


def test_tc_9_2_a_closed_issue_is_refused(scene: Scene):
    write(scene)
    edit(scene, 1, state="closed")
    with pytest.raises(NotEligible, match="Issue #1 is CLOSED; only OPEN issues can be adopted"):
        adopt(scene.app, 1)
    assert scene.log.streams() == ()


def test_tc_9_3_a_composite_issue_is_refused_and_labelled(scene: Scene):
    write(scene, body="- [ ] a\n" * 4)
    with pytest.raises(NotEligible, match=r"4 open checkboxes\)\. Split it into child issues"):
        adopt(scene.app, 1)
    assert scene.tracker.issues[1].labels == (NEEDS_BREAKDOWN,)
    assert scene.log.streams() == ()


def test_tc_9_4_adopting_again_archives_the_stream_and_begins_a_new_one_that_names_it(scene: Scene):
    write(scene)
    first = adopt(scene.app, 1).spec_revision
    edit(scene, 1, body=f"{CLEAR}\nAnd it is loud.\n")
    second = adopt(scene.app, 1).spec_revision
    assert first != second
    event = scene.last().event
    assert (event.event, event.sequence, event.spec_revision) == ("task_re_adopted", 1, second)
    assert (event.previous_revision, event.archive_path) == (first, f".mino/archive/issue-1-rev-{first}")
    assert scene.log.archives(1) == (f"issue-1-rev-{first}",)
    assert scene.labels() == {ADOPTED, STAGE_TASK}


def test_tc_9_5_an_adopted_issue_goes_the_whole_way_like_a_published_one(scene: Scene):
    write(scene)
    assert scene.drive(authorise(scene, 1)).reason == "goal_reached"
    scene.publish("# Toy\n\n## Close\n\n- [ ] closed `$ has close.txt`\n")
    native = scene.start("# Toy\n\n## Close\n\n- [ ] closed `$ has close.txt`\n")
    assert scene.drive(native).reason == "goal_reached"
    assert scene.events()[:2] == ["task_adopted", "task_approved"]
    assert scene.events()[2:] == scene.events("close")[1:]
    assert scene.tracker.issues[1].state == "closed"
