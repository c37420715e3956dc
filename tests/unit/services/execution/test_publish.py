"""Every node becomes an issue, exactly once (protocol, phase 2; R7, R8)."""

from __future__ import annotations

import re

import pytest

from irontree.domain.adoption import key_marker
from irontree.errors import NotEligible, RemoteUnavailable
from irontree.services.execution.publish import publish
from irontree.services.execution.run import run
from irontree.services.execution.steps import catch_up
from irontree.services.proposals.approval import publication_order
from irontree.services.proposals.sources import propose
from irontree.services.record import commit_ref, salvage_ref
from tests.support.approving import write_plan
from tests.support.watching import Killed, Watched, dying, dying_at
from tests.support.world import CLOSE, GREETING, ONE, ONE_TASK, PARTS, SPEC, TWO, Scene

KEYS = [GREETING, PARTS, ONE, TWO, CLOSE]


def approved(scene: Scene, text: str = SPEC):
    proposal = propose(scene.app, scene.write(text))
    return write_plan(scene.app, proposal, proposal.name, "ada")


def status(published) -> list[str]:
    return [status for _, _, status in published]


def test_each_node_gets_an_issue_an_event_a_brief_and_its_label(scene):
    published = publish(scene.app, approved(scene))
    assert [(node.task_key, number) for node, number, _ in published] == list(zip(KEYS, range(1, 6), strict=True))
    assert status(published) == ["created"] * 5
    for key in KEYS:
        assert scene.events(key) == ["task_published"]
        assert scene.labels(key) == {"enhancement", "stage:task"}
        assert scene.projections.texts[scene.root / f".mino/briefs/issue-{scene.number(key)}.md"]
    assert scene.repository.has_history


def test_publishing_again_changes_nothing(scene):
    """TC-5.2"""
    plan = approved(scene)
    publish(scene.app, plan)
    issues, texts = dict(scene.tracker.issues), dict(scene.projections.texts)
    assert status(publish(scene.app, plan)) == ["kept"] * 5
    assert (scene.tracker.issues, scene.projections.texts) == (issues, texts)
    assert scene.events() == ["task_published"]


def test_parents_come_first_and_bodies_name_the_numbers(scene):
    publish(scene.app, approved(scene))
    body = scene.tracker.issues[scene.number(ONE)].body
    assert re.search(r"Parent: .*#2", body)
    assert re.search(r"(?i)depends.*#1", body)
    assert key_marker(ONE) in body.splitlines()


def test_among_tasks_that_nothing_orders_priority_does(scene):
    text = (
        "# T\n\n## Later\n\nPriority: low\n\n- [ ] a\n\n## Plain\n\n- [ ] b\n\n## Urgent\n\nPriority: high\n\n- [ ] c\n"
    )
    assert [node.title for node in publication_order(approved(scene, text).nodes)] == ["Urgent", "Plain", "Later"]


def test_a_parent_comes_before_a_child_that_nothing_else_orders(scene):
    plan = approved(scene, SPEC.replace("Depends on: Greeting\n\n", ""))
    keys = [node.task_key for node in publication_order(plan.nodes)]
    assert keys.index(PARTS) < keys.index(ONE)
    assert keys.index(GREETING) < keys.index(PARTS), "document order where nothing else decides"


@pytest.mark.parametrize(
    ("port", "method", "side"),
    [
        *(("forge_seen", "create_issue", side) for side in ("before", "after")),
        *(("log", "append", side) for side in ("before", "after")),
        *(("deliveries", "save", side) for side in ("before", "after")),
        *(("projections", "write", side) for side in ("before", "after")),
    ],
)
def test_a_crash_anywhere_leaves_nothing_twice_and_nothing_out(scene, port, method, side):
    plan = approved(scene)
    watched = Watched(getattr(scene, port), [method], dying(side))
    setattr(scene, port, watched)
    with pytest.raises(Killed):
        publish(scene.app, plan)
    publish(scene.app, plan)
    assert [issue.title for issue in scene.tracker.issues.values()] == [
        *("Greeting", "Parts", "Part one", "Part two", "Close")
    ]
    assert all(scene.events(key) == ["task_published"] for key in KEYS)
    assert all("stage:task" in scene.labels(key) for key in KEYS)
    assert len(scene.projections.texts) == 5


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("method", "call"), [("create_issue", 3), ("assign", 3), ("depend", 1), ("depend", 4)])
def test_an_issue_whose_publication_was_cut_off_is_assigned_and_shows_what_it_waits_for(scene, method, call, side):
    settings = scene.policy.publish.model_copy(update={"assignees": ("bob",)})
    scene.policy = scene.policy.model_copy(update={"publish": settings})
    plan, seen = approved(scene), scene.forge_seen
    scene.forge_seen = Watched(seen, [method], dying_at(side, call))
    with pytest.raises(Killed):
        publish(scene.app, plan)
    scene.forge_seen = seen
    publish(scene.app, plan)
    assert scene.tracker.assignees == dict.fromkeys(map(scene.number, KEYS), ("bob",))
    assert {number: set(others) for number, others in scene.tracker.dependencies.items()} == {
        scene.number(ONE): {scene.number(GREETING)},
        scene.number(TWO): {scene.number(GREETING)},
        scene.number(CLOSE): {scene.number(ONE), scene.number(TWO)},
    }


