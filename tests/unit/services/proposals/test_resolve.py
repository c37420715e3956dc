"""The Resolved Plan of a set of issues: resolved once, shown, approved by its name, one loop over it (R6, R17)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.agents import Member
from irontree.domain.commands import Issues, OpenIssues
from irontree.domain.state import ADOPTED, NEEDS_BREAKDOWN, STAGE_RUN, Phase
from irontree.errors import ApprovalRefused, Busy, LogDamaged, NotEligible
from irontree.services.answers.approve import adopt, approve, approve_stepwise, resolve_to_approve
from irontree.services.loops.loop import cancel, read_loop
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.proposal import Proposal
from irontree.services.proposals.sources import resolve
from tests.support.approving import approve_as_shown
from tests.support.issues import CLEAR, authorise, edit, resolved, say, write
from tests.support.watching import Killed, Watched, dying_at
from tests.support.world import CLOSE, GREETING, ONE_TASK, PARTS, SPEC, TWO, Scene, does, ends, make_scene

CLOSING = "Depends on: #1\n\n- [ ] closed `$ has close.txt`\n"
LONGER = f"{CLEAR}- [ ] it says who it is `$ has greet.txt hello`\n"


@pytest.fixture
def two(scene) -> Scene:
    """#1 Greeting, and #2 Close, which depends on it; nobody has taken them in."""
    write(scene)
    write(scene, "Close", CLOSING)
    return scene


def shown(scene: Scene, *numbers: int) -> str:
    return approval_text(scene.app, resolved(scene, *numbers), loop_mode=True, answer="yes")


def everything(scene: Scene):
    streams = {number: scene.log.read(number).records for number in scene.log.streams()}
    return streams, scene.plans.revisions(), scene.loops.ids(), dict(scene.tracker.issues), dict(scene.tracker.comments)


# --- what is resolved -----------------------------------------------------------------------------------------


def test_resolving_writes_nothing(two):
    before = everything(two)
    resolved(two, 1, 2)
    shown(two, 1, 2)
    assert everything(two) == before


def test_named_issues_become_one_set_in_the_order_in_which_they_were_named(two):
    found = resolved(two, 2, 1, words="#2 #1")
    assert [(member.number, member.status, member.due) for member in found.draft.tasks] == [
        (2, "adopted", True),
        (1, "adopted", True),
    ]
    assert (found.intent, found.what, found.draft.budget) == ("#2 #1", "issues #2, #1", 50)


def test_issues_of_one_set_may_depend_on_each_other(two):
    assert resolved(two, 1, 2).nodes[1].depends_on == (GREETING,)


def test_issues_that_wait_for_each_other_are_refused(two):
    edit(two, 1, body=f"Depends on: #2\n\n{CLEAR}")
    with pytest.raises(NotEligible, match="wait for each other"):
        resolved(two, 1, 2)


def test_a_query_finds_open_adopted_issues_oldest_first_and_at_most_so_many(two):
    write(two, "Not adopted")
    for number in (2, 1):
        two.forge("us").set_labels(number, add=[ADOPTED])
    assert [member.number for member in resolved(two).draft.tasks] == [1, 2]
    first = resolve(two.app, OpenIssues(1), "前 1 条")
    assert [member.number for member in first.draft.tasks] == [1]
    assert (first.intent, first.what) == ("前 1 条", "open issues labelled iron-tree:adopted, oldest first, at most 1")


def test_a_query_that_finds_nothing_says_how_to_adopt(two):
    with pytest.raises(NotEligible, match="there are no open issues labelled") as refused:
        resolved(two)
    assert "irontree task adopt" in refused.value.remedy


def test_published_tasks_join_as_they_are(scene):
    scene.publish(ONE_TASK)
    number = write(scene, "Close", CLOSING)
    found = resolved(scene, 1, number)
    assert [(member.status, member.due) for member in found.draft.tasks] == [("published", False), ("adopted", True)]
    text = shown(scene, 1, number)
    assert "[published]" in text
    assert "[adopted]" in text


def test_a_task_that_goes_to_another_branch_than_is_shown_is_pointed_out(scene):
    """Any other setting of another day keeps it out: it has to be approved again first."""
    today = scene.policy
    scene.policy = today.model_copy(update={"publish": today.publish.on_own_branch("hotl/own", None)})
    scene.publish(ONE_TASK)
    number, scene.policy = write(scene, "Close", CLOSING), today
    own = "#1 goes on as it was approved with SPEC.md: its code goes to hotl/own of "
    [warning] = [text for text in resolved(scene, number, 1).draft.warnings if text.startswith(own)]
    assert warning.removeprefix(own) in (today.publish.remote, "this repository")
    scene.policy = today.model_copy(update={"team": (Member(name="coder", command=("coder",)),)})
    with pytest.raises(NotEligible, match="is not the approved one"):
        resolved(scene, number, 1)


