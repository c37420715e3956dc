"""`irontree serve`: where its server listens, and what it tells."""

from __future__ import annotations

import io
from argparse import Namespace

import pytest

from irontree.cli.console import Console
from irontree.cli.main import verb_parser
from irontree.cli.parser import UsageError
from irontree.cli.serve import SECRET, News, ServerNews, line, place_of, secret_for
from irontree.errors import ConfigRefused, ServerUnavailable
from irontree.flows.server.connection import ListenAddress
from irontree.flows.server.credentials import PASSWORD
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import adopt
from irontree.services.loops.loop import read_loops
from irontree.services.proposals.adoption import approval_name
from irontree.services.questions.listing import Revisions, waiting
from tests.support.issues import edit, write
from tests.support.watching import Watched
from tests.support.world import MANUAL_TASK, make_scene


def options(host: str = "127.0.0.1", port: int | None = None, *, open_to_everyone: bool = False) -> Namespace:
    return Namespace(host=host, port=port, open_to_everyone=open_to_everyone, name=["prefect.example"])


def place(host: str, port: int | None = None, *, opened: bool = False) -> ListenAddress:
    return ListenAddress(host, port, ("prefect.example",), open=opened)


def test_without_a_word_only_this_machine_reaches_the_server_at_any_free_port():
    assert place_of(options(), {}) == place("127.0.0.1")


def test_without_a_password_only_at_an_explicit_word_here_too():
    assert place_of(options(open_to_everyone=True), {}) == place("127.0.0.1", opened=True)


@pytest.mark.parametrize("name", ["localhost", "::1"])
def test_another_name_for_this_machine_alone_is_the_same_place(name):
    """...and is not listened at a second time, which our own process would be in the way of."""
    assert place_of(options(name, 4200), {}) == place("127.0.0.1", 4200)


def test_others_reach_it_with_a_password_or_with_an_explicit_word():
    assert place_of(options("0.0.0.0", 4200), {PASSWORD: "ada:secret"}) == place("0.0.0.0", 4200)
    assert place_of(options("0.0.0.0", 4200, open_to_everyone=True), {}) == place("0.0.0.0", 4200, opened=True)


def test_without_both_it_is_refused_with_the_reason_and_both_remedies():
    with pytest.raises(ConfigRefused, match="no users") as said:
        place_of(options("0.0.0.0", 4200), {})
    assert PASSWORD in said.value.remedy
    assert "--open-to-everyone" in said.value.remedy


def test_webhooks_without_a_secret_are_refused_before_anything_starts():
    with pytest.raises(ConfigRefused, match="takes only what is signed"):
        secret_for(Namespace(webhooks=4290), {})
    assert secret_for(Namespace(webhooks=4290), {SECRET: " s3cret\n"}) == "s3cret"
    assert secret_for(Namespace(webhooks=None), {}) == ""


@pytest.mark.parametrize("number", ["0", "65536", "-1", "9" * 5000])
@pytest.mark.parametrize("option", ["--port", "--webhooks"])
def test_what_is_no_port_is_wrong_usage(option: str, number: str):
    with pytest.raises(UsageError, match=option):
        verb_parser("serve").parse_args([option, number])


def test_an_address_for_others_needs_a_port_that_they_can_be_told():
    with pytest.raises(ConfigRefused, match="--port"):
        place_of(options("0.0.0.0"), {PASSWORD: "ada:secret"})


@pytest.fixture
def scene(tmp_path):
    """A task whose acceptance is asked for."""
    scene = make_scene(tmp_path)
    scene.drive(scene.start(MANUAL_TASK))
    return scene


def test_every_question_is_told_of_once(scene):
    news = News()
    [told] = news(scene.app)
    assert told == line(waiting(scene.app)[0])
    assert told.startswith("#1 Greeting: Your acceptance is needed: ")
    assert list(news(scene.app)) == []


def test_an_issue_that_is_taken_in_and_approved_at_once_asks_nothing(tmp_path):
    scene, news = make_scene(tmp_path), News()
    plan = adopt(scene.app, write(scene))
    assert list(news(scene.app)) == []
    answer_issue(scene.app, 1, Answer("approve", "ada", revision=approval_name(plan)))
    assert list(news(scene.app)) == []


def test_an_issue_that_stays_unapproved_is_told_of_once(tmp_path):
    scene, news = make_scene(tmp_path), News()
    adopt(scene.app, write(scene))
    told = [list(news(scene.app)) for _ in range(3)]
    assert [len(lines) for lines in told] == [0, 1, 0]
    assert told[1][0].startswith("#1 Greeting: Your approval is needed: ")


def test_the_text_of_an_issue_that_waits_for_its_approval_is_read_once_a_minute(tmp_path):
    """The news are made every two seconds, for as long as nobody answers."""
    scene, seconds, asked = make_scene(tmp_path), [0.0], []
    adopt(scene.app, write(scene))
    scene.forge_seen = Watched(scene.forge_seen, ["read_issue", "comments"], lambda name, _: asked.append(name))
    news = News(revisions=Revisions(clock=lambda: seconds[0]))
    for seconds[0] in range(0, 60, 2):
        list(news(scene.app))
    assert asked == ["read_issue", "read_issue", "comments", "comments"], "before and after each"
    edit(scene, 1, body="- [ ] it waves `$ has greet.txt waves`\n")
    seconds[0] = 60.0
    list(news(scene.app))
    assert len(asked) == 8


def test_the_end_of_a_loop_is_told_once(scene):
    """...of one that was open when we looked; of older ones nobody asked."""
    news = News()
    list(news(scene.app))
    [loop] = read_loops(scene.app)[0]
    scene.drive(loop, lambda question: Answer("accept", by="ada", question=question.key))
    assert list(news(scene.app)) == [f"loop {loop.id} completed"]
    assert list(news(scene.app)) == list(News()(scene.app)) == []


def test_without_a_form_the_line_says_which_command_shows_the_question(scene):
    assert line(waiting(scene.app)[0]).endswith(f"irontree -C {scene.root} status")


class OneServer:
    """The private server, as far as who serves asks it."""

    def __init__(self) -> None:
        self.why: str | None = None
        self.said: tuple[str, ...] = ()

    def told(self) -> tuple[str, ...]:
        said, self.said = self.said, ()
        return said

    def trouble(self) -> ServerUnavailable | None:
        return ServerUnavailable(self.why, remedy="see its log") if self.why else None


def test_what_the_server_says_to_its_users_is_passed_on_once():
    server, out = OneServer(), io.StringIO()
    look = ServerNews(Console(out, io.StringIO()), server)
    server.said = ("its database is set aside",)
    look(), look()
    assert [line[10:] for line in out.getvalue().splitlines()] == ["its database is set aside"]


def test_a_server_that_cannot_be_started_again_is_told_of_once_until_it_answered():
    server, out = OneServer(), io.StringIO()
    look = ServerNews(Console(out, io.StringIO()), server)
    for server.why in (None, "it died: 1", "it died: 2", None, "it died: 3"):
        look()
    assert [line[10:] for line in out.getvalue().splitlines()] == ["it died: 1. see its log", "it died: 3. see its log"]
