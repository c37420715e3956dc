"""A document that divides an existing issue: that stays as its author wrote it, and the tasks are its parts (A5)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.state import Phase
from irontree.errors import NotEligible, RequirementsRefused
from irontree.services.consistency.drift import drifted_issues
from irontree.services.consistency.reconcile import reconcile, repair
from irontree.services.execution.publish import publish
from irontree.services.loops.loop import cancel
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from tests.support.issues import authorise, edit, write
from tests.support.watching import Killed, Watched, dying_at
from tests.support.world import GREETING, Scene, does

WISH = "A friendlier program.\n\n- [ ] a\n- [ ] b\n- [ ] c\n- [ ] d\n"
PARTS = """\
# Friendly

Parent: #1

## Greeting

- [ ] it is there `$ has greet.txt`

## Farewell

Depends on: Greeting

- [ ] it is there `$ has bye.txt`
"""
ROOT = "friendlier"


@pytest.fixture
def wish(scene: Scene) -> Scene:
    write(scene, "Friendlier", WISH)
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(bye_txt="bye"))
    return scene


def test_the_issue_is_the_root_under_its_number_and_its_text_stays(wish: Scene):
    before = wish.tracker.issues[1]
    wish.start(PARTS)
    assert wish.state(ROOT).issue_number == 1
    assert wish.events(ROOT) == ["task_published"]
    assert wish.state(ROOT).phase is Phase.CONTAINER
    assert (wish.tracker.issues[1].title, wish.tracker.issues[1].body) == (before.title, before.body)
    assert [wish.number(key) for key in (GREETING, "farewell")] == [2, 3]
    assert "#1" in wish.tracker.issues[2].body
    assert wish.world.children[ROOT] == (GREETING, "farewell")


def test_it_lists_its_parts_in_one_comment_however_often_it_is_published(wish: Scene):
    wish.start(PARTS)
    publish(wish.app, *{plan.spec_revision: plan for plan in wish.world.plans.values()}.values())
    (told,) = wish.comments(ROOT)
    assert "- #2 Greeting\n- #3 Farewell" in told


def test_it_is_done_by_its_parts_and_is_closed(wish: Scene):
    loop = wish.start(PARTS)
    wish.drive(loop)
    assert wish.events(ROOT) == ["task_published", "checkup_aggregate_recorded", "checkup_done"]
    assert wish.tracker.issues[1].state == "closed"
    assert wish.tracker.issues[1].body == WISH


def test_the_approval_shows_it_under_its_number_and_covers_its_text(wish: Scene):
    proposal = propose(wish.app, wish.write(PARTS))
    assert "#1 Friendlier" in approval_text(wish.app, proposal, loop_mode=True)
    edit(wish, 1, body=f"{WISH}\nAnd quick.")
    assert propose(wish.app, wish.write(PARTS)).name != proposal.name


def test_its_parts_are_told_what_it_says(wish: Scene):
    loop = wish.start(PARTS)
    wish.drive(loop)
    assert "A friendlier program." in wish.agent.tasks[0].prompt


def test_an_edit_of_it_asks_for_another_approval_and_no_text_of_ours_replaces_it(wish: Scene):
    wish.start(PARTS)
    assert drifted_issues(wish.app) == frozenset()
    edit(wish, 1, body="Something else.")
    assert drifted_issues(wish.app) == {1}
    with wish.app.driver.hold("reconcile"):
        reconcile(wish.app)
        repair(wish.app)
    assert wish.state(ROOT).phase is Phase.STALE
    assert wish.tracker.issues[1].body == "Something else."
    wish.start(PARTS)
    assert wish.state(ROOT).phase is Phase.CONTAINER
    assert wish.tracker.issues[1].body == "Something else."
    assert drifted_issues(wish.app) == frozenset()


def test_a_document_that_grew_adds_a_part_and_leaves_the_others_as_they_are(wish: Scene):
    wish.start(PARTS)
    wish.start(f"{PARTS}\n## Third\n\n- [ ] three `$ has three.txt`\n")
    assert wish.world.children[ROOT] == (GREETING, "farewell", "third")
    assert wish.events(GREETING) == ["task_published"]
    assert wish.events(ROOT) == ["task_published"]


def test_the_document_is_compared_with_what_was_approved_below_it(wish: Scene):
    loop = wish.start(PARTS)
    wish.write(PARTS.replace("#1", "#7"))
    wish.drive(loop)
    assert wish.state(GREETING).phase is Phase.STALE
    wish.write(PARTS + "\n")
    wish.drive(wish.start(PARTS))
    assert wish.state(ROOT).done


def test_an_issue_that_was_adopted_begins_anew_as_the_root(scene: Scene):
    write(scene, "Friendlier", "- [ ] it is nice `$ has nice.txt`\n")
    loop = authorise(scene, 1)
    assert scene.events(ROOT)[0] == "task_adopted"
    cancel(scene.app, loop.id, "ada")
    scene.start(PARTS)
    assert scene.events(ROOT) == ["task_published"]
    assert scene.state(ROOT).phase is Phase.CONTAINER


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"state": "closed"}, "is CLOSED"), ({"pull_request": True}, "is a pull request")],
)
def test_what_cannot_be_divided_is_refused(wish: Scene, changes, reason):
    edit(wish, 1, **changes)
    with pytest.raises(NotEligible, match=reason):
        propose(wish.app, wish.write(PARTS))


def test_an_issue_that_is_not_there_or_is_another_document_s_is_refused(wish: Scene):
    with pytest.raises(NotEligible, match="there is no issue #9"):
        propose(wish.app, wish.write(PARTS.replace("#1", "#9")))
    wish.start(PARTS)
    other = wish.root / "OTHER.md"
    other.write_text(PARTS.replace("## Greeting", "## Hail").replace("on: Greeting", "on: Hail"))
    with pytest.raises(NotEligible, match=r"published from SPEC\.md"):
        propose(wish.app, other)


def test_a_task_with_its_key_is_refused(wish: Scene):
    with pytest.raises(RequirementsRefused, match="#1 has the key friendlier too"):
        propose(wish.app, wish.write(PARTS.replace("Greeting", "Friendlier")))


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method", "turn"),
    [
        ("plans", "save", 1),
        *(("log", "append", turn) for turn in (1, 2, 3)),
        *(("forge_seen", "create_issue", turn) for turn in (1, 2)),
        ("forge_seen", "post_comment", 1),
        ("deliveries", "save", 3),
    ],
)
def test_killed_anywhere_the_same_approval_ends_in_one_root_its_parts_and_one_comment(wish, port, method, side, turn):
    real = getattr(wish, port)
    setattr(wish, port, Watched(real, [method], dying_at(side, turn)))
    with pytest.raises(Killed):
        wish.start(PARTS)
    setattr(wish, port, real)
    loop = wish.start(PARTS)
    assert wish.events(ROOT) == ["task_published"]
    assert [wish.number(key) for key in (ROOT, GREETING, "farewell")] == [1, 2, 3]
    wish.drive(loop)
    assert wish.state(ROOT).done
    assert len([body for body in wish.comments(ROOT) if "- #2 Greeting" in body]) == 1
    assert wish.tracker.issues[1].body == WISH