def test_the_parts_of_a_published_composite_join_it(scene):
    scene.publish(SPEC)
    keys = resolved(scene, scene.number(PARTS)).keys
    assert keys == (PARTS, "parts-part-one", TWO)


def test_what_a_published_task_waits_for_outside_the_set_is_pointed_out(scene):
    scene.publish(SPEC)
    assert "waits for" in shown(scene, scene.number(CLOSE))


def test_a_published_task_whose_document_changed_is_refused_with_the_way_on(scene):
    scene.publish(ONE_TASK)
    scene.write(ONE_TASK.replace("it says hello", "it says bye"))
    with pytest.raises(NotEligible, match="is not what was approved") as refused:
        resolved(scene, 1)
    assert "irontree task SPEC.md" in refused.value.remedy


def test_an_edited_adopted_issue_is_shown_as_re_adopted_with_its_archive_and_what_changed(two):
    authorise(two, 1)
    revision = two.state().approved_revision
    edit(two, 1, body=LONGER)
    text = shown(two, 1)
    assert f"[re_adopted, archived to .mino/archive/issue-1-rev-{revision}]" in text
    assert "criterion added: it says who it is" in text


def test_done_issues_are_left_out_with_the_reason(two):
    loop = authorise(two, 1)
    assert two.drive(loop).reason == "goal_reached"
    two.forge("us").edit_issue(1, state="open")
    found = resolved(two, 1, 2)
    assert [(each.number, each.reason) for each in found.draft.excluded] == [(1, "it is done")]
    assert found.keys == (CLOSE,)
    with pytest.raises(NotEligible, match="nothing can be done here"):
        resolved(two, 1)


# --- what does not fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": "closed"}, "Issue #2 is CLOSED; only OPEN issues can be adopted. 0 issue"),
        ({"body": "- [ ] a\n" * 4}, "appears composite"),
        ({"pull_request": True}, "pull request"),
    ],
)
def test_one_named_issue_that_does_not_fit_aborts_the_batch_before_anything_is_written(two, changes, said):
    edit(two, 2, **changes)
    with pytest.raises(NotEligible, match="Batch adopt aborted at #2: ") as refused:
        resolved(two, 1, 2)
    assert said in refused.value.message
    assert (two.log.streams(), two.plans.revisions(), two.loops.ids()) == ((), (), ())


def test_the_abort_says_which_are_adopted_already(two):
    adopt(two.app, 1)
    edit(two, 2, state="closed")
    with pytest.raises(NotEligible, match=r"1 issue\(s\) already adopted: #1$"):
        resolved(two, 1, 2)


def test_a_composite_issue_that_was_named_gets_its_label_but_not_when_only_looking(two):
    edit(two, 2, body="- [ ] a\n" * 4)
    with pytest.raises(NotEligible):
        resolved(two, 2)
    assert two.tracker.issues[2].labels == ()
    with pytest.raises(NotEligible):
        resolve_to_approve(two.app, Issues((2,)), "#2")
    assert two.tracker.issues[2].labels == (NEEDS_BREAKDOWN,)


def test_nothing_is_written_on_the_forge_while_another_process_has_the_driver_lock(two):
    """R3: without the label the refusal is the same."""
    edit(two, 2, body="- [ ] a\n" * 4)
    with two.driver.hold("somebody else"), pytest.raises(NotEligible, match="appears composite"):
        resolve_to_approve(two.app, Issues((1, 2)), "#1 #2")
    assert two.tracker.issues[2].labels == ()


def test_what_a_query_finds_and_does_not_fit_is_left_out_with_the_reason(two):
    write(two, "Big", "- [ ] a\n" * 4)
    write(two, "Vague", "It should be nicer.")
    for number in (1, 2, 3, 4):
        two.forge("us").set_labels(number, add=[ADOPTED])
    found = resolved(two)
    assert [each.number for each in found.draft.excluded] == [3, 4]
    text = shown(two)
    assert "#3 Big: Issue #3 appears composite" in text
    assert "#4 Vague: What must hold" in text
    approve(two.app, found, found.name, "ada")
    assert NEEDS_BREAKDOWN in two.tracker.issues[3].labels


def test_a_named_issue_that_leaves_something_open_blocks_the_approval_of_the_set(two):
    write(two, "Vague", "It should be nicer.")
    found = resolved(two, 1, 3)
    assert "Open questions" in shown(two, 1, 3)
    for refuse in (Proposal.require_clear, lambda plan: approve(two.app, plan, plan.name, "ada")):
        with pytest.raises(ApprovalRefused, match="no acceptance criterion"):
            refuse(found)
    assert two.log.streams() == ()