def test_an_issue_is_found_by_its_marker(scene):
    mine = scene.forge("us").create_issue("Greeting", f"text\n{key_marker(GREETING)}\n")
    assert status(publish(scene.app, approved(scene, ONE_TASK))) == ["found"]
    assert scene.number() == mine.number
    assert "it says hello" in scene.tracker.issues[mine.number].body, "its text is the approved one"


def test_a_strangers_issue_with_our_marker_is_not_ours(scene):
    """R8: anybody can open an issue."""
    scene.forge("mallory").create_issue("Greeting", key_marker(GREETING))
    assert status(publish(scene.app, approved(scene, ONE_TASK))) == ["created"]
    assert scene.number() == 2


def test_a_marker_in_the_middle_of_a_line_is_none(scene):
    scene.forge("us").create_issue("About markers", f"like `{key_marker(GREETING)}`")
    publish(scene.app, approved(scene, ONE_TASK))
    assert scene.number() == 2


def test_of_two_issues_with_one_key_the_lowest_counts_and_somebody_is_told(scene):
    for _ in range(2):
        scene.forge("us").create_issue("Greeting", key_marker(GREETING))
    publish(scene.app, approved(scene, ONE_TASK))
    assert scene.number() == 1
    assert any("#1, #2 all carry the key greeting" in line for line in scene.notes.lines)


class Beside:
    """A forge beside whose first two tasks somebody else publishes the same: each just before we could."""

    def __init__(self, scene: Scene) -> None:
        self._forge, self._others = scene.forge("us"), scene.forge("us")
        self._left = [GREETING, PARTS]

    def __getattr__(self, name: str):
        return getattr(self._forge, name)

    def _others_publish(self) -> None:
        if self._left:
            self._others.create_issue("theirs", key_marker(self._left.pop(0)))

    def create_issue(self, title: str, body: str, labels):
        self._others_publish()
        return self._forge.create_issue(title, body, labels)

    def set_labels(self, *given, **named) -> None:
        """The last of what the first task needs."""
        self._forge.set_labels(*given, **named)
        self._others_publish()


def test_who_met_another_publisher_looks_before_each_of_its_own_from_then_on(scene):
    plan = approved(scene)
    scene.forge_seen = Beside(scene)
    assert status(publish(scene.app, plan)) == ["created", "found", *["created"] * 3]
    assert [number for number, issue in scene.tracker.issues.items() if issue.state == "closed"] == [2]
    assert (scene.number(GREETING), scene.number(PARTS)) == (1, 3)


def test_an_outage_stops_publication_and_it_goes_on_from_there(scene):
    plan = approved(scene)
    scene.tracker.outage = "503"
    with pytest.raises(RemoteUnavailable):
        publish(scene.app, plan)
    scene.tracker.outage = None
    assert status(publish(scene.app, plan)) == ["created"] * 5


# --- approved again (R7) -------------------------------------------------------------------------------


CHANGED = SPEC.replace("one exists", "one is there")


def test_only_the_task_whose_own_text_changed_begins_again(scene):
    publish(scene.app, approved(scene))
    run(scene.app, 1)
    plan = approved(scene, CHANGED)
    assert status(publish(scene.app, plan)) == ["kept", "kept", "renewed", "kept", "kept"]
    assert scene.events(GREETING) == ["task_published", "run_started", "run_completed"]
    assert scene.state(ONE).approved_revision == plan.spec_revision != scene.state(TWO).approved_revision
    old = scene.log.archived[f"issue-3-rev-{scene.state(TWO).approved_revision}"]
    assert sorted(old.files) == ["0001-task-published.yml", "0002-task-reapproval-required.yml"]
    assert scene.records(ONE)[0].meta["previous_revision"] == scene.state(TWO).approved_revision


def test_the_issue_of_a_renewed_task_shows_the_new_text(scene):
    publish(scene.app, approved(scene))
    publish(scene.app, approved(scene, CHANGED))
    assert "one is there" in scene.tracker.issues[3].body
    assert len(scene.tracker.issues) == 5


