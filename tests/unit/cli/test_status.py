"""The listing of issues, questions and loops, from values."""

from __future__ import annotations

import pytest

from irontree.cli.drive import tree_line
from irontree.cli.loops import loop_table
from irontree.cli.output import plain
from irontree.cli.status import STYLES, StatusView, as_json, blocks, look, with_checkout
from irontree.domain.agent_requests import failed
from irontree.domain.halt import APPROVAL, RULE, RULES
from irontree.domain.state import Phase
from irontree.services.answers.approve import adopt
from irontree.services.questions.listing import Revisions
from irontree.services.questions.questions import Question
from irontree.services.views.overview import IssueRow, LoopRow, Overview, state_words
from tests.support.issues import write
from tests.support.memory_project import push_from_elsewhere
from tests.support.store import asked_agent
from tests.support.watching import Watched
from tests.support.world import ONE_TASK, make_scene

LOOP_ID = "2026-04-22-1432-a3f8b2"


def row(number: int = 1, **changes) -> IssueRow:
    values = {
        "number": number,
        "task_key": f"task-{number}",
        "title": f"Task {number}",
        "parent": None,
        "depth": 0,
        "phase": Phase.READY.value,
        "stage": "definition",
        "attempts": "",
        "code_ref": None,
        "waits_for": (),
        "asks": None,
        "problem": None,
        "undelivered": (),
    }
    return IssueRow(**values | changes)


def text(
    overview: Overview,
    asked: tuple[Question, ...] = (),
    skipped: tuple[str, ...] = (),
    following: str = "",
    **more: bool,
) -> str:
    return "\n".join(plain(blocks(StatusView(overview, asked, frozenset(skipped), following, **more))))


def overview(*rows: IssueRow, **changes) -> Overview:
    return Overview(**{"issues": rows, "loops": (), "problems": (), "busy": None} | changes)


def test_watched_an_issue_that_waits_for_its_approval_is_read_once_a_minute(tmp_path):
    scene, seconds, asked = make_scene(tmp_path), [0.0], []
    adopt(scene.app, write(scene))
    scene.forge_seen = Watched(scene.forge_seen, ["read_issue"], lambda name, side: asked.append(side))
    revisions = Revisions(clock=lambda: seconds[0])
    for seconds[0] in range(0, 60, 5):
        [question] = look(scene.app, revisions).asked
        assert question.revision
    assert asked == ["before", "after"]
    seconds[0] = 60.0
    look(scene.app, revisions)
    assert len(asked) == 4


def test_an_empty_repository_is_told_what_to_type():
    assert "irontree task SPEC.md" in text(overview())


def test_the_tree_shows_depth_state_attempt_and_commit():
    done = row(2, depth=1, phase=Phase.DONE.value, attempts="2 / 4", code_ref="c0ffee00c0ffee00", title="Child")
    lines = text(overview(row(1, phase=Phase.CONTAINER.value, title="Parent"), done)).splitlines()
    assert lines[0] == "1 of 2 issues done"
    assert lines[3].split() == ["#1", "waiting", "for", "its", "children", "-", "-", "Parent"]
    assert lines[4].startswith("#2")
    assert lines[4].endswith("2/4      c0ffee0    Child")


def test_a_task_that_could_run_but_for_others_says_so():
    assert state_words(row(waits_for=("task-3",))) == "waits for others"
    assert state_words(row(waits_for=("task-3",), attempts="1 / 4")) == "ready to run"
    assert state_words(row()) == "ready to run"


def test_an_open_question_stands_with_every_command_that_answers_it():
    asked = Question(
        RULE["pending_acceptance"], "key", issue_number=7, task_key="k", title="Looks right", loop_id=LOOP_ID
    )
    shown = text(overview(row(7, phase=Phase.PENDING.value, asks="pending_acceptance")), (asked,))
    assert "1 waiting for you" in shown
    assert "#7 Looks right:" in shown
    for command in (
        "irontree accept 7",
        "irontree reject 7 --note 'NOTE'",
        "irontree skip 7",
        f"irontree stop {LOOP_ID}",
    ):
        assert command in shown


def test_who_is_at_work_is_named():
    active = f"{LOOP_ID} (process 9)"
    shown = text(overview(row(), busy="issue-1, run (process 12 on host, since now)", active_loop=active))
    assert "At work: issue-1, run (process 12 on host, since now)" in shown
    assert f"Loop at work: {LOOP_ID}" in shown
    assert "Nobody" not in shown


def test_where_nobody_is_at_work_that_is_said_with_what_to_type_last():
    resume = f"irontree resume {LOOP_ID}"
    shown = text(overview(row()), following=resume)
    assert "Nobody is at work here now." in shown
    assert shown.splitlines()[-1] == f"  {resume}"
    assert "asks you" not in shown
    asked = Question(RULE["blocked"], "key", issue_number=1, task_key="task-1", title="T", loop_id=LOOP_ID)
    assert "asks you at the terminal" in text(overview(row()), (asked,), following=resume)


def test_where_serve_would_go_on_with_the_loop_it_is_named_too():
    lines = text(overview(row()), following=f"irontree resume {LOOP_ID}", by_serve=True).splitlines()
    assert lines[-2:] == [
        "Or start again what serves every repository on your list (`irontree repos`):",
        "  irontree serve",
    ]


def test_where_a_terminal_follows_already_nothing_is_proposed():
    served = overview(row(), serving="irontree task (process 9 on host, since now)")
    shown = text(served, following=f"irontree resume {LOOP_ID}", by_serve=True)
    assert "irontree serve" not in shown
    assert "irontree task (process 9 on host, since now)" in shown
    assert "task resume" not in shown
    assert as_json(StatusView(served, next="irontree run issue-1"))["next"] is None


