"""`intake`: a document's approval as a form; nothing is written before it, and everything after it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from prefect.schedules import Cron
from prefect.states import Crashed, Scheduled

from irontree.domain.halt import BRANCH
from irontree.flows.intake import CHANGED_SINCE, intake, start_if_assigned
from irontree.flows.runs.recovery import go_on_approving, newest_run, wake_overtaken
from irontree.flows.runs.runs import tags
from irontree.flows.serve.approvals import asked_approvals
from irontree.flows.server.connection import ui_url
from irontree.ports import Assigned
from irontree.services.answers.approve import approve, wanted_for
from irontree.services.proposals.sources import propose
from irontree.services.questions.commands import answers_to
from irontree.services.work.standing import approve_standing, standing_text
from tests.prefect.harness import logs
from tests.prefect.toys import FRIENDLY, make_toy, wait_until
from tests.support.hotl import workflow
from tests.support.repositories import git

FILE = "hotl-workflow-rate.md"
APPROVE = "approve this revision and start the loop"


@pytest.fixture
def toy(tmp_path, client):
    """A project with a document that nobody has approved."""
    return make_toy(tmp_path, client, FRIENDLY, "intake", "issue", "loop")


def start(toy, document="SPEC.md"):
    deployment = toy.deployment("intake")
    parameters = {"repository": str(toy.root), "document": document}
    return toy.client.create_flow_run_from_deployment(deployment, parameters=parameters).id


@pytest.fixture
def asking(toy):
    """The run that asks for the approval."""
    run_id = start(toy)
    assert toy.drive(run_id, intake).name == "Suspended"
    return run_id


def test_the_form_shows_what_would_be_done_and_nothing_is_written_yet(toy, asking):
    shown = toy.asked(asking).description
    for needed in (toy.revision(), "Greeting", "test -f greeting.txt", "`main`", "Loop Mode", "a person judges this"):
        assert needed in shown
    assert toy.client.read_flow_run(asking).name == "intake SPEC.md"
    assert toy.app.plans.revisions() == ()
    assert toy.app.log.streams() == ()


def test_declined_nothing_is_written(toy, asking):
    toy.answer(asking, "do not approve")
    assert toy.drive(asking, intake).name == "Declined"
    assert toy.app.plans.revisions() == ()


def test_another_revision_is_asked_for_again_and_the_right_one_starts_the_loop(toy, asking):
    toy.answer(asking, APPROVE, revision="00000000")
    assert toy.drive(asking, intake).name == "Suspended"
    assert toy.asked(asking).description.startswith("**Not taken:**")
    assert toy.app.plans.revisions() == ()
    toy.answer(asking, APPROVE)
    ended = toy.drive(asking, intake)
    assert ended.name == "Approved"
    [loop_id] = toy.app.loops.ids()
    assert loop_id in ended.message
    plan = toy.plan()
    assert (plan.approval.by, plan.approval.channel, plan.loop_mode) == ("Ada", "form", True)
    assert toy.events() == ["task_published"]
    assert newest_run(toy.app, loop_id).state == "SCHEDULED"
    again = start(toy)
    assert toy.drive(again, intake).name == "Approved"
    assert toy.app.loops.ids() == (loop_id,)


def test_an_approval_that_was_given_before_the_process_died_is_taken_when_the_janitor_starts_it_again(
    toy, asking, client
):
    toy.answer(asking, APPROVE)
    client.set_flow_run_state(asking, Crashed(), force=True)
    assert go_on_approving(toy.app) == ("intake SPEC.md: starts again",)
    assert go_on_approving(toy.app) == ()
    assert toy.drive(asking, intake).name == "Approved"
    assert toy.events() == ["task_published"]


def test_an_approval_that_a_loop_at_work_keeps_from_being_taken_is_asked_for_again_with_the_reason(toy):
    loop_id = toy.authorise()
    spec = toy.root / "SPEC.md"
    spec.write_text(f"{FRIENDLY}\n## Farewell\n\n- [ ] it says goodbye (manual)\n")
    run_id = start(toy)
    assert toy.drive(run_id, intake).name == "Suspended"
    approve = toy.asked(run_id).choices[0]
    toy.answer(run_id, approve)
    with toy.app.lease.hold(loop_id):
        assert toy.drive(run_id, intake).name == "Suspended"
    assert f"**Not taken:** loop {loop_id} is at work" in toy.asked(run_id).description
    assert len(toy.app.plans.revisions()) == 1
    toy.answer(run_id, approve)
    assert toy.drive(run_id, intake).name == "Approved"


def test_a_document_that_is_edited_while_the_form_is_open_is_another_question(toy, asking):
    spec = toy.root / "SPEC.md"
    spec.write_text(spec.read_text().replace("it is there", "it is really there"))
    toy.answer(asking, APPROVE)
    assert toy.drive(asking, intake).name == "Suspended"
    assert toy.asked(asking).description.startswith(f"**Not taken:** {CHANGED_SINCE}")
    assert "it is really there" in toy.asked(asking).description
    assert toy.app.plans.revisions() == ()


def test_a_form_that_is_open_is_found_over_http_and_ends_once_the_same_is_approved_elsewhere(toy, asking, api_url):
    server = {"PREFECT_API_URL": api_url, "PREFECT_API_AUTH_STRING": os.environ["PREFECT_API_AUTH_STRING"]}
    assert wake_overtaken(toy.app) == ()
    [listed] = asked_approvals(toy.id, server)
    assert (listed.document, listed.form_url) == ("SPEC.md", f"{ui_url(server)}/runs/flow-run/{asking}")
    assert listed.revision == propose(toy.app, toy.root / "SPEC.md").name
    assert listed.since
    assert asked_approvals("another", server) == ()

    assert toy.drive(start(toy), intake).name == "Asked already"
    spec = toy.root / "SPEC.md"
    spec.write_text(FRIENDLY.replace("it is there", "it is really there"))
    assert [run.state_name for run in wake_overtaken(toy.app)] == ["Rescheduled"]
    assert toy.drive(asking, intake).name == "Suspended"
    [again] = asked_approvals(toy.id, server)
    assert again.revision == propose(toy.app, spec).name != listed.revision

    toy.authorise()
    assert [(run.id, run.state_name) for run in wake_overtaken(toy.app)] == [(asking, "Superseded")]
    assert asked_approvals(toy.id, server) == ()
    assert len(toy.app.loops.ids()) == 1


def test_an_approval_that_another_one_overtook_is_asked_for_again_as_it_is_now(toy, asking):
    """The document says the same again, but what this approval would replace is not what the form showed."""
    spec = toy.root / "SPEC.md"
    spec.write_text(FRIENDLY.replace("it is there", "it is really there"))
    loop_id = toy.authorise()
    spec.write_text(FRIENDLY)
    toy.answer(asking, APPROVE)
    assert toy.drive(asking, intake).name == "Suspended"
    assert "it is really there" in toy.asked(asking).description, "it is in the difference now"
    assert len(toy.app.plans.revisions()) == 1
    assert toy.loop(loop_id).is_open


@pytest.fixture
def undecided(toy):
    """A workflow file that says nothing of a branch, in a checkout on a feature branch; and the run that asks."""
    git(toy.root, "switch", "-q", "-c", "feature/x")
    (toy.root / FILE).write_text(workflow("loop: false", front="risk_level: low\ndirty_worktree: allow"))
    run_id = start(toy, FILE)
    assert toy.drive(run_id, intake).name == "Suspended"
    return run_id


def listed(toy, api_url):
    server = {"PREFECT_API_URL": api_url, "PREFECT_API_AUTH_STRING": os.environ["PREFECT_API_AUTH_STRING"]}
    [asked] = asked_approvals(toy.id, server)
    return asked


def commands(asked):
    return [command for _, command in answers_to(asked)]


def test_the_branch_of_a_workflow_file_is_asked_for_and_then_the_approval_on_it(toy, undecided, api_url):
    form = toy.asked(undecided)
    assert "you are on feature/x" in form.description
    isolated, here, other, decline = form.choices
    assert (here[:5], other[:5], decline) == ("here:", "NAME:", "do not approve")
    asked = listed(toy, api_url)
    assert (asked.document, asked.rule, asked.key) == (FILE, BRANCH, form.key)
    task = f"irontree task {FILE} --branch"
    assert commands(asked) == [f"{task} isolated", f"{task} here", f"{task} NAME"]

    toy.answer(undecided, other, branch=" ")
    assert toy.drive(undecided, intake).name == "Suspended"
    assert "**Not taken:** another branch was chosen, and its name was left out" in toy.asked(undecided).description
    toy.answer(undecided, isolated)
    assert toy.drive(undecided, intake).name == "Suspended"
    assert "`hotl/rate`" in toy.asked(undecided).description
    assert not toy.asked(undecided).description.startswith("**Not taken:**")
    asked = listed(toy, api_url)
    assert asked.revision == propose(toy.app, toy.root / FILE, branch="isolated").name
    assert commands(asked) == [f"{task} isolated --approve {asked.revision}"]

    toy.answer(undecided, APPROVE)
    assert toy.drive(undecided, intake).name == "Approved"
    assert toy.plan().policy.publish.target_branch == "hotl/rate"


def test_declined_where_the_branch_is_asked_for_nothing_is_written(toy, undecided):
    toy.answer(undecided, "do not approve")
    assert toy.drive(undecided, intake).name == "Declined"
    assert toy.app.plans.revisions() == ()


def test_a_form_that_asks_for_the_branch_ends_once_a_command_has_chosen_and_follows_the_checkout(toy, undecided):
    assert wake_overtaken(toy.app) == ()
    git(toy.root, "switch", "-q", "-c", "feature/y")
    assert [run.state_name for run in wake_overtaken(toy.app)] == ["Rescheduled"]
    assert toy.drive(undecided, intake).name == "Suspended"
    assert "you are on feature/y" in toy.asked(undecided).description

    chosen = propose(toy.app, toy.root / FILE, branch="here")
    with toy.app.driver.hold("publish"):
        approve(toy.app, chosen, chosen.name, "ada")
    assert [(run.id, run.state_name) for run in wake_overtaken(toy.app)] == [(undecided, "Superseded")]


def test_a_branch_that_is_given_with_the_run_is_not_asked_for(toy, undecided):
    parameters = {"repository": str(toy.root), "document": FILE, "branch": "mine"}
    toy.answer(undecided, "do not approve")
    toy.drive(undecided, intake)
    run_id = toy.client.create_flow_run_from_deployment(toy.deployment("intake"), parameters=parameters).id
    assert toy.drive(run_id, intake).name == "Suspended"
    assert "`mine`" in toy.asked(run_id).description


@pytest.mark.parametrize("document", ["nowhere.md", "../SPEC.md"])
def test_only_a_file_of_the_repository_can_be_taken_in(toy, document):
    (toy.root.parent / "SPEC.md").write_text(FRIENDLY)
    run_id = start(toy, document)
    ended = toy.drive(run_id, intake)
    assert ended.is_failed()
    assert "is not a file in" in ended.message
    assert "give a path inside it" in ended.message
    assert [text for _, text in logs(toy.client, run_id) if "Traceback" in text] == []


def test_a_task_that_the_document_lost_can_be_kept_in_the_form(toy):
    """R7"""
    spec = toy.root / "SPEC.md"
    spec.write_text(f"{FRIENDLY}\n## Farewell\n\n- [ ] it says goodbye (manual)\n")
    toy.publish()
    spec.write_text(FRIENDLY)
    run_id = start(toy)
    assert toy.drive(run_id, intake).name == "Suspended"
    assert "Farewell is cancelled" in toy.asked(run_id).description
    toy.answer(run_id, f"{APPROVE}; keep what was removed")
    assert toy.drive(run_id, intake).name == "Approved"
    assert toy.plan().kept == ("farewell",)


def test_a_schedule_asks_once_and_goes_on_by_itself_with_what_is_approved(toy):
    """Nobody is there at night: only what a person approved is worked on (R6 and R7)."""
    nightly = Cron("30 1 * * *", timezone="UTC", slug="nightly", parameters={"document": "SPEC.md"})
    deployment = intake.to_deployment(
        f"intake-{toy.id}", parameters={"repository": str(toy.root)}, schedules=[nightly], tags=tags(toy.app)
    ).apply()
    toy.client.request("POST", f"/deployments/{deployment}/schedule", json={"min_runs": 3})
    first, second, third, *_ = wait_until(lambda: toy.all_runs()[2:] and toy.all_runs())
    for run in (first, second, third):  # a run that is driven before its hour waits for it
        toy.client.set_flow_run_state(run.id, Scheduled())
    assert toy.drive(first.id, intake).name == "Suspended"
    told = toy.drive(second.id, intake)
    assert (told.name, str(first.id) in told.message) == ("Asked already", True)
    toy.answer(first.id, APPROVE)
    assert toy.drive(first.id, intake).name == "Approved"
    assert toy.drive(third.id, intake).name == "Approved"
    assert len(toy.app.loops.ids()) == 1


class AssignedBy:
    """A forge that says who assigned each issue, which files do not."""

    def __init__(self, forge, login):
        self._forge, self._login = forge, login

    def __getattr__(self, name):
        return getattr(self._forge, name)

    def assigner(self, number, login):
        [changed] = self._forge.changed_since("2026-01-01T00:00:00Z")
        return Assigned(self._login, changed.at)


def test_an_assigned_issue_is_asked_about_unless_the_forge_says_that_somebody_who_may_approve_assigned_it(
    tmp_path, client
):
    team = "toolchain: {approve: assignment}\nteam: [{name: coder, command: ['true'], account: coder-bot}]\n"
    toy = make_toy(tmp_path, client, FRIENDLY, "intake", "issue", "loop", settings=team)
    approve_standing(toy.app, standing_text(toy.app)[1])
    number = toy.app.forge().create_issue("Greeting", "- [ ] it is there `$ test -f greeting.txt`").number
    toy.app.forge().assign(number, ["coder-bot"])
    document = f"#{number}"
    run_id = start(toy, document)
    assert toy.drive(run_id, intake).name == "Suspended"
    toy.answer(run_id, "do not approve")
    assert toy.drive(run_id, intake).name == "Declined"
    assert toy.app.plans.revisions() == ()

    forge = AssignedBy(toy.app.forge(), toy.app.forge().about().account)
    app = replace(toy.app, forge=lambda: forge)
    started, refusal = start_if_assigned(app, wanted_for(app, document))
    assert (started.name, refusal) == ("Approved", "")
    [plan] = map(toy.app.plans.load, toy.app.plans.revisions())
    assert (plan.approval.by, plan.approval.channel) == (forge.about().account, "assignment")
    assert newest_run(toy.app, toy.app.loops.ids()[0]).state == "SCHEDULED"
