"""Every answer comes in by one way, and is validated against the log (rulings, Questions)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.app import Preferences
from irontree.domain.halt import AGENT_ASKED, AGENT_BUDGET, RED_FOUND, RULE, RULES, SECRET_FOUND
from irontree.domain.state import Phase
from irontree.errors import AnswerRefused, Busy, ConfigRefused, GitFailed, RemoteUnavailable, SequenceConflict
from irontree.repository.memory import MemoryRepository, MemoryWorkspace
from irontree.services.answers.answers import _USE_CASES, Answer, answer_issue, answer_loop, validate
from irontree.services.answers.approve import approve, approve_stepwise
from irontree.services.execution.run import run
from irontree.services.execution.steps import next_step
from irontree.services.execution.verify import verify
from irontree.services.loops import loop as loops
from irontree.services.proposals.sources import propose
from irontree.services.questions.questions import question_about
from irontree.services.views.history import say_loop_event
from tests.support.watching import Watched
from tests.support.world import MANUAL_TASK, ONE_TASK, TWO, Scene, accepts, does, nobody, sends_back


@pytest.fixture
def pending(scene) -> Scene:
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    return scene


def question(scene: Scene, reason: str = "pending_acceptance"):
    return question_about(scene.state(), RULE[reason])


def test_each_choice_of_each_question_is_answered_by_one_use_case_and_nothing_else_is():
    asked = [rule for rule in (*RULES, AGENT_BUDGET, SECRET_FOUND, AGENT_ASKED, RED_FOUND) if rule.asked_of]
    assert {*_USE_CASES} == {(rule.asked_of, rule.reason, choice.name) for rule in asked for choice in rule.choices}


def test_an_answer_to_the_open_question_is_recorded_and_delivered(pending):
    assert answer_issue(pending.app, 1, accepts()).last_event == "checkup_accept_recorded"
    assert pending.labels() >= {"stage:done"}


@pytest.mark.parametrize(
    ("given", "newest"),
    [
        (accepts(), ("checkup_accept_recorded", "loop_halted")),
        (Answer("skip", "ada"), ("verify_pending_acceptance", "loop_cancelled")),
    ],
)
def test_the_log_is_backed_up_behind_an_answer(scene, given, newest):
    """R13: a form may be the last that anybody does for days."""
    loop, backed_up = scene.start(MANUAL_TASK), []
    scene.drive(loop)

    def tell(_, side):
        if side == "before":
            backed_up.append((scene.events()[-1], scene.loop_events(loop)[-1]))

    scene.repository = Watched(scene.repository, ["back_up"], tell)
    answer_issue(scene.app, 1, given, loop.id)
    assert backed_up == [newest]


def test_the_log_is_backed_up_behind_an_answer_to_the_loop_itself(scene):
    scene.preferences = Preferences(loop_budget=1)
    loop, backed_up = scene.start(ONE_TASK), []
    assert scene.drive(loop).reason == "loop_budget_exhausted"

    def tell(_, side):
        if side == "before":
            backed_up.append(scene.loop_events(loop)[-1])

    scene.repository = Watched(scene.repository, ["back_up"], tell)
    answer_loop(scene.app, loop.id, Answer("stop", "ada"))
    assert backed_up == ["loop_cancelled"]


@pytest.mark.parametrize("way", [approve, approve_stepwise])
def test_the_log_is_backed_up_behind_an_approval(scene, way):
    """R13: an approval may be the last that anybody does for days."""
    proposal, backed_up = propose(scene.app, scene.write(ONE_TASK), loop_mode=way is approve), []

    def tell(_, side):
        if side == "before":
            backed_up.append((scene.events(), len(scene.loops.ids())))

    scene.repository = Watched(scene.repository, ["back_up"], tell)
    way(scene.app, proposal, proposal.name, "ada")
    assert backed_up == [(["task_published"], int(way is approve))]


def test_an_early_answer_is_refused(scene):
    scene.publish(MANUAL_TASK)
    with pytest.raises(AnswerRefused, match="has no open question: it is ready to run"):
        answer_issue(scene.app, 1, accepts())


def test_a_second_answer_is_refused(pending):
    answer_issue(pending.app, 1, accepts())
    with pytest.raises(AnswerRefused, match="has no open question"):
        answer_issue(pending.app, 1, accepts())
    assert pending.events().count("checkup_accept_recorded") == 1


def test_an_answer_to_an_earlier_question_is_refused(pending):
    shown = question(pending).key
    answer_issue(pending.app, 1, sends_back("again"))
    run(pending.app, 1)
    verify(pending.app, 1)
    with pytest.raises(AnswerRefused, match=shown):
        answer_issue(pending.app, 1, Answer("accept", "ada", question=shown))
    now = question(pending).key
    assert answer_issue(pending.app, 1, Answer("accept", "ada", question=now)).phase is Phase.VERIFIED


def test_the_key_of_a_question_is_the_same_as_long_as_the_log_is(pending):
    assert question(pending).key == question(pending).key == "issue-1-4-pending-acceptance"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Answer("retry", "ada"), "is no answer to"),
        (Answer("skip", "ada"), "is no answer to"),
        (Answer("send-back", "ada"), "needs a note"),
        (Answer("send-back", "ada", note="   "), "needs a note"),
        (Answer("accept", "  "), "does not say who decided"),
    ],
)
def test_a_wrong_answer_is_refused_and_writes_nothing(pending, answer, complaint):
    with pytest.raises(AnswerRefused, match=complaint):
        answer_issue(pending.app, 1, answer)
    assert pending.events()[-1] == "verify_pending_acceptance"


def test_a_refused_choice_is_told_the_legal_ones(pending):
    with pytest.raises(AnswerRefused) as refused:
        answer_issue(pending.app, 1, Answer("yes", "ada"))
    assert refused.value.remedy == "one of: accept, reject"


@pytest.mark.parametrize("count", [None, 0, -1, 51])
def test_more_attempts_must_be_some_and_not_too_many(scene, count):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    with pytest.raises(AnswerRefused, match="needs a count") as refused:
        answer_issue(scene.app, 1, Answer("retry", "ada", count=count))
    assert refused.value.remedy == "answer again with a count from 1 to 50"
    state = answer_issue(scene.app, 1, Answer("retry", "ada", count=2))
    assert (state.phase, state.max_retry_count) == (Phase.READY, 2)


def test_the_same_commit_can_be_asked_to_be_verified_again(scene):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    assert answer_issue(scene.app, 1, Answer("verify", "ada")).phase is Phase.COMMITTED


def test_a_label_counts_as_well_as_a_word(pending):
    assert validate(question(pending), Answer("accept this commit", "ada")).name == "accept"


def test_an_unknown_issue_asks_nothing(scene):
    with pytest.raises(AnswerRefused, match="issue-9 is not known here") as refused:
        answer_issue(scene.app, 9, accepts())
    assert refused.value.remedy == "`irontree status` lists the issues that are"


def test_going_on_with_a_log_that_cannot_be_trusted_is_refused(scene):
    scene.publish(ONE_TASK)
    scene.log.files(1).files["0002-run-started.yml"] = b"torn"
    with pytest.raises(AnswerRefused, match="cannot be read"):
        answer_issue(scene.app, 1, Answer("go-on", "ada"))


def test_the_wrong_revision_is_refused_with_the_right_one(pending):
    spec = pending.write(MANUAL_TASK.replace("friendly", "kind"))
    run_again = answer_issue(pending.app, 1, sends_back("again"))
    assert run_again.phase is Phase.READY
    assert run(pending.app, 1).phase is Phase.STALE
    with pytest.raises(AnswerRefused, match="that does not name an approval") as refused:
        answer_issue(pending.app, 1, Answer("approve", "ada", revision="deadbeef"))
    assert refused.value.remedy.endswith(f"type its name: {propose(pending.app, spec).name}")


# --- of a loop -----------------------------------------------------------------------------------------


def halted(scene: Scene, **preferences: int) -> loops.Loop:
    if preferences:
        scene.preferences = type(scene.preferences)(**preferences)
    loop = scene.start()
    scene.drive(loop, nobody)
    return loops.read_loop(scene.app, loop.id)


def said(scene: Scene, loop: loops.Loop) -> list[str]:
    """What is told of the loop's events that carry a note."""
    return [say_loop_event(record) for record in scene.loops.read(loop.id).records if "note" in record.meta]