def test_where_everything_is_done_nobody_is_missed():
    assert "Nobody" not in text(overview(row(phase=Phase.DONE.value)))


def test_a_task_that_was_skipped_says_so_and_waits_for_nobody():
    shown = text(overview(row(7, phase=Phase.PENDING.value, asks="pending_acceptance")), skipped=("task-7",))
    assert "skipped" in shown
    assert "waiting" not in shown


def test_loops_stand_with_what_stopped_them():
    loop = LoopRow(LOOP_ID, "halted", "fail_terminal", "auth-core", 1, 3, 12, 50)
    [line] = [line for line in text(overview(row(), loops=(loop,))).splitlines() if line.startswith(LOOP_ID)]
    assert "halted: fail terminal at auth-core" in line
    assert "1 of 3" in line
    assert "12 of 50" in line


@pytest.mark.parametrize(
    ("loop", "alive", "said"),
    [
        (LoopRow(LOOP_ID, "running", None, None, 1, 3, 12, 50), {"serving": "a terminal"}, "running"),
        (LoopRow(LOOP_ID, "running", None, None, 1, 3, 12, 50), {}, "waits to be resumed"),
        (LoopRow(LOOP_ID, "halted", "blocked", "core", 1, 3, 12, 50, answered=True), {}, "waits to be resumed"),
        (LoopRow(LOOP_ID, "halted", "blocked", "core", 1, 3, 12, 50, answered=True), {"busy": "ada"}, "running"),
        (LoopRow(LOOP_ID, "cancelled", "blocked", "core", 1, 3, 12, 50), {}, "cancelled"),
    ],
)
def test_a_loop_runs_where_somebody_drives_it_and_names_no_reason_that_is_settled(loop, alive, said):
    found = overview(row(), loops=(loop,))._replace(**alive)
    assert loop_table(found).rows[0][-1] == said


def test_trouble_is_listed_and_stops_nothing():
    shown = text(overview(row(undelivered=("no space",)), problems=(".mino/events/issue-9/0001-x.yml: not readable",)))
    assert "issue-1: not delivered yet: no space" in shown
    assert ".mino/events/issue-9/0001-x.yml: not readable" in shown


def test_a_checkout_that_is_behind_is_told_with_what_helps(tmp_path):
    scene = make_scene(tmp_path)
    scene.publish(ONE_TASK)
    push_from_elsewhere(scene.repository, {"README.md": b"theirs"})
    told = with_checkout(scene.app, look(scene.app))
    assert "Your checkout:\n  your own main is 1 commit behind origin/main -> git pull" in "\n".join(
        plain(blocks(told))
    )


def test_a_member_that_did_not_answer_is_told_with_what_has_it_asked_again(tmp_path):
    scene = make_scene(tmp_path)
    assert look(scene.app).failed == ()
    scene.agent_requests.save(asked_agent(member="coder"))
    scene.agent_requests.save(failed(asked_agent(), "no usable answer in 3 rounds"))
    glance = look(scene.app)
    command = "irontree agents retry mention-C3-tester"
    assert f"mention-C3-tester below #12: no usable answer in 3 rounds -> {command}" in "\n".join(plain(blocks(glance)))
    [told] = as_json(glance)["failed_requests"]
    assert (told["command"], told["member"]) == (command, "tester")


def test_every_phase_in_which_somebody_is_asked_stands_out():
    asking = {phase for rule in RULES for phase in rule.phases}
    assert asking <= STYLES.keys()


def test_the_keys_of_the_json_form_are_documented():
    asked = Question(RULE["blocked"], "key", issue_number=7, task_key="k", title="T", detail="disk-full")
    data = as_json(StatusView(overview(row()), (asked,)))
    assert data.keys() == {
        *("issues", "questions", "loops", "budgets", "busy", "active_loop", "serving", "next", "problems"),
        *("approvals_unknown", "backup", "checkout", "failed_requests"),
    }
    assert data["questions"][0].keys() == {
        *(
            "issue",
            "document",
            "task_key",
            "title",
            "loop_id",
            "reason",
            "question",
            "detail",
            "not_before",
            "said",
            "look",
            "answers",
        ),
    }
    assert data["questions"][0]["answers"][0] == {
        "choice": "go-on",
        "label": "it is put right, go on",
        "needs": [],
        "command": "irontree retry 7",
    }


@pytest.mark.parametrize("hostile", ["\x1b[2Jevil\x9b31m", "two\nlines"])
def test_a_hostile_title_is_one_harmless_line(hostile):
    lines = text(overview(row(title=hostile))).splitlines()
    assert len(lines) == 4
    assert "\x1b" not in lines[3]
    assert "\x9b" not in lines[3]


def test_a_line_of_the_tree_says_the_same_as_the_table():
    assert tree_line(row(waits_for=("task-3",))) == "· #1 Task 1  waits for others"
    pending = row(2, phase=Phase.PENDING.value, depth=1, attempts="1 / 4", code_ref="c0ffee00c0ffee00")
    assert tree_line(pending) == "  ? #2 Task 2  waiting for acceptance  attempts 1 / 4  c0ffee0"
    assert tree_line(pending, skipped=True).startswith("  - #2 Task 2  skipped")


def test_where_all_that_waits_is_an_approval_nobody_is_told_to_write_a_document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = Question(APPROVAL, "key", document="#1", revision="3935d26f-0046be36")
    said = "\n".join(plain(blocks(StatusView(overview(), (asked,)))))
    assert said.startswith("Nothing is approved yet.")
    assert "irontree example" not in said
    assert "irontree example" not in "\n".join(plain(blocks(StatusView(overview())))), "not into another folder"
    (tmp_path / ".mino").mkdir()
    assert "irontree example > SPEC.md" in "\n".join(plain(blocks(StatusView(overview()))))
