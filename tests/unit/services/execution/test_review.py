"""Reviewers between the checks and publication (R18)."""

from __future__ import annotations

import json

import pytest

from irontree.agents.scripted import ScriptedAgent, ScriptedStep
from irontree.domain.agents import ReviewerSpec
from irontree.domain.attempt import Claim
from irontree.domain.decide import Run, Verify
from irontree.errors import Cancelled, RemoteUnavailable
from irontree.ports import AgentResult, AgentTask
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.steps import next_step, perform
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from irontree.services.questions.pages import question_text
from irontree.services.questions.questions import Question
from tests.support.world import GREETING, Scene, accepts, does

SPEC = """\
# Toy

## Greeting

- [ ] it says hello
"""
CHECKED = f"{SPEC}\n### Verification\n\n- `$ has greet.txt hello`\n"
APPROVES = {"verdict": "approve"}
CITES = {
    "verdict": "approve",
    "criteria": [{"criterion": 1, "met": True, "evidence": [{"file": "greet.txt", "line": 1, "quote": "hello"}]}],
}
OBJECTS = {"verdict": "request_changes", "findings": [{"text": "greets nobody", "file": "greet.txt"}]}


def says(answer: object) -> ScriptedStep:
    """A step that leaves that verdict: JSON, or text as it is."""
    text = answer if isinstance(answer, str) else json.dumps(answer)

    def step(task: AgentTask) -> None:
        (task.workspace / ".irontree-verdict.json").write_text(text)

    return step


def reviewed_by(scene: Scene, **reviewers: ScriptedAgent) -> None:
    scene.reviewers = dict(reviewers)
    specs = tuple(ReviewerSpec(name=name, command=(name,)) for name in reviewers)
    scene.policy = scene.policy.model_copy(update={"reviewers": specs})


def work(scene: Scene, text: str = CHECKED) -> None:
    """One attempt, and its verification."""
    if not scene.world.states:
        scene.publish(text)
    perform(scene.app, Run(GREETING))
    perform(scene.app, Verify(GREETING))


def test_what_a_reviewer_approves_is_published(scene: Scene):
    reviewed_by(scene, critic=ScriptedAgent(says(APPROVES)))
    work(scene)
    assert scene.events()[-1] == "verify_passed"


def test_findings_are_the_context_of_the_next_attempt(scene: Scene):
    reviewed_by(scene, critic=ScriptedAgent(says(OBJECTS), says(APPROVES)))
    work(scene)
    assert scene.events()[-1] == "verify_failed_retryable"
    work(scene)
    prompt = scene.agent.tasks[-1].prompt
    assert "failed at: review by critic" in prompt
    assert "greet.txt: greets nobody" in prompt
    assert scene.events()[-1] == "verify_passed"


def test_nobody_reviews_what_fails_its_checks(scene: Scene):
    reviewed_by(scene, critic=ScriptedAgent(says(APPROVES)))
    scene.agent = ScriptedAgent(does(greet_txt="adieu"))
    work(scene)
    assert scene.events()[-1] == "verify_failed_retryable"
    assert scene.reviewers["critic"].tasks == []


def test_reviewers_are_asked_in_order_up_to_the_first_that_objects(scene: Scene):
    reviewed_by(scene, sanity=ScriptedAgent(says(OBJECTS)), critic=ScriptedAgent(says(APPROVES)))
    work(scene)
    assert len(scene.reviewers["sanity"].tasks) == 1
    assert scene.reviewers["critic"].tasks == []


def test_cited_evidence_covers_a_criterion_that_nothing_else_covers(scene: Scene):
    """Without a check of its own it would wait for a person."""
    reviewed_by(scene, critic=ScriptedAgent(says(CITES)))
    work(scene, f"{SPEC}- [ ] it is there `$ has greet.txt`\n")
    assert scene.events()[-1] == "verify_passed"
    report = scene.results.load(scene.number(), scene.state().anchor or "")
    assert report is not None
    assert report.cited == {"it says hello": "greet.txt:1 (critic)"}


def test_an_approval_without_evidence_leaves_the_criterion_to_a_person(scene: Scene):
    reviewed_by(scene, critic=ScriptedAgent(says(APPROVES)))
    work(scene, f"{SPEC}- [ ] it is there `$ has greet.txt`\n")
    assert scene.events()[-1] == "verify_pending_acceptance"


def test_an_answer_that_cannot_be_used_is_sent_back_with_what_is_wrong(scene: Scene):
    critic = ScriptedAgent(says("fine by me"), says(APPROVES))
    reviewed_by(scene, critic=critic)
    work(scene)
    assert scene.events()[-1] == "verify_passed"
    assert "Why your last answer could not be used" in critic.tasks[1].prompt


