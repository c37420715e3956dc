"""Who gets a reply, and what leaves notes in the documents: pure decisions that say no in doubt (Reply Dispatch)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.comments import (
    MAX_SLUG,
    Opportunity,
    decide_promotion,
    dispatch_reply,
    document_name,
    is_actionable,
    is_substantive,
    replied_in_window,
    short_title,
)
from irontree.domain.plan import Criterion, PlanNode
from irontree.domain.task_types import close_on_done
from irontree.domain.values import TaskKey
from tests.support.store import passed

ABOUT = (
    "Connect the shop to the payment provider. The webhook needs a signing secret in the environment, and the "
    "container has to be able to reach port 8443 of the provider."
)


def node(title: str = "Integrate the payment provider", description: str = ABOUT, type_: str = "feature") -> PlanNode:
    key: TaskKey = "payment"
    return PlanNode(
        task_key=key, title=title, description=description, type=type_, criteria=(Criterion(text="it is paid"),)
    )


def known(of: PlanNode | None = None, *, setup=("npm ci",), files=("src/pay.ts",)):
    return of or node(), setup, files


opportunities = st.builds(
    Opportunity, note=st.text(max_size=60), promoted=st.booleans(), written_by_a_person=st.booleans()
)

# --- replies -----------------------------------------------------------------------------------------------


@given(opportunities)
def test_never_is_never(at):
    assert not dispatch_reply("never", at).yes


@given(opportunities)
def test_always_is_always_but_not_twice(at):
    assert dispatch_reply("always", at).yes
    assert not dispatch_reply("always", Opportunity(at.note, at.promoted, at.written_by_a_person, replied=True)).yes


@given(opportunities)
def test_auto_replies_exactly_for_an_actionable_note_or_a_document_that_its_author_would_look_for(at):
    expected = is_actionable(at.note) or (at.promoted and at.written_by_a_person)
    assert dispatch_reply("auto", at).yes is expected


@given(opportunities, st.sampled_from(["auto", "always", "never"]))
def test_every_decision_says_why(at, mode):
    assert dispatch_reply(mode, at).why


@given(st.sampled_from(["auto", "always", "never"]), opportunities)
def test_there_is_never_a_second_reply_in_a_window(mode, at):
    assert not dispatch_reply(mode, Opportunity(at.note, at.promoted, at.written_by_a_person, replied=True)).yes


@pytest.mark.parametrize(
    "note",
    [
        "Please restart the worker after the update.",
        "You need to set SMTP_HOST first.",
        "Works. Run the migration before you deploy.",
        "looks good\n- upgrade node to 20\n- clear the cache",
        "1. Configure the webhook",
        "make sure the port is open",
        "请先升级数据库",
    ],
)
def test_a_note_that_tells_its_reader_to_do_something_is_actionable(note):
    assert is_actionable(note)


@pytest.mark.parametrize(
    "note",
    [
        "",
        "looks good",
        "I ran the tests by hand as well",
        "ok 👍",
        "tested on staging",
        "the setup is fine",
        "看起来不错",
    ],
)
def test_what_was_only_observed_is_not(note):
    """In doubt there is no reply."""
    assert not is_actionable(note)


def events(*names: str, replied: str = ""):
    """Events of these names; the one called *replied* has a reply."""
    made = []
    for sequence, name in enumerate(names, start=1):
        url = "https://forge.example/c/1" if name == replied else None
        made.append(passed(sequence=sequence).model_copy(update={"event": name, "reply_posted": url}))
    return made


@pytest.mark.parametrize(
    ("names", "replied", "expected"),
    [
        (("run_started", "run_completed", "verify_passed", "checkup_done"), "verify_passed", True),
        (("run_started", "run_completed", "verify_passed", "checkup_done"), "", False),
        (("verify_pending_acceptance", "checkup_accept_recorded", "checkup_done"), "verify_pending_acceptance", False),
        (
            ("verify_pending_acceptance", "verify_failed_retryable", "run_started", "verify_passed", "checkup_done"),
            "verify_pending_acceptance",
            False,
        ),
        (("verify_passed", "checkup_preflight_blocked", "checkup_unblocked", "checkup_done"), "verify_passed", False),
    ],
)
def test_a_window_reaches_back_to_the_attempt_or_to_a_persons_decision(names, replied, expected):
    assert replied_in_window(events(*names, replied=replied), len(names)) is expected


def test_what_comes_later_does_not_count():
    assert not replied_in_window(events("run_started", "verify_passed", "checkup_done", replied="checkup_done"), 2)


@pytest.mark.parametrize(
    ("configured", "type_", "expected"),
    [
        (None, "bug", "manual"),
        (None, "feature", "auto"),
        ("auto", "bug", "auto"),
        ("manual", "feature", "manual"),
    ],
)
def test_unless_configured_a_bug_is_closed_by_a_person(configured, type_, expected):
    assert close_on_done(configured, type_) == expected


# --- promotion ---------------------------------------------------------------------------------------------


def test_set_up_knowledge_of_substance_is_promoted():
    assert decide_promotion("auto", *known()).yes
    assert decide_promotion("auto", *known(setup=(), files=("deploy/values.yaml",))).yes


@pytest.mark.parametrize(
    ("knowledge", "why"),
    [
        (known(node(type_="bug")), "a task of type bug"),
        (known(node("Refactor the payment integration")), "internal work"),
        (known(node("Fix the webhook integration")), "fix"),
        (known(node("Prototype a payment integration")), "experiment"),
        (known(node("Show the cart", "x" * 200)), "not about setting up"),
        (known(setup=(), files=("src/pay.ts",)), "no set-up"),
        (known(node(description="Integrate it.")), "too little"),
    ],
)
def test_in_doubt_nothing_is_promoted(knowledge, why):
    decision = decide_promotion("auto", *knowledge)
    assert not decision.yes
    assert why in decision.why


@pytest.mark.parametrize("knowledge", [known(), known(node(type_="bug"))])
def test_a_person_can_want_all_or_nothing(knowledge):
    assert decide_promotion("always", *knowledge).yes
    assert not decide_promotion("never", *knowledge).yes


@given(
    st.sampled_from(["feature", "bug"]),
    st.text(min_size=1, max_size=40),
    st.text(max_size=300),
    st.lists(st.text(max_size=9), max_size=2).map(tuple),
)
def test_auto_promotes_only_if_every_sign_is_for_it(type_, title, description, setup):
    """Taking any one sign away takes the decision back."""
    if decide_promotion("auto", node(title, description, type_), setup, ()).yes:
        assert type_ == "feature"
        assert setup
        assert len(description) >= 120


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Log in with OAuth 2", "log-in-with-oauth-2.md"),
        ("支付集成", "zhifujicheng.md"),
        ("!!!", "issue-7.md"),
        ("a" * 100, f"{'a' * 60}.md"),
        (f"{'a' * 59} b", f"{'a' * 59}.md"),
        ("../../etc/passwd", "etcpasswd.md"),
    ],
)
def test_a_document_is_named_after_its_title(title, name):
    assert document_name(title, 7) == name


@given(st.text())
def test_a_name_is_a_plain_file_name_whatever_the_title(title):
    stem = document_name(title, 7).removesuffix(".md")
    assert set(stem) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert 0 < len(stem) <= MAX_SLUG
    assert not stem.startswith("-")
    assert not stem.endswith("-")


@given(st.text())
def test_a_short_title_is_one_line_for_a_subject(title):
    assert "\n" not in short_title(title)
    assert len(short_title(title)) <= 50


@pytest.mark.parametrize(("checks", "to_judge", "note"), [*itertools.product([0, 2], [(), ("x",)], ["", "hm"])])
def test_there_is_a_report_if_there_is_anything_to_report(checks, to_judge, note):
    assert is_substantive(checks=checks, to_judge=to_judge, note=note) is bool(checks or to_judge or note)
