"""`agent_request`: one run for each request to a member of the team, one after the other, taken up after a crash."""

from __future__ import annotations

import json
import shlex
import time

import pytest
from prefect.states import Cancelled, Running

from irontree.domain.agent_requests import again, answered, begun
from irontree.flows.agent_request import agent_request
from irontree.flows.janitor import janitor
from irontree.flows.runs import runs
from irontree.flows.runs.recovery import NOBODY_STARTS, mark_dead_runs, take_up_all
from irontree.flows.runs.requests import start_requests
from irontree.flows.serve.chores import take_comments
from irontree.services.work.standing import requests
from tests.integration.crash.laboratory import ask, team_that_counts
from tests.prefect.toys import GREETING, make_toy, served
from tests.support.repositories import git
from tests.support.store import asked_agent, standing

KEY = asked_agent().key


@pytest.fixture
def toy(tmp_path, client):
    """A project with a team, one member of which is asked something below issue 1."""
    made = make_toy(
        tmp_path, client, GREETING, "agent_request", "janitor", "issue", "loop", settings=team_that_counts(tmp_path)
    )
    ask(made.app)
    return made


def stored(toy, key=KEY):
    return toy.app.agent_requests.load(key)


def runs_of_requests(toy):
    return [run for run in toy.all_runs() if "key" in run.parameters]


def test_what_is_asked_is_answered_by_its_own_run(toy):
    assert take_up_all(toy.app).asking == (f"{KEY} goes on",)
    assert start_requests(toy.app) == (f"{KEY} goes on",)
    [run] = runs_of_requests(toy)
    ended = toy.drive(run.id, agent_request)
    assert (ended.name, ended.message) == ("Answered", stored(toy).posted)
    assert [comment.body.splitlines()[0] for comment in toy.app.forge().comments(1)] == ["[tester] It does."]
    assert start_requests(toy.app) == ()
    assert (toy.root.parent / "asked").read_text() == "asked\n"


def test_who_is_named_in_a_comment_is_asked_and_answers_below_it(toy):
    toy.app.forge().post_comment(1, "@tester does this reproduce?")
    take_comments(toy.app)
    take_comments(toy.app)
    with served(toy):
        toy.settle()
    said = [comment.body.splitlines()[0] for comment in toy.app.forge().comments(1)]
    assert said == ["@tester does this reproduce?", *["[tester] It does."] * 2]  # one of them was asked before
    assert {request.state for request in requests(toy.app)} == {"done"}


def test_a_reviewer_that_is_asked_on_the_forge_reviews_each_head_once(tmp_path, client):
    verdict = json.dumps({"verdict": "approve", "summary": "It logs in."})
    script = f"test -f login.txt && echo {shlex.quote(verdict)} > $IRONTREE_VERDICT_FILE"
    tess = {"name": "tester", "role": "reviewer", "account": "tess", "command": ["sh", "-c", script]}
    toy = make_toy(tmp_path, client, GREETING, "agent_request", settings=f"toolchain:\nteam: {json.dumps([tess])}\n")
    toy.app.agent_requests.approve(standing(toy.app.policy(None), reviews=True))
    (toy.root / "login.txt").write_text("hello\n")
    for words in (
        ("checkout", "-q", "-b", "login"),
        ("add", "login.txt"),
        ("commit", "-q", "-m", "Log in"),
        ("push", "-q", "origin", "login"),
        ("checkout", "-q", "main"),
        ("branch", "-q", "-D", "login"),
    ):
        git(toy.root, *words)
    forge = toy.app.forge()
    asked = forge.create_pull_request(head="login", base="main", title="Log in", body="", draft=False)
    forge.request_reviews(asked.number, ["tess"])
    for _ in range(2):
        take_comments(toy.app)
        with served(toy):
            toy.settle()
    [review] = forge.reviews(asked.number)
    assert (review.body.splitlines()[0], review.commit) == ("[tester] It logs in.", asked.head_sha)


def test_there_is_one_at_a_time_and_the_next_begins_when_it_has_ended(toy):
    other = asked_agent(cause="C1", issue_number=1, asked_at="2026-04-22T14:00:00Z")
    toy.app.agent_requests.save(other)
    with served(toy):
        assert start_requests(toy.app) == (f"{other.key} goes on",)
        toy.settle()
        assert [stored(toy, key).state for key in (KEY, other.key)] == ["done", "done"]
    begun_in_turn = sorted(runs_of_requests(toy), key=lambda run: run.since)
    assert [run.name for run in begun_in_turn] == [other.key, KEY]


def test_one_whose_process_died_is_taken_up_and_posts_what_is_stored(toy, client):
    [_] = start_requests(toy.app)
    [run] = runs_of_requests(toy)
    client.set_flow_run_state(run.id, Running(), force=True)
    toy.app.agent_requests.save(answered(begun(stored(toy)), "It did."))
    assert mark_dead_runs(toy.app, grace=NOBODY_STARTS) == (f"{KEY}: its process is gone",)
    by_schedule = toy.client.create_flow_run_from_deployment(toy.deployment("janitor"))
    toy.drive(by_schedule.id, janitor)
    assert runs.state(client, run.id).state == "SCHEDULED"
    assert toy.drive(run.id, agent_request).name == "Answered"
    assert [comment.body.splitlines()[0] for comment in toy.app.forge().comments(1)] == ["[tester] It did."]
    assert not (toy.root.parent / "asked").exists()


def test_one_that_fails_says_why_on_its_page(tmp_path, client):
    team = f"toolchain:\nteam:\n- name: tester\n  command: [{'true'!r}]\n"
    toy = make_toy(tmp_path, client, GREETING, "agent_request", settings=team)
    ask(toy.app)
    [_] = start_requests(toy.app)
    [run] = runs_of_requests(toy)
    ended = toy.drive(run.id, agent_request)
    assert ended.is_failed()
    assert ended.message.startswith("no usable answer in 3 rounds: no answer was written to .irontree-answer.md")


def test_without_a_toolchain_nothing_is_looked_at(toy):
    config = toy.root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace("toolchain:\n", ""))
    assert start_requests(toy.app) == ()
    assert runs_of_requests(toy) == []


def test_one_that_somebody_cancels_has_failed_and_begins_again_when_a_person_says_so(toy, client):
    [_] = start_requests(toy.app)
    [run] = runs_of_requests(toy)
    client.set_flow_run_state(run.id, Cancelled(), force=True)
    for _ in range(2):
        assert start_requests(toy.app) == ()
        assert (stored(toy).state, stored(toy).reason) == ("failed", "its run was cancelled in Prefect")
    time.sleep(1)  # a request knows its times to the second
    toy.app.agent_requests.save(again(stored(toy), toy.app.stamp()))
    assert start_requests(toy.app) == (f"{KEY} goes on",)
    assert toy.drive(run.id, agent_request).name == "Answered"
