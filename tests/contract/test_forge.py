"""What every forge promises about issues, comments and labels; a new adapter is one more entry of STAGES."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from irontree.domain.issues import Issue
from irontree.errors import ConfigRefused, RemoteFailed
from irontree.forges import FORGES, Location, connect
from irontree.forges.markers import as_kept
from irontree.ports import Forge, Label
from tests.support.forges import HEAD_SHA, Stage, settings
from tests.support.stages import STAGES

MARKER = "<!-- irontree:task-key auth-login -->"
HOSTILE = (
    "plain",
    "",
    "\n\nblank lines around\n\n",
    "---\ntitle: not front matter\n---\n",
    "```yaml\niron_tree:\n  version: 1\n```",
    "trailing spaces  \n\ttab, nul \x00, emoji \N{PALM TREE}, \N{LINE SEPARATOR}",
    "windows\r\nold mac\rline ends",
)
TOO_LONG = "x" * 100_000


def read(forge: Forge, number: int) -> Issue:
    """The issue, which is there."""
    found = forge.read_issue(number)
    assert found
    return found


def test_every_registered_forge_is_under_this_contract():
    assert FORGES.keys() == STAGES.keys()


@pytest.mark.parametrize("name", sorted(FORGES))
def test_a_forge_is_found_by_its_name(name: str, tmp_path: Path):
    """Making one needs no network."""
    located = replace(settings(tmp_path, "irontree"), location=Location("https://forge.example", "ada/engine"))
    assert connect(name, located).name == name


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path: Path):
    with pytest.raises(ConfigRefused) as refused:
        connect("gitlost", settings(tmp_path, "irontree"))
    assert "local, memory" in str(refused.value.remedy)


def test_a_created_issue_is_open_and_reads_back(forge: Forge):
    created = forge.create_issue("Log in", "As a user\nI log in", ["stage:task", "feature", "stage:task"])
    assert forge.read_issue(created.number) == created
    assert forge.read_text(created.number) == created.body
    assert (created.title, created.body, created.state) == ("Log in", "As a user\nI log in", "open")
    assert sorted(created.labels) == ["feature", "stage:task"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_body_comes_back_to_the_letter_as_far_as_forges_keep_text(forge: Forge, text: str):
    """NUL and lone CR become what every forge can keep (`as_kept`); nothing else is touched."""
    number = forge.create_issue("Title", text).number
    issue = forge.read_issue(number)
    assert issue is not None
    assert issue.body == as_kept(text)


def test_a_body_that_is_too_long_is_refused_before_it_is_sent_or_comes_back(forge: Forge):
    kept, refusal = None, ""
    try:
        kept = forge.create_issue("Title", TOO_LONG)
    except RemoteFailed as refused:
        refusal = refused.message
    assert forge.read_issue(1) == kept
    assert kept.body == TOO_LONG if kept else "100,000" in refusal


@pytest.mark.parametrize("text", HOSTILE)
def test_a_comment_comes_back_to_the_letter_as_far_as_forges_keep_text(forge: Forge, text: str):
    number = forge.create_issue("Title", "").number
    posted = forge.post_comment(number, text or "not empty")
    assert forge.comments(number) == (posted,)
    assert posted.body == as_kept(text or "not empty")


@pytest.mark.parametrize(
    "title", ["a: b", "# heading", "'quoted' \"twice\"", "- item", "null", "ünï \N{PALM TREE}", "---"]
)
def test_a_title_is_text_whatever_it_looks_like(forge: Forge, title: str):
    assert forge.create_issue(title, "").title == title


def test_a_title_is_one_line(forge: Forge):
    number = forge.create_issue("two\nlines", "").number
    forge.edit_issue(number, title=" three\r\n  lines ")
    assert read(forge, number).title == "three lines"


def test_numbers_start_at_one_and_ascend(forge: Forge):
    assert [forge.create_issue("Title", "").number for _ in range(3)] == [1, 2, 3]


def test_an_issue_that_is_not_there_is_none(forge: Forge):
    assert forge.read_issue(7) is None
    assert forge.read_text(7) is None


@pytest.mark.parametrize(
    "touch",
    [
        lambda forge: forge.edit_issue(7, title="x"),
        lambda forge: forge.post_comment(7, "x"),
        lambda forge: forge.comments(7),
        lambda forge: forge.set_labels(7, add=["x"]),
    ],
)
def test_touching_an_issue_that_is_not_there_says_which(forge: Forge, touch: Callable[[Forge], object]):
    with pytest.raises(RemoteFailed, match="#7"):
        touch(forge)


def test_an_edit_changes_what_is_given_and_leaves_the_rest(forge: Forge):
    before = forge.create_issue("Title", "Body", ["bug"])
    forge.edit_issue(before.number, state="closed")
    forge.edit_issue(before.number, body="Other")
    after = read(forge, before.number)
    assert (after.title, after.body, after.state, after.labels) == ("Title", "Other", "closed", ("bug",))


def test_a_closed_issue_can_be_opened_again(forge: Forge):
    number = forge.create_issue("Title", "").number
    forge.edit_issue(number, state="closed")
    assert read(forge, number).state == "closed"
    forge.edit_issue(number, state="open")
    assert read(forge, number).state == "open"


def test_a_marker_counts_as_a_line_of_its_own_only(forge: Forge):
    forge.create_issue("quotes it", f"see `{MARKER}` there")
    wanted = [forge.create_issue("has it", f"text\n\n  {MARKER}  \nmore").number for _ in range(2)]
    forge.create_issue("has another", MARKER.replace("login", "log"))
    assert [issue.number for issue in forge.find_issues(MARKER)] == wanted


def test_closed_issues_are_found_too(forge: Forge):
    number = forge.create_issue("Title", MARKER).number
    forge.edit_issue(number, state="closed")
    assert [issue.number for issue in forge.find_issues(MARKER)] == [number]


def test_nothing_is_found_where_nothing_is(forge: Forge):
    assert forge.find_issues(MARKER) == ()
    assert forge.find_issues_before(1, MARKER) == ()


def test_issues_of_several_markers_are_found_in_one_look(forge: Forge):
    other = MARKER.replace("login", "logout")
    for body in (MARKER, "none", other, f"{MARKER}\n{other}"):
        forge.create_issue("Title", body)
    assert [issue.number for issue in forge.find_issues(MARKER, other)] == [1, 3, 4]


def test_whoever_created_an_issue_of_that_marker_before_ours_is_found_by_its_number(stage: Stage):
    """R8: both looked, both found nothing, both created."""
    assert stage.ours.find_issues(MARKER) == ()
    stage.ours.create_issue("Title", "")
    for body in (MARKER, "", MARKER):
        stage.stranger.create_issue("Title", body)
    ours = stage.ours.create_issue("Title", MARKER).number
    stage.stranger.create_issue("Title", MARKER)
    assert [(issue.number, issue.trusted) for issue in stage.ours.find_issues_before(ours, MARKER)] == [
        (2, False),
        (4, False),
    ]


def test_comments_come_oldest_first_with_ids_and_addresses_of_their_own(forge: Forge):
    number = forge.create_issue("Title", "").number
    posted = tuple(forge.post_comment(number, f"{index}") for index in range(12))
    assert forge.comments(number) == posted
    assert len({comment.id for comment in posted}) == len({comment.url for comment in posted}) == 12


def test_comments_belong_to_their_issue(forge: Forge):
    first, second = (forge.create_issue("Title", "").number for _ in range(2))
    forge.post_comment(first, "x")
    assert forge.comments(second) == ()


def test_a_strangers_issue_is_not_trusted_and_our_own_is(stage: Stage):
    theirs = stage.stranger.create_issue("Title", MARKER)
    ours = stage.ours.create_issue("Title", MARKER)
    assert [(issue.number, issue.trusted) for issue in stage.ours.find_issues(MARKER)] == [
        (theirs.number, False),
        (ours.number, True),
    ]


def test_a_strangers_comment_is_not_ours(stage: Stage):
    number = stage.ours.create_issue("Title", "").number
    stage.stranger.post_comment(number, "x")
    stage.ours.post_comment(number, "y")
    assert [(c.author, c.ours) for c in stage.ours.comments(number)] == [("mallory", False), ("irontree", True)]


def test_labels_are_set_and_taken_away_without_fuss(forge: Forge):
    number = forge.create_issue("Title", "Body", ["stage:task", "bug"]).number
    forge.set_labels(number, add=["stage:run", "bug"], remove=["stage:task", "never-there"])
    forge.set_labels(number, add=["stage:run"], remove=["stage:task"])
    issue = forge.read_issue(number)
    assert issue is not None
    assert (sorted(issue.labels), issue.body) == (["bug", "stage:run"], "Body")


def test_labels_can_be_ensured_again_and_again(forge: Forge):
    for color in ("FBCA04", "000000"):
        forge.ensure_labels([Label("stage:task", color), Label("stage:run", "1D76DB", "approved")])


def test_times_are_utc(forge: Forge):
    issue = forge.create_issue("Title", "")
    assert issue.created_at == "2026-01-02T12:00:00Z"
    assert forge.post_comment(issue.number, "x").created_at == "2026-01-02T12:00:00Z"


def test_open_issues_with_a_label_are_listed_oldest_first(forge: Forge):
    for title, labels in (("first", ["wanted"]), ("other", ["else"]), ("closed", ["wanted"]), ("last", ["wanted"])):
        forge.create_issue(title, "", labels)
    forge.edit_issue(3, state="closed")
    assert [issue.number for issue in forge.open_issues("wanted")] == [1, 4]
    assert forge.open_issues("nobody has it") == ()


def test_all_open_issues_are_listed_oldest_first_with_who_is_assigned_and_without_requests(stage: Stage):
    for title, labels in (("first", ["wanted"]), ("closed", ["wanted"]), ("last", [])):
        stage.ours.create_issue(title, "", labels)
    stage.ours.edit_issue(2, state="closed")
    stage.push("it", HEAD_SHA)
    stage.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False)
    assert [issue.number for issue in stage.ours.open_issues()] == [1, 3]
    stage.ours.assign(3, ["writer"])
    assert [issue.assignees for issue in stage.ours.open_issues()] == [(), ("writer",)]


def test_a_comment_tells_whether_its_author_may_write_here(stage: Stage):
    """R20: text by people without write access never becomes a command."""
    stage.ours.create_issue("it", "")
    stage.ours.post_comment(1, "ours")
    stage.stranger.post_comment(1, "a stranger's")
    assert [comment.trusted for comment in stage.ours.comments(1)] == [True, False]


def test_addresses_for_people_are_of_the_web_or_not_there(forge: Forge):
    """A forge of plain files shows neither commits nor branches."""
    for address in (forge.links.issue(7), forge.links.commit("0" * 40), forge.links.file("main", "README.md")):
        assert address is None or re.match("https?://", address)
    assert forge.links.commit(None) is None


def test_no_issue_is_taken_for_a_pull_request(forge: Forge):
    assert not forge.create_issue("it", "").pull_request


def test_a_reaction_to_a_comment_is_shown_once_by_our_account(stage: Stage):
    number = stage.ours.create_issue("Title", "").number
    comment = stage.stranger.post_comment(number, "/accept")
    for reaction in ("+1", "+1", "eyes"):
        stage.ours.react(number, comment.id, reaction)
    assert stage.reactions(number, comment.id) in ({("irontree", "+1"), ("irontree", "eyes")}, None)
    [shown] = stage.ours.comments(number)
    assert (shown.body, shown.edited) == ("/accept", False)


def test_people_are_assigned_to_a_new_issue(stage: Stage):
    number = stage.ours.create_issue("Title", "text").number
    stage.ours.assign(number, ["writer"])
    assert stage.people(number) == (["writer"], [])
    found = stage.ours.read_issue(number)
    assert found
    assert (found.title, found.body) == ("Title", "text")


def test_parts_and_dependencies_are_shown_as_far_as_the_forge_has_them(stage: Stage):
    parent, first, second = (stage.ours.create_issue(title, "").number for title in ("Parts", "One", "Two"))
    stage.ours.add_part(parent, first)
    stage.ours.depend(second, first)
    assert stage.related(parent) in (([], [first]), ([], []), None)
    assert stage.related(second) in (([first], []), None)
