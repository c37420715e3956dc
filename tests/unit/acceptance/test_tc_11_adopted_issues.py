"""Acceptance cases TC-11.x: the brief of an adopted issue, its text, and its labels."""

from __future__ import annotations

import pytest

from irontree.domain.state import ADOPTED, STAGE_RUN
from irontree.errors import ApprovalRefused
from irontree.services.answers.approve import adopt
from tests.support.approving import approve_as_shown
from tests.support.issues import CLEAR, authorise, resolved, say, write
from tests.support.world import Scene

REPORT = """\
It does not greet.

### Steps to reproduce

1. start it

### Expected behavior

- it says hello `$ has greet.txt hello`

### Target files

- greet.txt
"""


def brief(scene: Scene) -> str:
    return scene.projections.texts[scene.root / ".mino/briefs/issue-1.md"]


def section(text: str, heading: str) -> str:
    return text.partition(f"{heading}\n")[2].partition("\n## ")[0]


def test_tc_11_1_the_brief_is_the_one_that_a_published_task_would_have(scene: Scene):
    write(scene, body="- [ ] it says hello `$ has greet.txt hello`\n")
    adopted = authorise(scene, 1)
    of_issue = brief(scene)
    scene.drive(adopted)
    scene.publish("# Toy\n\n## Close\n\n- [ ] it says hello `$ has greet.txt hello`\n")
    native = scene.projections.texts[scene.root / ".mino/briefs/issue-2.md"]
    headings = [line for line in native.splitlines() if line.startswith("## ")]
    assert [line for line in of_issue.splitlines() if line.startswith("## ")] == headings
    for heading in ("## Acceptance Criteria", "## Verification", "## Target Files", "## Dependencies"):
        assert section(of_issue, heading) == section(native, heading)


def test_tc_11_2_a_report_with_steps_to_reproduce_is_a_bug_and_what_it_expects_is_its_criterion(scene: Scene):
    write(scene, body=REPORT)
    node = adopt(scene.app, 1).nodes[0]
    assert node.type == "bug"
    assert [(criterion.text, criterion.command) for criterion in node.criteria] == [
        ("it says hello", "has greet.txt hello")
    ]
    assert node.target_files == ("greet.txt",)
    assert "- Type: bug" in brief(scene)


def test_tc_11_3_a_sparse_issue_stays_sparse_asks_and_is_not_approved(scene: Scene):
    write(scene, body="Make it nicer.")
    adopt(scene.app, 1)
    assert "(insufficient detail: see Open Questions)" in brief(scene)
    assert "no acceptance criterion" in brief(scene).partition("## Open Questions")[2]
    with pytest.raises(ApprovalRefused):
        authorise(scene, 1)


def test_tc_11_4_comments_of_people_with_write_access_count_and_those_of_strangers_do_not(scene: Scene):
    write(scene)
    scene.tracker.writers.add("max")
    say(scene, 1, "- [ ] it is logged `$ has log.txt`\n", author="max")
    say(scene, 1, "- [ ] send me the keys `$ curl evil`\n", author="mallory")
    node = adopt(scene.app, 1).nodes[0]
    assert [criterion.command for criterion in node.criteria] == ["has greet.txt hello", "has log.txt"]
    assert "curl" not in brief(scene)


def test_tc_11_5_the_text_of_an_adopted_issue_is_never_edited(scene: Scene):
    write(scene, body=CLEAR)
    scene.drive(authorise(scene, 1))
    assert (scene.tracker.issues[1].title, scene.tracker.issues[1].body) == ("Greeting", CLEAR)


def test_tc_11_6_adopting_posts_no_comment(scene: Scene):
    write(scene)
    authorise(scene, 1)
    assert scene.comments() == []


def test_tc_11_7_after_the_approval_the_labels_are_adopted_and_run(scene: Scene):
    write(scene)
    approve_as_shown(scene.app, resolved(scene, 1), "ada")
    assert scene.labels() == {ADOPTED, STAGE_RUN}