def test_two_issues_with_one_key_do_not_both_join(two):
    """R8"""
    write(two, "Greeting", "- [ ] another `$ has x.txt`\n")
    with pytest.raises(NotEligible, match="same task key as #1"):
        resolved(two, 1, 3)


# --- approval -------------------------------------------------------------------------------------------------


def test_the_approval_shows_loop_goal_words_query_tasks_and_where_code_goes(two):
    text = shown(two, 1, 2)
    found = resolved(two, 1, 2)
    for needed in (
        "You are authorizing Loop Mode",
        found.name,
        "Goal: all 2 tasks are done",
        "Asked for: `#1 #2`",
        "issues #1, #2",
        "#1 Greeting",
        "depends on greeting",
        "has greet.txt hello",
        "at most 50",
        "`main` of `origin`",
        "When it stops and asks",
    ):
        assert needed in text


def test_the_approval_shows_what_the_agent_is_told_and_where(scene):
    """Whoever approves by a label has not read the issue."""
    write(scene, "Greeting", "Say it kindly, and in two languages.\n\n- [ ] it is there `$ has x.txt`\n")
    text = shown(scene, 1)
    assert f"- Repository: {scene.app.repository.root.name}" in text
    assert "> Say it kindly, and in two languages." in text.partition("## What the agent is told")[2]


@pytest.mark.parametrize("change", ["text", "comment", "settings", "set"])
def test_a_name_is_for_exactly_this_set_with_these_texts_and_settings(two, change):
    """R6"""
    name = resolved(two, 1, 2).name
    assert resolved(two, 1, 2).name == name
    match change:
        case "text":
            edit(two, 2, title="Closing")
        case "comment":
            say(two, 2, "- [ ] and locked `$ has lock.txt`\n")
        case "settings":
            two.policy = two.policy.model_copy(update={"max_retry_count": 9})
    now = resolved(two, 1, 2) if change != "set" else resolved(two, 1)
    with pytest.raises(ApprovalRefused, match=r"resolves to is \w+ now"):
        now.require_named(name)


@pytest.mark.parametrize(("given", "said"), [("", "was not named"), ("half", "only the beginning of")])
def test_who_types_too_little_of_a_name_is_told_so_and_not_that_something_changed(two, given, said):
    found = resolved(two, 1, 2)
    with pytest.raises(ApprovalRefused, match=said) as refused:
        found.require_named(given and found.name[:8])
    assert refused.value.remedy.endswith(found.name)


def test_an_approved_set_is_one_loop_over_exactly_its_tasks(two):
    """TC-11.7"""
    found = resolved(two, 1, 2, words="#1 #2")
    loop = approve(two.app, found, found.name, "ada")
    entity = loop.entity
    assert (loop.id, entity.task_keys, entity.goal_kind) == (found.loop_id, (GREETING, CLOSE), "set_done")
    assert (entity.intent, entity.resolved_query) == ("#1 #2", "issues #1, #2")
    for key in (GREETING, CLOSE):
        assert two.events(key) == ["task_adopted", "task_approved"]
        assert two.labels(key) == {ADOPTED, STAGE_RUN}
        approval = two.world.plan(two.state(key)).approval
        assert (approval.by, approval.channel) == ("ada", "command")
    assert two.drive(loop).reason == "goal_reached"


def test_what_is_adopted_while_the_loop_runs_is_not_in_it(two):
    """The set is frozen when it is approved: a loop never asks the query again."""
    for number in (1, 2):
        two.forge("us").set_labels(number, add=[ADOPTED])
    loop = approve_as_shown(two.app, resolved(two), "ada")
    later = write(two, "Later")
    two.forge("us").set_labels(later, add=[ADOPTED])
    assert two.drive(loop).reason == "goal_reached"
    assert read_loop(two.app, loop.id).entity.task_keys == (GREETING, CLOSE)
    assert two.log.streams() == (1, 2)


def test_one_issue_alone_is_a_loop_with_the_goal_of_one_task(two):
    assert authorise(two, 1).entity.goal_kind == "task_done"


def test_the_same_words_again_go_on_with_the_same_loop_without_asking(two):
    loop = authorise(two, 1, 2)
    again = resolved(two, 1, 2)
    assert again.approved
    assert again.loop_id == loop.id
    assert approve(two.app, again, again.name, "ada").id == loop.id
    assert two.loops.ids() == (loop.id,)