def test_skipping_takes_the_task_and_what_depends_on_it_out_of_the_loop(scene):
    loop = halted(scene)
    state = answer_issue(scene.app, scene.number(TWO), Answer("skip", "ada", note="not now"), loop.id)
    assert state.last_event == "verify_pending_acceptance", "its own log is left alone"
    assert loops.read_loop(scene.app, loop.id).cancelled == {TWO, "parts", "close"}
    assert said(scene, loop) == [f"skipped: {TWO} (ada: “not now”)"], "once, not with all that goes with it"


def test_stopping_ends_the_loop_and_leaves_its_issues_alone(scene):
    loop = halted(scene)
    answer_issue(scene.app, scene.number(TWO), Answer("stop", "ada", note="too dear"), loop.id)
    assert said(scene, loop) == ["loop cancelled (ada: “too dear”)"]
    assert loops.read_loop(scene.app, loop.id).entity.status == "cancelled"
    assert scene.events(TWO)[-1] == "verify_pending_acceptance"
    with pytest.raises(AnswerRefused, match="cancelled"):
        answer_issue(scene.app, scene.number(TWO), Answer("stop", "ada"), loop.id)


def test_a_loop_out_of_budget_asks_for_more(scene):
    loop = halted(scene, loop_budget=2)
    assert loop.entity.halt_reason == "loop_budget_exhausted"
    with pytest.raises(AnswerRefused, match="needs a count"):
        answer_loop(scene.app, loop.id, Answer("extend", "ada", count=-5))
    answer_loop(scene.app, loop.id, Answer("extend", "ada", count=5, note="go on"))
    assert said(scene, loop) == ["loop budget extended (ada: “go on”)"]
    after = loops.read_loop(scene.app, loop.id).entity
    assert (after.status, after.budget_max_transitions, after.budget_used) == ("running", 7, 2)