def test_a_renewed_task_is_delivered_from_its_first_event(scene):
    publish(scene.app, approved(scene))
    publish(scene.app, approved(scene, CHANGED))
    assert scene.deliveries.load(3).sequence == 1
    assert scene.labels(ONE) == {"enhancement", "stage:task"}


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method", "call"),
    [
        ("log", "append", 1),
        ("log", "archive", 1),
        ("deliveries", "save", 1),
        ("deliveries", "save", 2),
        ("forge_seen", "edit_issue", 1),
        ("log", "append", 2),
    ],
)
def test_a_crash_while_a_task_begins_again_loses_nothing(scene, port, method, call, side):
    publish(scene.app, approved(scene))
    plan = approved(scene, CHANGED)
    setattr(scene, port, Watched(getattr(scene, port), [method], dying_at(side, call)))
    with pytest.raises(Killed):
        publish(scene.app, plan)
    publish(scene.app, plan)
    assert scene.events(ONE) == ["task_published"]
    assert scene.state(ONE).approved_revision == plan.spec_revision
    assert len(scene.log.archived) == 1
    assert scene.state(ONE).renewed_from == next(iter(scene.log.archived)), "its names are its own"
    assert "one is there" in scene.tracker.issues[3].body
    assert scene.deliveries.load(3).sequence == 1
    assert scene.labels(ONE) == {"enhancement", "stage:task"}


def test_a_done_task_is_not_done_again(scene):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    assert status(publish(scene.app, approved(scene, ONE_TASK.replace("says", "cries")))) == ["kept"]
    assert scene.state().done


def test_text_that_goes_back_to_an_earlier_revision_begins_again_too(scene):
    publish(scene.app, approved(scene))
    publish(scene.app, approved(scene, CHANGED))
    assert status(publish(scene.app, approved(scene)))[2] == "renewed"
    assert run(scene.app, 1).last_event == "run_completed"
    with pytest.raises(NotEligible, match="depends on greeting"):
        run(scene.app, 3)


def test_attempts_of_a_renewed_task_have_names_of_their_own(scene):
    """The new stream counts from 1 again: the old commit must never be taken for the new revision's."""
    publish(scene.app, approved(scene))
    before = run(scene.app, scene.number(GREETING))
    publish(scene.app, approved(scene, SPEC.replace("hello", "good day")))
    again = run(scene.app, scene.number(GREETING))
    assert again.run_sequence == before.run_sequence
    assert commit_ref(again) != commit_ref(before)
    assert salvage_ref(again) != salvage_ref(before)


# --- logs that cannot be read (R13) ----------------------------------------------------------------------


def test_a_task_whose_first_event_cannot_be_read_stops_no_other(scene):
    publish(scene.app, approved(scene))
    scene.log.files(3).files["0001-task-published.yml"] = b"{"
    assert status(publish(scene.app, approved(scene, CHANGED))) == ["kept", "kept", "unreadable", "kept", "kept"]
    assert scene.log.files(3).files["0001-task-published.yml"] == b"{", "a person restores it"
    assert any("issue-3 is not published anew: its first event" in line for line in scene.notes.lines)
    assert any("Restore .mino/events/issue-3, then approve again: irontree init" in line for line in scene.notes.lines)
    assert len(scene.tracker.issues) == 5


def test_a_task_with_a_hole_in_its_log_does_not_begin_again_before_that_is_put_right(scene):
    publish(scene.app, approved(scene))
    run(scene.app, 1)
    del scene.log.files(1).files["0002-run-started.yml"]
    changed = SPEC.replace("it says hello", "it says good day")
    assert status(publish(scene.app, approved(scene, changed)))[0] == "unreadable"
    assert scene.log.archived == {}
    assert scene.state(GREETING).problem


def test_taking_work_up_goes_on_with_a_publication_that_was_cut_short(scene):
    """R6: it was approved."""
    plan = approved(scene)
    scene.forge_seen = Watched(scene.forge_seen, ["create_issue"], dying_at("before", 3))
    with pytest.raises(Killed):
        publish(scene.app, plan)
    scene.tracker.outage = "503"
    catch_up(scene.app)
    assert any("SPEC.md is not fully published yet: 503" in line for line in scene.notes.lines)
    scene.tracker.outage = None
    catch_up(scene.app)
    assert set(scene.world.states) == set(KEYS)


def test_a_changed_text_that_was_approved_is_never_worked_on_under_the_earlier_approval(scene):
    """The driver dies between the plan and the fresh stream, and somebody resumes."""
    publish(scene.app, approved(scene))
    plan = approved(scene, CHANGED)
    catch_up(scene.app)
    assert scene.state(ONE).approved_revision == plan.spec_revision


def test_nothing_is_published_by_itself_while_a_log_cannot_be_read(scene):
    """A task may only seem to have no issue."""
    publish(scene.app, approved(scene))
    scene.log.files(3).files["0001-task-published.yml"] = b"{"
    before = list(scene.notes.lines)
    catch_up(scene.app)
    assert scene.notes.lines == before