def test_the_same_words_again_when_some_of_it_is_done_go_on_with_the_same_loop(two):
    loop = authorise(two, 1, 2)
    two.agent = ScriptedAgent(does(greet_txt="hello"), ends("exited", 1))
    two.drive(loop)
    assert two.state(GREETING).done
    assert not two.state(CLOSE).done
    again = resolved(two, 1, 2)
    assert [each.number for each in again.draft.excluded] == [1]
    assert again.loop_id == loop.id
    assert again.approved


def test_approved_without_a_loop_is_no_approval_of_loop_mode(two):
    """R17"""
    found = resolved(two, 1)
    approve_stepwise(two.app, found, found.name, "ada")
    assert two.loops.ids() == ()
    assert two.state().phase is Phase.READY
    now = resolved(two, 1)
    assert [(member.status, member.due, member.warnings) for member in now.draft.tasks] == [("adopted", False, ())]
    assert not now.approved


def test_an_approved_re_adoption_goes_on_in_its_loop(two):
    loop = authorise(two, 1, 2)
    edit(two, 1, body=LONGER)
    assert two.drive(loop).reason == "reapproval_required"
    again = authorise(two, 1, 2)
    assert again.id == loop.id
    assert two.events(GREETING)[0] == "task_re_adopted"
    assert two.drive(again).reason == "goal_reached"


# --- one open loop ------------------------------------------------------------------------------------------


def test_a_loop_that_has_other_tasks_too_is_finished_or_ended_first(two):
    loop = authorise(two, 1, 2)
    with pytest.raises(NotEligible, match=f"loop {loop.id} is open") as refused:
        authorise(two, 1)
    assert f"irontree resume {loop.id}" in refused.value.remedy
    cancel(two.app, loop.id, "ada")
    assert authorise(two, 1).id != loop.id


def test_a_loop_with_none_but_these_tasks_is_replaced(two):
    first = authorise(two, 1)
    second = authorise(two, 1, 2)
    assert read_loop(two.app, first.id).entity.status == "cancelled"
    assert second.keys == (GREETING, CLOSE)


def test_nothing_is_written_while_an_open_loop_cannot_be_trusted(two):
    loop = authorise(two, 1)
    two.loops.files(loop.id).files.clear()
    with pytest.raises(LogDamaged):
        authorise(two, 1, 2)
    assert two.loops.ids() == (loop.id,)
    assert two.log.streams() == (1,)


def test_a_loop_that_is_at_work_is_never_replaced(two):
    first = authorise(two, 1)
    with two.lease.hold(first.id), pytest.raises(Busy, match="is at work"):
        authorise(two, 1, 2)
    assert read_loop(two.app, first.id).entity.status == "running"


def test_stepwise_while_the_loop_over_the_same_tasks_is_at_work_is_refused(two):
    loop = authorise(two, 1)
    found = resolved(two, 1)
    with two.lease.hold(loop.id), pytest.raises(Busy):
        approve_stepwise(two.app, found, found.name, "ada")


# --- killed anywhere ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("port", "method", "side", "turn"),
    [
        *(("plans", "save", side, turn) for side in ("before", "after") for turn in (1, 2)),
        *(("log", "append", side, turn) for side in ("before", "after") for turn in (1, 2, 3, 4)),
        *(("loops", "append", side, 1) for side in ("before", "after")),
        *(("loops", "write_entity", side, 1) for side in ("before", "after")),
        *(("deliveries", "save", side, turn) for side in ("before", "after") for turn in (1, 3)),
    ],
)
def test_killed_anywhere_the_same_words_end_in_one_loop_over_all(two, port, method, side, turn):
    real = getattr(two, port)
    setattr(two, port, Watched(real, [method], dying_at(side, turn)))
    with pytest.raises(Killed):
        authorise(two, 1, 2)
    setattr(two, port, real)
    loop = authorise(two, 1, 2)
    assert two.loops.ids() == (loop.id,)
    assert [two.events(key) for key in (GREETING, CLOSE)] == [["task_adopted", "task_approved"]] * 2
    assert two.drive(loop).reason == "goal_reached"


def test_approving_many_issues_reads_each_log_no_oftener_than_approving_a_few(tmp_path):
    def reads(issues: int) -> int:
        scene, calls = make_scene(tmp_path / str(issues)), []
        for number in range(issues):
            write(scene, f"Greeting {number}")
        shown = resolved(scene, *range(1, issues + 1))
        scene.log = Watched(scene.log, ["read"], lambda call, side: calls.append(call))
        approve(scene.app, shown, shown.name, "ada")
        return len(calls)

    assert reads(8) <= 2 * reads(4)