def test_three_answers_that_cannot_be_used_are_a_persons_question_and_cost_no_attempt(scene: Scene):
    critic = ScriptedAgent(says("no"), says("no"), says("no"), says(APPROVES))
    reviewed_by(scene, critic=critic)
    work(scene)
    assert scene.last().event.event == "checkup_preflight_blocked"
    assert scene.state().blocking_check == "no-review"
    assert scene.state().attempt_count == 1
    answer_issue(scene.app, scene.number(), Answer("go-on", by="ada"))
    perform(scene.app, Verify(GREETING))
    assert scene.events()[-1] == "verify_passed"


def test_a_folder_in_the_place_of_the_verdict_stops_nobody_the_next_time(scene: Scene):
    def leaves_a_folder(task: AgentTask) -> None:
        (task.workspace / ".irontree-verdict.json").mkdir()

    reviewed_by(scene, critic=ScriptedAgent(leaves_a_folder, says(APPROVES)))
    work(scene)
    assert scene.events()[-1] == "verify_passed"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "", ".", "missing.txt"])
def test_a_citation_from_nowhere_is_no_evidence(scene: Scene, path: str):
    cites = {**CITES, "criteria": [{"criterion": 1, "met": True, "evidence": [{"file": path, "quote": "hello"}]}]}
    critic = ScriptedAgent(says(cites), says(APPROVES))
    reviewed_by(scene, critic=critic)
    work(scene)
    assert len(critic.tasks) == 2
    assert scene.events()[-1] == "verify_passed"


def test_a_reviewer_whose_service_has_a_limit_is_waited_for(scene: Scene):
    def limited(_: AgentTask) -> AgentResult:
        return AgentResult("exited", 1, 1.0, "429", claim=Claim(False, "error"), failure="rate_limited")

    critic = ScriptedAgent(limited)
    reviewed_by(scene, critic=critic)
    work(scene)
    assert len(critic.tasks) == 1
    assert scene.state().blocking_check == "rate-limited"
    assert scene.last().meta["not_before"]


def test_who_writes_nothing_has_said_nothing(scene: Scene):
    reviewed_by(scene, critic=ScriptedAgent(lambda _: None))
    work(scene)
    assert "no verdict was written" in scene.last().meta["reason"]


def test_what_a_reviewer_writes_into_the_code_goes_nowhere(scene: Scene):
    def meddles(task: AgentTask) -> None:
        (task.workspace / "greet.txt").write_text("hello, from the reviewer")
        says(APPROVES)(task)

    reviewed_by(scene, critic=ScriptedAgent(meddles))
    work(scene)
    published = scene.repository.workspace("verify", scene.policy.workspace)
    published.prepare(scene.state().anchor or "")
    assert (published.path / "greet.txt").read_text() == "hello, attempt 1\n"


def test_a_reviewer_that_has_spoken_is_not_asked_again(scene: Scene):
    """The push failed: only that is done again."""
    reviewed_by(scene, critic=ScriptedAgent(says(APPROVES)))
    scene.publish(CHECKED)
    perform(scene.app, Run(GREETING))
    scene.repository.failures += [RemoteUnavailable("the remote does not answer")] * 3
    perform(scene.app, Verify(GREETING))
    assert scene.events()[-1] == "verify_publication_failed"
    perform(scene.app, Verify(GREETING))
    assert scene.events()[-1] == "verify_passed"
    assert len(scene.reviewers["critic"].tasks) == 1


def test_a_review_that_is_stopped_records_nothing(scene: Scene):
    reviewed_by(scene, critic=ScriptedAgent(lambda _: AgentResult("cancelled", None, 0.0, "")))
    scene.publish(CHECKED)
    perform(scene.app, Run(GREETING))
    with pytest.raises(Cancelled, match="review"):
        perform(scene.app, Verify(GREETING))
    assert scene.events()[-1] == "run_completed"


def test_a_manual_criterion_waits_for_a_person_whoever_reviewed(scene: Scene):
    reviewed_by(scene, critic=ScriptedAgent(says(APPROVES)))
    work(scene, CHECKED.replace("says hello\n", "says hello\n- [ ] it is friendly (manual)\n"))
    assert scene.events()[-1] == "verify_pending_acceptance"
    answer_issue(scene.app, scene.number(), accepts())
    assert scene.events()[-1] == "checkup_accept_recorded"
    assert len(scene.reviewers["critic"].tasks) == 1


def test_the_approval_names_the_reviewers(scene: Scene):
    reviewed_by(scene, critic=ScriptedAgent(says(APPROVES)))
    text = approval_text(scene.app, propose(scene.app, scene.write(SPEC)), loop_mode=True, answer="")
    assert "Reviewer `critic`, once the checks have passed: `critic`" in text
    assert "**a person judges this**, unless a reviewer cites evidence" in text


def test_the_form_for_used_up_attempts_says_what_they_failed_at(scene: Scene):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    reviewed_by(scene, critic=ScriptedAgent(says(OBJECTS)))
    work(scene)
    asked = next_step(scene.app, scene.number())
    assert isinstance(asked, Question)
    assert "**Why:** it failed at review by critic" in question_text(scene.app, asked)
