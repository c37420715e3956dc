"""`issue`, driven in this process: the page of its run tells the story, and each question is answered exactly once."""

from __future__ import annotations

import logging
import threading
from contextvars import copy_context
from types import SimpleNamespace

import pytest
from prefect.client.schemas.filters import ArtifactCollectionFilter, ArtifactCollectionFilterKey
from prefect.states import Cancelled, Failed

from irontree.errors import AnswerRefused
from irontree.flows.runs import forms, runs
from irontree.flows.runs.recovery import wake
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.views.history import NEEDS_YOU
from tests.prefect.harness import logs
from tests.prefect.toys import FRIENDLY, GREETING, Toy, held_by_another_tool, make_toy, text_of, wait_until
from tests.support.repositories import git

ACCEPT = "accept this commit"
SEND_BACK = "send back with a note"


def published(folder, client, spec=FRIENDLY, **more) -> Toy:
    toy = make_toy(folder, client, spec, "issue", **more)
    toy.publish()
    return toy


def answered_on_the_command_line(toy, *answer, **more) -> None:
    with toy.app.driver.hold("answer"):
        answer_issue(toy.app, 1, Answer(*answer, **more))


def test_an_issue_goes_to_done_and_each_row_of_its_run_is_a_step_that_happened(tmp_path, client):
    toy = published(tmp_path, client, GREETING)
    run_id = toy.start()
    assert toy.drive(run_id).name == "Done"
    assert toy.start() == run_id
    assert toy.drive(run_id).name == "Done"
    page = client.read_flow_run(run_id)
    assert page.name == "#1 Greeting"
    assert {"irontree", "issue:1", f"repository:{toy.id}", f"folder:{toy.root.name}"} <= set(page.tags)
    assert toy.rows(run_id, 3) == ["run: attempt 1 of 4", "verify: attempt 1 of 4", "checkup: finalize"]
    assert "attempt 1" in git(toy.root.parent / "remote.git", "show", "main:greeting.txt")


def test_what_failed_is_red_and_says_why_and_the_run_goes_on_to_done(tmp_path, client):
    """...each end of a step by its own name; the run's log has one line above INFO for each failure."""
    agent = 'if [ "$IRONTREE_ATTEMPT" = 2 ]; then touch greeting.txt; fi'
    toy = published(tmp_path, client, GREETING.replace("test -f", "ls"), agent=agent)
    run_id = toy.start()
    ended = toy.drive(run_id)
    assert (ended.type.value, ended.name) == ("COMPLETED", "Done")
    idle, red, work, green, done = toy.steps(run_id, 5)
    assert (idle["state_type"], idle["state_name"]) == ("FAILED", "No change")
    assert (red["state_type"], red["state_name"]) == ("FAILED", "Checks failed")
    assert red["state"]["message"].startswith("`ls greeting.txt` fails: ls: ")
    assert red["name"].startswith("verify: attempt 1 of 4: checks failed: `ls greeting.txt` fails: ls: ")
    assert {step["state_type"] for step in (work, green, done)} == {"COMPLETED"}
    assert [step["state_name"] for step in (work, green, done)] == ["Committed", "Published", "Done"]
    assert green["name"] == "verify: attempt 2 of 4"
    loud = [text.partition("(")[0] for level, text in logs(client, run_id) if level > logging.INFO]
    assert loud == ["Finished in state No change", "Finished in state Checks failed"]


def test_a_set_up_that_fails_is_red_and_the_question_about_it_amber(tmp_path, client):
    toy = published(tmp_path, client, GREETING, settings="workspace:\n  setup: [ls nowhere]\n")
    run_id = toy.start()
    assert toy.drive(run_id).type.value == "PAUSED"
    [step] = toy.steps(run_id, 1)
    assert (step["state_type"], step["state_name"]) == ("FAILED", "Set-up failed")
    assert step["state"]["message"].startswith("workspace.setup failed (`ls nowhere`")
    assert step["state"]["message"].endswith("No such file or directory")


# --- one story: asked, answered badly, sent back, accepted -------------------------------------------------


@pytest.fixture(scope="module")
def story(tmp_path_factory, api_url):
    """What was seen on the way of a question from its first form to the end of the issue."""
    with runs.connect() as client:
        toy = published(tmp_path_factory.mktemp("story"), client)
        run_id = toy.start()
        seen = SimpleNamespace(toy=toy, run_id=run_id, ended=[], asked=[], commits=[])

        def drive() -> None:
            seen.ended.append(toy.drive(run_id).name)
            seen.commits.append(toy.state().commit)

        for answer in ((SEND_BACK, ""), (SEND_BACK, "longer"), (ACCEPT, "")):
            drive()
            seen.asked.append(toy.asked(run_id))
            toy.answer(run_id, *answer)
        drive()
        seen.rows = toy.rows(run_id, 7)
        seen.log = logs(client, run_id)
        yield seen