def test_a_loop_that_asks_nothing_takes_no_answer(scene):
    loop = scene.start()
    with pytest.raises(AnswerRefused, match="has no open question"):
        answer_loop(scene.app, loop.id, Answer("extend", "ada", count=5))


def test_a_loop_can_be_stopped_where_it_asks(scene):
    loop = halted(scene, loop_budget=2)
    answer_loop(scene.app, loop.id, Answer("stop", "ada", note="enough"))
    assert said(scene, loop) == ["loop cancelled (ada: “enough”)"]
    assert loops.read_loop(scene.app, loop.id).entity.status == "cancelled"


def test_an_answer_settles_first_what_a_dead_driver_left(pending):
    answer_issue(pending.app, 1, accepts())
    assert "children killed" in pending.journal


def test_the_question_of_an_issue_is_what_it_needs_next(pending):
    assert next_step(pending.app, 1) == question(pending)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (GitFailed("no git"), AnswerRefused),
        (SequenceConflict("late"), AnswerRefused),
        (RemoteUnavailable("out"), RemoteUnavailable),
        (Busy("somebody"), Busy),
    ],
)
def test_whatever_refuses_to_do_what_was_answered_leaves_the_question_open(pending, failure, told):
    """What time can cure refuses no answer: that can be taken later."""

    class Refusing(MemoryRepository):
        def read_ref(self, ref: str) -> str | None:
            raise failure

        def workspace(self, *_: object) -> MemoryWorkspace:
            raise failure

    pending.repository = Refusing(pending.root, pending.cache)
    pending.results._reports.clear()  # what the checks said is lost: they would have to run again
    with pytest.raises(told, match=failure.message):
        answer_issue(pending.app, 1, sends_back("longer"))
    assert pending.events()[-1] == "verify_pending_acceptance"


def test_an_answer_is_refused_before_anything_is_done_where_the_configuration_cannot_be_read(pending):
    def broken():
        raise ConfigRefused(".mino/config.yml, line 3: expected `:`", remedy="put the YAML right")

    before = pending.repository.remote["main"]
    with pytest.raises(AnswerRefused, match="line 3") as refused:
        answer_issue(replace(pending.app, preferences=broken), 1, accepts())
    assert refused.value.remedy == "put the YAML right"
    assert (pending.events()[-1], pending.repository.remote["main"]) == ("verify_pending_acceptance", before)
