"""The answer `allow`: the rule for what was denied is added and approved by that answer, and the agent tries again."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.agents import AgentSpec, Member
from irontree.domain.attempt import Claim
from irontree.domain.gates import Gate, Gates
from irontree.domain.permissions import PermissionRule
from irontree.domain.state import Phase
from irontree.errors import AnswerRefused
from irontree.ports import AgentResult
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.comments import look
from irontree.services.execution.run import run
from irontree.services.execution.steps import next_step
from irontree.services.execution.verify import verify
from irontree.services.proposals.again import special_choices
from irontree.services.proposals.sources import propose
from irontree.services.questions.commands import answers_to
from irontree.services.questions.listing import asked_about, explain
from irontree.services.questions.pages import question_text
from irontree.services.views.history import say_issue_event
from tests.support.approving import write_plan
from tests.support.forges import change_comment
from tests.support.world import CLOSE, GREETING, MANUAL_TASK, ONE_TASK, Scene, does

RULE = PermissionRule(tool="execute", match="npm test", allow=True)
TWO_TASKS = f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n"


def is_denied(words: str = "no rule allows: execute npm test", **files: str):
    """A step that writes these files and was denied something."""

    def step(task):
        does(**files)(task)
        claim = Claim(True, "end_turn")
        return AgentResult("exited", 0, 1.0, "", claim, denied=(words,))

    return step


def asks_for_leave(scene: Scene) -> Scene:
    scene.policy = scene.policy.model_copy(update={"agent": AgentSpec(adapter="acp", command=("agent",))})
    return scene


def spend(scene: Scene, attempts: int = 4) -> Scene:
    """Let that many attempts fail, each denied the same."""
    scene.agent = ScriptedAgent(*[is_denied(greet_txt=f"{n}\n") for n in range(attempts)], does(greet_txt="hello\n"))
    for _ in range(attempts):
        run(scene.app, 1), verify(scene.app, 1)
    return scene


@pytest.fixture
def failed(scene) -> Scene:
    asks_for_leave(scene).publish(TWO_TASKS)
    return spend(scene)


def test_the_form_offers_it_with_the_rule_that_it_adds(failed):
    text = question_text(failed.app, next_step(failed.app, 1))
    assert "**allow**: allow what the agent was denied, and try again" in text
    assert '- {tool: execute, match: "npm test", allow: true}' in text
    assert "your answer approves exactly that" in text


def test_why_names_it_among_the_choices(failed):
    assert "verify, allow" in explain(failed.app, GREETING).rule


def test_a_terminal_names_the_command(failed):
    asked = asked_about(failed.app, failed.world, (), failed.state())
    assert ("allow", "irontree answer 1 allow") in [(c.name, command) for c, command in answers_to(asked)]


def test_the_answer_adds_the_rule_approves_it_and_gives_another_attempt(failed):
    state = answer_issue(failed.app, 1, Answer("allow", "ada"))
    assert failed.policy.agent.permissions == (RULE,)
    plan = failed.world.plans[GREETING]
    assert (plan.policy, plan.approved_by) == (failed.policy, "ada")
    assert (state.phase, state.max_retry_count) == (Phase.READY, 4)
    assert failed.last().meta["allowed"] == ["execute npm test"]
    assert run(failed.app, 1).last_event == "run_completed", "nothing waits for another approval"
    assert "what was denied is allowed now: execute npm test" in failed.agent.tasks[-1].prompt


def test_it_is_said_what_is_allowed_now_and_in_which_file(failed):
    answer_issue(failed.app, 1, Answer("allow", "ada"))
    said = say_issue_event(failed.last())
    assert said == ("resumed by ada; allowed from now on: execute npm test (.mino/config.yml has it now: commit that)")


def test_other_tasks_with_the_same_settings_go_on_without_another_question(failed):
    answer_issue(failed.app, 1, Answer("allow", "ada"))
    failed.agent = ScriptedAgent(does(close_txt="closed\n"))
    assert run(failed.app, failed.number(CLOSE)).last_event == "run_completed"


def test_what_waits_for_acceptance_is_sent_back_with_it(scene):
    asks_for_leave(scene).publish(MANUAL_TASK)
    scene.agent = ScriptedAgent(is_denied(greet_txt="hello\n"))
    run(scene.app, 1), verify(scene.app, 1)
    assert special_choices(scene.app, "pending_acceptance", GREETING) == ("allow",)
    assert answer_issue(scene.app, 1, Answer("allow", "ada")).last_event == "verify_failed_retryable"


def test_what_is_blocked_before_its_next_attempt_goes_on_with_it(scene):
    asks_for_leave(scene)
    scene.policy = scene.policy.model_copy(update={"same_failure": 2})
    scene.publish(ONE_TASK)
    spend(scene, attempts=2)
    assert run(scene.app, 1).blocking_check == "same-failure"
    assert "**allow**" in question_text(scene.app, next_step(scene.app, 1))
    answer_issue(scene.app, 1, Answer("allow what the agent was denied, and try again", "ada"))
    assert run(scene.app, 1).last_event == "run_completed"


@pytest.mark.parametrize(
    ("words", "adapter"),
    [
        ("a rule forbids: execute npm test", "acp"),
        ("outside the workspace: edit /etc/passwd", "acp"),
        ("no rule allows: execute npm test", "command"),
    ],
)
def test_it_is_not_offered_where_no_rule_would_help(scene, words, adapter):
    scene.policy = scene.policy.model_copy(update={"agent": AgentSpec(adapter=adapter, command=("agent",))})
    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(*[is_denied(words, greet_txt=f"{n}\n") for n in range(4)])
    for _ in range(4):
        run(scene.app, 1), verify(scene.app, 1)
    assert special_choices(scene.app, "fail_terminal", GREETING) == ()


def test_where_nothing_was_denied_it_is_refused_and_nothing_is_written(scene):
    asks_for_leave(scene).publish(ONE_TASK)
    scene.agent = ScriptedAgent(*[does(greet_txt=f"{n}\n") for n in range(4)])
    for _ in range(4):
        run(scene.app, 1), verify(scene.app, 1)
    before = scene.events()
    with pytest.raises(AnswerRefused, match="denied nothing"):
        answer_issue(scene.app, 1, Answer("allow", "ada"))
    assert (scene.events(), scene.policy.agent.permissions) == (before, ())


def test_it_approves_nothing_else_that_changed_meanwhile(failed):
    """R6: what was approved is what runs."""
    failed.policy = failed.policy.model_copy(update={"check_seconds": 7})
    with pytest.raises(AnswerRefused, match="in other ways"):
        answer_issue(failed.app, 1, Answer("allow", "ada"))
    assert failed.policy.agent.permissions == ()


def test_an_answer_that_a_crash_cut_short_can_be_given_again(failed):
    """Killed behind the configuration, before the plan."""
    failed.allow([RULE])
    assert "**allow**" in question_text(failed.app, next_step(failed.app, 1))
    answer_issue(failed.app, 1, Answer("allow", "ada"))
    assert failed.policy.agent.permissions == (RULE,)
    assert failed.world.plans[GREETING].policy == failed.policy


def test_an_answer_given_again_reaches_the_plans_of_other_documents_too(failed):
    """Killed behind the configuration: each open plan that differs by these rules alone still gets them."""
    other = failed.root / "OTHER.md"
    other.write_text("# Other\n\n## Farewell\n\n- [ ] it says bye `$ has bye.txt`\n")
    proposal = propose(failed.app, other)
    write_plan(failed.app, proposal, proposal.name, "ada")
    failed.allow([RULE])
    answer_issue(failed.app, 1, Answer("allow", "ada"))
    assert {plan.policy for plan in failed.world.plans.values()} == {failed.policy}


def test_it_is_still_known_who_approved_the_work(failed):
    """Else who asked for it would pass a gate that wants somebody else, behind a colleague's leave."""
    before = failed.world.plans[GREETING].approval
    answer_issue(failed.app, 1, Answer("allow", "grace"))
    assert failed.world.plans[GREETING].approval == before
    assert failed.last().meta["by"] == "grace"