def test_the_form_has_everything_that_is_needed_to_decide(story):
    first = story.asked[0]
    for needed in ("it is friendly", "Open full page", "`greeting.txt` +1 -0", story.commits[0], "`main`"):
        assert needed in first.description
    assert first.choices == (ACCEPT, SEND_BACK)


def test_a_refused_answer_leads_to_the_next_asking_with_the_reason_and_is_not_taken_later(story):
    first, again, later = story.asked
    assert again.key == f"{first.key}-again-2"
    assert "was not taken" in again.description
    assert "needs a note" in again.description
    assert "was not taken" not in later.description


def test_the_note_reaches_the_next_attempt_whose_commit_is_the_one_that_is_accepted(story):
    assert story.ended == ["Suspended", "Suspended", "Suspended", "Done"]
    assert story.commits[1] != story.commits[2] == story.commits[3]
    published = git(story.toy.root.parent / "remote.git", "show", "main:greeting.txt")
    assert published.splitlines() == ["attempt 2", "longer"]


def test_the_rows_tell_the_story(story):
    assert story.rows == [
        "run: attempt 1 of 4",
        "verify: attempt 1 of 4",
        "checkup: send-back",
        "run: attempt 2 of 4",
        "verify: attempt 2 of 4",
        "checkup: accept",
        "checkup: finalize",
    ]


def test_a_run_that_halted_and_was_answered_has_no_log_line_above_info(story):
    assert [text for level, text in story.log if level > logging.INFO] == []
    assert any("was not taken" in text for _, text in story.log)


# --- one open question that stays open ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def standing(tmp_path_factory, api_url):
    """An issue that waits for acceptance."""
    with runs.connect() as client:
        yield published(tmp_path_factory.mktemp("standing"), client)


@pytest.fixture
def asked(standing, client):
    """Its run, made to ask if a test before let it do something else."""
    run_id = standing.start()
    if runs.state(client, run_id).state != "PAUSED":
        assert standing.drive(run_id).name == "Suspended"
    return run_id


def test_an_answer_to_an_earlier_asking_is_refused_and_the_question_stays_open(standing, asked, client):
    earlier = standing.asked(asked).key
    runs.reschedule(client, asked)
    assert standing.drive(asked).name == "Suspended"
    with pytest.raises(AnswerRefused, match="not open any more"):
        forms.answer_form(client, asked, {"decision": ACCEPT, "approver": "Ada"}, key=earlier)
    assert standing.asked(asked).key != earlier


def test_a_form_that_was_left_open_in_a_browser_is_no_answer_to_the_next_question(standing, asked, client):
    """Prefect's pages do not say which question they answer; our forms do."""
    left_open = {"decision": ACCEPT, "approver of issue-1-2-pending-acceptance": "Ada"}
    with pytest.raises(AnswerRefused, match="This form is out of date"):
        forms.answer_form(client, asked, left_open, key=standing.asked(asked).key)
    assert standing.asked(asked).choices == (ACCEPT, SEND_BACK)


@pytest.mark.parametrize("state", [Cancelled(), Failed(message="by hand")])
def test_a_suspended_run_that_somebody_cancels_or_changes_asks_again_when_it_is_started(standing, asked, client, state):
    client.set_flow_run_state(asked, state, force=True)
    assert standing.start() == asked
    assert standing.drive(asked).name == "Suspended"
    assert standing.asked(asked).choices == (ACCEPT, SEND_BACK)


def test_a_run_that_somebody_deletes_is_made_anew_with_the_same_question(standing, asked):
    before = standing.asked(asked)
    standing.delete(asked)
    anew = standing.start()
    assert anew != asked
    assert standing.drive(anew).name == "Suspended"
    found = standing.asked(anew)
    assert text_of(found) == text_of(before)
    assert before.key.startswith(found.key)


# --- answers from elsewhere ----------------------------------------------------------------------------------


@pytest.fixture
def halted(tmp_path, client):
    """An issue of its own that waits for acceptance, and its run."""
    toy = published(tmp_path, client)
    run_id = toy.start()
    assert toy.drive(run_id).name == "Suspended"
    return toy, run_id


def test_an_answer_from_the_command_line_wakes_the_run_which_does_not_ask_again(halted, client):
    """...and a form that was filled in meanwhile comes too late: the log has the answer that counts."""
    toy, run_id = halted
    key = toy.asked(run_id).key
    answered_on_the_command_line(toy, "accept", "eve")
    assert [run.id for run in wake(toy.app, 1)] == [run_id]
    with pytest.raises(AnswerRefused):
        forms.answer_form(client, run_id, {"decision": SEND_BACK, "approver": "Ada", "note": "no"}, key=key)
    assert toy.drive(run_id).name == "Done"
    assert toy.events()[-2:] == ["checkup_accept_recorded", "checkup_done"]


