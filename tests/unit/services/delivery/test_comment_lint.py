"""What `checkup check` says about our comments on the forge."""

from __future__ import annotations

from irontree.app import Preferences
from irontree.services.delivery.comments import lint_comments
from irontree.services.delivery.deliver import deliver
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.world import MANUAL_TASK, Scene

MARKER = "<!-- irontree:1:mfrggzdfmztwq2lk -->"


def commented(scene: Scene) -> Scene:
    """A scene with a status comment and a reply."""
    scene.preferences = Preferences(reply="always")
    scene.publish(MANUAL_TASK)
    for step in (run, verify):
        step(scene.app, 1)
        deliver(scene.app, scene.world, 1)
    assert len(scene.comments()) == 2
    return scene


def test_what_we_post_is_fine(scene):
    assert lint_comments(commented(scene).app) == ()


def test_a_comment_of_ours_that_holds_what_it_must_not_is_named_with_what_that_is(scene):
    posted = commented(scene).forge_seen.post_comment(1, f"run_started in .mino/events\n\n{MARKER}")
    (finding,) = lint_comments(scene.app)
    assert (finding.issue_number, finding.comment) == (1, posted.url)
    assert finding.problems == ("a path under .mino", "the name of an event")


def test_a_status_comment_of_ours_must_be_slim(scene):
    commented(scene).forge_seen.post_comment(1, f"⚠️ The commit is refused — #1\n\nand a story\n\n{MARKER}")
    (finding,) = lint_comments(scene.app)
    assert finding.problems == ("more or less than Reason, Action and links",)


def test_a_reply_of_ours_wears_no_badge(scene):
    commented(scene).forge_seen.post_comment(1, f"Your request is done \N{WHITE HEAVY CHECK MARK}\n\n{MARKER}")
    (finding,) = lint_comments(scene.app)
    assert finding.problems == ("a status badge",)


def test_a_person_with_our_account_writes_what_they_like(scene):
    commented(scene).forge_seen.post_comment(1, "```yaml\niron_tree:\n  event: run_started\n```")
    assert lint_comments(scene.app) == ()


def test_other_accounts_are_not_looked_at(scene):
    commented(scene).forge("mallory").post_comment(1, f"run_started\n\n{MARKER}")
    assert lint_comments(scene.app) == ()


def test_an_issue_that_was_deleted_is_passed_over(scene):
    commented(scene).tracker.issues.clear()
    assert lint_comments(scene.app) == ()