# --- in a comment ---------------------------------------------------------------------------------------------


def behind_a_gate(scene: Scene, words: str = "no rule allows: execute npm test") -> Scene:
    """Its attempts failed, each denied the same; two people have to approve what changes what was approved."""
    scene.tracker.writers |= {"alice", "bob"}
    asks_for_leave(scene)
    scene.policy = scene.policy.model_copy(update={"gates": Gates(approval=Gate(approvers=2))})
    scene.agent = ScriptedAgent(*[is_denied(words, greet_txt=f"{n}\n") for n in range(4)], does(greet_txt="hello\n"))
    scene.drive(scene.start(ONE_TASK))
    return scene


def allows_as(scene: Scene, name: str) -> str:
    scene.forge(name).post_comment(1, "/allow")
    return look(scene.app)[-1].outcome


def test_the_comment_that_asks_shows_the_rules(scene):
    behind_a_gate(scene)
    assert "`/allow` allows what the agent was denied, and tries again: `execute npm test`" in scene.comments()[-1]


def test_it_approves_and_so_it_has_to_pass_the_gate_of_approvals(scene):
    """R6: the rules are settings, whatever the halt asks; the gate `failure` is open here."""
    behind_a_gate(scene)
    with pytest.raises(AnswerRefused, match="the gate “approval” counts only comments"):
        answer_issue(scene.app, 1, Answer("allow", "mallory"))
    assert allows_as(scene, "alice") == "counted"
    assert scene.policy.agent.permissions == ()
    assert allows_as(scene, "bob") == "taken"
    assert scene.policy.agent.permissions == (RULE,)


@pytest.mark.parametrize("command", ["echo `id`", "touch .mino/config.yml"])
def test_rules_that_the_comment_could_not_show_are_not_approved_by_a_comment(scene, command):
    behind_a_gate(scene, f"no rule allows: execute {command}")
    assert allows_as(scene, "alice") == "refused"
    said = "was not taken: the comment that asks does not show which rules this would approve. What to do: "
    assert said in scene.comments()[-1]
    assert scene.policy.agent.permissions == ()


def test_rules_in_a_comment_that_was_edited_are_not_believed(scene):
    behind_a_gate(scene)
    asking = scene.tracker.comments[1][-1]
    change_comment(scene.tracker, 1, asking.id, asking.body)
    assert allows_as(scene, "alice") == "refused"


@pytest.mark.parametrize(("kinds", "offered"), [(("feature",), False), (("docs",), True)])
def test_it_is_not_offered_where_a_member_of_the_team_was_denied_it(scene, kinds, offered):
    """The rules of `agent` would not be its own."""
    asks_for_leave(scene)
    member = Member(name="coder", adapter="acp", command=("agent",), kinds=kinds)
    scene.policy = scene.policy.model_copy(update={"team": (member,)})
    scene.reviewers["coder"] = ScriptedAgent(is_denied(greet_txt="no\n"))
    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(*[is_denied(greet_txt=f"{n}\n") for n in range(4)])
    for _ in range(4):
        run(scene.app, 1), verify(scene.app, 1)
    assert ("allow" in special_choices(scene.app, "fail_terminal", GREETING)) is offered