def test_a_form_that_was_filled_in_before_another_answer_was_recorded_decides_nothing_and_its_run_says_so(halted):
    toy, run_id = halted
    toy.answer(run_id, ACCEPT)
    answered_on_the_command_line(toy, "send-back", "eve", note="longer")
    assert toy.drive(run_id).name == "Suspended"
    assert toy.events()[-3:] == ["run_started", "run_completed", "verify_pending_acceptance"]
    assert toy.events().count("checkup_accept_recorded") == 0
    late = f"The answer of Ada (“{ACCEPT}”) was not taken: its question is open no more"
    assert [text for level, text in logs(toy.client, run_id) if level > logging.INFO] == [late]


def test_a_changed_document_is_approved_as_the_form_shows_it_and_a_run_of_its_own_goes_on(tmp_path, client):
    toy = published(tmp_path, client, GREETING)
    before = toy.state().approved_revision
    spec = toy.root / "SPEC.md"
    spec.write_text(spec.read_text().replace("it is there", "it is really there"))
    run_id = toy.start()
    assert toy.drive(run_id).name == "Suspended"
    approve = toy.asked(run_id).choices[0]
    spec.write_text(spec.read_text().replace("it is really there", "it is there for certain"))
    toy.answer(run_id, approve)
    assert toy.drive(run_id).name == "Suspended"
    question = toy.asked(run_id)
    assert "was not taken" in question.description
    assert f"`{toy.revision()}`" in question.description
    toy.answer(run_id, approve)
    assert toy.drive(run_id).name == "Superseded"
    assert toy.state().approved_revision == toy.plan().spec_revision != before
    successor = toy.start()
    assert successor != run_id
    assert toy.drive(successor).name == "Done"


def test_what_needs_you_is_on_one_page_from_the_question_to_the_answer(halted, client):
    toy, run_id = halted
    [row] = listed(client, run_id)
    assert row.startswith(f"| [Accept #1: Greeting?]({runs.url_for(run_id)}) | #1 Greeting | {toy.root.name} | 20")
    toy.answer(run_id, ACCEPT)
    assert toy.drive(run_id).name == "Done"
    assert listed(client, run_id) == []


def listed(client, run_id) -> list[str]:
    """The rows about that run."""
    chosen = ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(any_=[NEEDS_YOU]))
    [page] = client.read_latest_artifacts(artifact_filter=chosen)
    return [line for line in page.data.splitlines() if str(run_id) in line]


# --- what refuses to go on ------------------------------------------------------------------------------------


def test_a_step_that_cannot_be_taken_now_ends_the_run_calmly_with_what_to_do(tmp_path, client):
    toy = published(tmp_path, client, GREETING)
    lock = held_by_another_tool(toy)
    run_id = toy.start()
    ended = toy.drive(run_id)
    assert (ended.type.value, ended.name) == ("COMPLETED", "Waiting")
    assert "another tool holds" in ended.message
    assert "remove .mino/run.lock" in ended.message
    assert [text for level, text in logs(client, run_id) if level > logging.INFO] == []
    lock.unlink()
    toy.start()
    assert toy.drive(run_id).name == "Done"


def test_a_repository_that_is_not_there_ends_the_run_calmly_with_its_name(tmp_path, client):
    toy = published(tmp_path, client, GREETING)
    run_id = toy.start()
    away = toy.root.rename(tmp_path / "away")
    ended = toy.drive(run_id)
    away.rename(toy.root)
    assert (ended.type.value, ended.name) == ("COMPLETED", "Waiting")
    assert str(toy.root) in ended.message


def test_a_run_whose_state_was_changed_by_hand_is_not_driven_by_two_processes_at_once(tmp_path, client):
    agent = f"touch {tmp_path}/started; while [ -e {tmp_path}/hold ]; do sleep 0.05; done; touch greeting.txt"
    (tmp_path / "hold").touch()
    toy = published(tmp_path / "toy", client, GREETING, agent=agent)
    run_id = toy.start()

    def process() -> threading.Thread:
        thread = threading.Thread(target=copy_context().run, args=(toy.drive, run_id))
        thread.start()
        return thread

    first = process()
    wait_until((tmp_path / "started").exists)
    client.set_flow_run_state(run_id, Failed(), force=True)
    assert toy.start() == run_id
    second = process()
    wait_until(lambda: runs.state(client, run_id).state == "RUNNING")
    (tmp_path / "hold").unlink()
    first.join()
    second.join()
    assert toy.events() == ["task_published", "run_started", "run_completed", "verify_passed", "checkup_done"]
    assert runs.state(client, run_id).state_name == "Done"
