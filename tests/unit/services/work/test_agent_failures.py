"""What keeps an agent from its work: what it costs, what is asked, and what time alone lifts (R12)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.agents import Member
from irontree.domain.attempt import Claim, Usage
from irontree.domain.decide import FIRST_WAIT
from irontree.domain.state import Phase
from irontree.errors import RemoteUnavailable
from irontree.ports import AgentResult
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.run import run
from irontree.services.execution.steps import next_step
from irontree.services.execution.verify import verify
from irontree.services.questions.listing import explain
from irontree.services.questions.pages import question_text
from tests.support.memory_project import push_from_elsewhere
from tests.support.world import GREETING, ONE_TASK, Scene, does


@pytest.fixture
def ready(scene) -> Scene:
    scene.publish(ONE_TASK)
    return scene


def fails(failure: str | None, words: str = "sorry", retry_at: datetime | None = None, **files: str):
    """A step that writes these files and ends with this failure."""

    def step(task):
        does(**files)(task)
        claim, usage = Claim(False, "error", words), Usage(120, 7, 0.25)
        return AgentResult("exited", 1, 2.5, "", claim, failure, retry_at, usage, "s-1", ("Bash: rm",))  # type: ignore[arg-type]

    return step


def take(scene: Scene):
    return run(scene.app, 1)


@pytest.mark.parametrize(("failure", "check"), [("rate_limited", "rate-limited"), ("unreachable", "agent-unreachable")])
def test_a_service_that_is_in_the_way_costs_no_attempt_and_is_waited_for(ready, failure, check):
    ready.agent = ScriptedAgent(fails(failure))
    state = take(ready)
    assert ready.events()[1:] == ["run_started", "run_interrupted", "checkup_preflight_blocked"]
    assert (state.phase, state.blocking_check, state.attempt_count) == (Phase.BLOCKED, check, 0)
    assert state.not_before == ready.last().meta["not_before"]
    assert "sorry" in ready.last().meta["reason"]
    assert state.not_before in ready.last().meta["remedy"]


def test_what_it_had_done_before_the_limit_is_put_aside(ready):
    ready.agent = ScriptedAgent(fails("rate_limited", greet_txt="half"))
    take(ready)
    kept = ready.repository.refs["refs/irontree/salvage/issue-1/2"]
    assert ready.repository.commits[kept].files["greet.txt"] == b"half"


def test_what_the_attempt_took_is_recorded_though_it_does_not_count(ready):
    ready.agent = ScriptedAgent(fails("rate_limited"))
    take(ready)
    agent = ready.records()[-2].meta["agent"]
    assert [str(agent[key]) for key in ("input_tokens", "output_tokens", "cost_usd")] == ["120", "7", "0.25"]
    assert (agent["failure"], agent["session"], agent["denied"]) == ("rate_limited", "s-1", ["Bash: rm"])


def test_the_time_that_the_service_named_counts(ready):
    later = datetime(2199, 1, 1, 5, tzinfo=UTC)
    ready.agent = ScriptedAgent(fails("rate_limited", retry_at=later))
    assert take(ready).not_before == "2199-01-01T05:00:00Z"


def test_waits_in_a_row_grow_and_work_that_goes_on_ends_the_row(ready):
    ready.agent = ScriptedAgent(
        fails("unreachable"), fails("unreachable"), does(greet_txt="hello"), fails("unreachable")
    )
    waited = []
    for _ in range(2):
        state = take(ready)
        waited.append(datetime.fromisoformat(state.not_before) - ready.clock.now())
        answer_issue(ready.app, 1, Answer("go-on", "timer"))
    assert waited[1] - waited[0] == pytest.approx(FIRST_WAIT, abs=timedelta(minutes=2))
    assert ready.state().waits == 2
    take(ready)
    assert (ready.state().waits, ready.state().attempt_count) == (0, 1)


def test_however_often_time_lifts_the_block_no_attempt_is_used_up(ready):
    ready.agent = ScriptedAgent(*[fails("rate_limited")] * 5, does(greet_txt="hello"))
    for _ in range(5):
        assert take(ready).blocking_check == "rate-limited"
        answer_issue(ready.app, 1, Answer("go-on", "timer"))
    assert (take(ready).last_event, ready.state().attempt_count) == ("run_completed", 1)


def test_an_agent_without_access_asks_a_person_and_no_timer(ready):
    ready.agent = ScriptedAgent(fails("not_authenticated", "please run /login"))
    state = take(ready)
    assert (state.blocking_check, state.attempt_count, state.not_before) == ("agent-not-authenticated", 0, None)
    assert "please run /login" in ready.last().meta["reason"]
    assert "agent.environment" in ready.last().meta["remedy"]


def test_a_refusal_counts_and_the_next_attempt_is_told_what_was_said(ready):
    ready.agent = ScriptedAgent(fails("refused", "I will not do that", greet_txt="half"), does(greet_txt="hello"))
    assert (take(ready).last_event, ready.state().attempt_count) == ("run_completed", 1)
    verify(ready.app, 1)
    take(ready)
    assert "I will not do that" in ready.agent.tasks[1].prompt


def test_the_question_says_until_when_and_so_does_why(ready):
    ready.agent = ScriptedAgent(fails("rate_limited"))
    state = take(ready)
    question = next_step(ready.app, 1)
    assert question.not_before == state.not_before
    assert state.not_before in explain(ready.app, GREETING).rule


def test_an_outage_of_the_remote_is_waited_for_too(ready):
    later = datetime(2199, 1, 1, tzinfo=UTC)
    ready.repository.failures += [RemoteUnavailable("no route", not_before=later)] * 3
    assert take(ready).not_before == "2199-01-01T00:00:00Z"


# --- an agent that says itself that it has no access ---------------------------------------------------------


def test_an_agent_that_says_it_has_no_access_is_asked_about_before_an_attempt(ready):
    ready.agent.access_denied = "`agent status` says that nobody is logged in"
    state = take(ready)
    assert ready.events()[1:] == ["checkup_preflight_blocked"]
    assert state.blocking_check == "agent-not-authenticated"
    assert "nobody is logged in" in ready.last().meta["reason"]
    assert "agent.environment" in ready.last().meta["remedy"]
    assert ready.agent.tasks == []


def test_it_is_the_author_of_the_task_that_is_asked_for_it(scene):
    scene.policy = scene.policy.model_copy(update={"team": (Member(name="coder", command=("coder",)),)})
    scene.reviewers["coder"] = ScriptedAgent(does(greet_txt="hello"))
    scene.agent.access_denied = "nobody is logged in to what is not called"
    scene.publish(ONE_TASK)
    assert take(scene).last_event == "run_completed"
    scene.reviewers["coder"].access_denied = "`coder status` says no"
    scene.publish(ONE_TASK.replace("Greeting", "Close"))
    assert run(scene.app, 2).blocking_check == "agent-not-authenticated"
    assert "`coder status` says no" in scene.last("close").meta["reason"]


def test_a_person_who_says_to_go_on_knows_better_and_the_attempt_tells(ready):
    ready.agent.access_denied = "`agent status` says that nobody is logged in"
    take(ready)
    answer_issue(ready.app, 1, Answer("go-on", "ada"))
    assert take(ready).last_event == "run_completed"


# --- going on from what was put aside (R5) -------------------------------------------------------------


def looks(seen: list, text: str = ""):
    """A step that notes what greet.txt held, and writes *text* there, if any."""

    def step(task):
        path = task.workspace / "greet.txt"
        seen.append(path.read_text() if path.exists() else None)
        if text:
            path.write_text(text)

    return step


@pytest.mark.parametrize("failure", ["rate_limited", "unreachable", "not_authenticated"])
def test_the_next_attempt_goes_on_from_what_was_put_aside_and_is_told(ready, failure):
    seen = []
    ready.agent = ScriptedAgent(fails(failure, greet_txt="half"), looks(seen, "hello"))
    take(ready)
    answer_issue(ready.app, 1, Answer("go-on", "timer"))
    assert take(ready).last_event == "run_completed"
    assert seen == ["half"]
    assert "Its changes\nare in the workspace" in ready.agent.tasks[1].prompt
    assert ready.repository.commits[ready.state().commit].parents == (ready.state().base_sha,), "one commit per task"


def test_it_stands_on_the_same_base_though_others_have_published(ready):
    seen = []
    ready.agent = ScriptedAgent(fails("rate_limited", greet_txt="half"), looks(seen, "hello"))
    base = take(ready).base_sha
    push_from_elsewhere(ready.repository, {"theirs.txt": b"x"})
    answer_issue(ready.app, 1, Answer("go-on", "timer"))
    assert (take(ready).base_sha, seen) == (base, ["half"])


def test_an_attempt_that_adds_nothing_to_it_and_fails_is_given_back(ready):
    ready.agent = ScriptedAgent(fails("rate_limited", greet_txt="half"), fails(None))
    take(ready)
    answer_issue(ready.app, 1, Answer("go-on", "timer"))
    state = take(ready)
    assert (state.last_event, state.attempt_count) == ("run_interrupted", 0)


def test_nothing_is_gone_on_with_that_was_killed_or_belongs_to_an_attempt_that_counted(ready):
    seen = []
    killed = AgentResult("cancelled", None, 1.0, "")
    steps = [lambda task: does(greet_txt="torn")(task) or killed, looks(seen, "first"), looks(seen, "hello")]
    ready.agent = ScriptedAgent(*steps)
    take(ready), take(ready), verify(ready.app, 1), take(ready)
    assert seen == [None, "first"]


def test_what_a_crash_interrupts_later_still_begins_with_it(ready):
    seen = []
    ready.agent = ScriptedAgent(
        fails("rate_limited", greet_txt="half"), fails(None, greet_txt="half"), looks(seen, "hello")
    )
    take(ready)
    answer_issue(ready.app, 1, Answer("go-on", "timer"))
    assert take(ready).last_event == "run_interrupted"
    take(ready)
    assert seen == ["half"]


def test_no_attempt_is_told_of_work_that_is_not_there(ready):
    ready.agent = ScriptedAgent(lambda _: None, does(greet_txt="no"), does(greet_txt="hello"))
    for _ in range(2):
        take(ready), verify(ready.app, 1)
    take(ready)
    assert not [task for task in ready.agent.tasks if "What is there already" in task.prompt]


# --- An agent that asks instead of working


def says(words: str, exit_code: int = 0, failure: str | None = None, **files: str):
    """A step that writes these files and ends with these words."""

    def step(task):
        does(**files)(task)
        return AgentResult("exited", exit_code, 2.5, "", Claim(None, "summary", words), failure)  # type: ignore[arg-type]

    return step


def asked(scene: Scene, *steps):
    scene.agent = ScriptedAgent(*steps, does(greet_txt="hello"))
    take(scene)
    return verify(scene.app, 1)


def left(state) -> int:
    return state.total_attempts - state.attempt_count


def test_words_instead_of_a_change_are_put_to_a_person_at_once_with_what_fails(ready):
    state = asked(ready, says("Which greeting?\nIn which language?"))
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "agent-asks")
    text = question_text(ready.app, next_step(ready.app, 1))
    assert "> Which greeting?\n> In which language?" in text
    assert "has greet.txt hello" in text
    assert "answer the agent" in text


def test_the_answer_is_in_the_prompts_of_all_later_attempts_and_none_is_used_up(ready):
    before = left(ready.state())
    asked(ready, says("Which greeting?"), does(greet_txt="hallo"))
    answer_issue(ready.app, 1, Answer("send-back", "ada", note="the English one"))
    assert left(ready.state()) == before
    take(ready)
    verify(ready.app, 1)
    take(ready)
    for task in ready.agent.tasks[1:]:
        assert "> Which greeting?" in task.prompt
        assert "> the English one" in task.prompt
    assert verify(ready.app, 1).last_event == "verify_passed"


@pytest.mark.parametrize("choice", ["go-on", "send-back"])
def test_an_agent_that_asks_for_ever_costs_no_attempt(ready, choice):
    ready.agent = ScriptedAgent(says("Which greeting?"))
    before = left(ready.state())
    for _ in range(6):
        take(ready)
        assert verify(ready.app, 1).blocking_check == "agent-asks"
        answer_issue(ready.app, 1, Answer(choice, "ada", note="any"))
        assert (ready.state().phase, left(ready.state())) == (Phase.READY, before)


def test_what_was_denied_can_be_allowed_where_the_agent_asks(ready):
    denied = "Bash: rm"
    result = AgentResult("exited", 0, 2.5, "", Claim(None, "summary", "I was not allowed to"), denied=(denied,))
    asked(ready, lambda _: result)
    assert denied in question_text(ready.app, next_step(ready.app, 1))


def test_an_attempt_that_leaves_the_files_as_the_one_before_did_asks_too(ready):
    ready.agent = ScriptedAgent(does(greet_txt="hallo"), says("the test is wrong", greet_txt="hallo"))
    take(ready)
    assert verify(ready.app, 1).last_event == "verify_failed_retryable"
    take(ready)
    assert verify(ready.app, 1).blocking_check == "agent-asks"


def test_where_the_checks_pass_without_a_change_a_person_can_accept_that(scene):
    scene.publish(ONE_TASK)
    scene.checks = ScriptedCheckRunner(lambda command, workspace: 0)
    state = asked(scene, says("it is done already"))
    assert state.phase is Phase.PENDING
    assert "it is done already" in question_text(scene.app, next_step(scene.app, 1))


def test_without_a_word_the_checks_judge_and_the_attempt_counts(ready):
    state = asked(ready, lambda _: None)
    assert (state.last_event, state.attempt_count) == ("verify_failed_retryable", 1)


def test_an_agent_says_by_its_end_that_it_needs_an_answer_and_goes_on_from_its_work(ready):
    ready.agent = ScriptedAgent(says("Which greeting?", 10, "asks", half_txt="half"), does(greet_txt="hello"))
    state = take(ready)
    assert (state.phase, state.blocking_check, state.attempt_count) == (Phase.BLOCKED, "agent-asks", 0)
    assert "> Which greeting?" in question_text(ready.app, next_step(ready.app, 1))
    answer_issue(ready.app, 1, Answer("send-back", "ada", note="the English one"))
    assert (take(ready).attempt_count, ready.state().max_retry_count) == (1, state.max_retry_count)
    assert "> the English one" in ready.agent.tasks[1].prompt
    assert ready.repository.commits[ready.state().commit].files["half.txt"] == b"half"
