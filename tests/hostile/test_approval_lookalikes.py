"""A command, a branch or a path that is not what it looks like: whoever approves it is told, on each way to approve."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from irontree.domain.agents import Member
from irontree.domain.text import lookalikes
from irontree.services.answers.approve import adopt
from irontree.services.answers.comments import look
from irontree.services.execution.run import run
from irontree.services.proposals.approval import approval_text, lookalikes_in
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import waiting
from irontree.services.questions.pages import question_text
from tests.support.issues import resolved, write
from tests.support.world import ONE_TASK, Scene, make_scene

CYRILLIC = "\N{CYRILLIC SMALL LETTER A}"
NAMED = "U+0430 CYRILLIC SMALL LETTER A"
ATTACK = ONE_TASK.replace("has greet.txt", f"h{CYRILLIC}s greet.txt")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path)


@pytest.mark.parametrize(
    "char",
    [
        *("\N{CYRILLIC SMALL LETTER IE}", "\N{GREEK SMALL LETTER OMICRON}", "\N{FULLWIDTH SOLIDUS}"),
        *("\N{MATHEMATICAL BOLD SMALL A}", "\N{CHEROKEE LETTER GO}", "\N{LATIN SMALL LETTER DOTLESS I}"),
        *("\N{ZERO WIDTH SPACE}", "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{NO-BREAK SPACE}", "\N{SOFT HYPHEN}"),
        *("\N{EN DASH}", "\N{DIVISION SLASH}", "\N{COMBINING SHORT SOLIDUS OVERLAY}", "\N{TAG LATIN SMALL LETTER A}"),
        *(
            "\N{HANGUL FILLER}",
            "\N{HANGUL CHOSEONG FILLER}",
            "\N{HANGUL JUNGSEONG FILLER}",
            "\N{HALFWIDTH HANGUL FILLER}",
        ),
    ],
)
def test_what_passes_for_another_character_is_named(char):
    assert lookalikes(f"make {char}test {char}") == (f"U+{ord(char):04X} {unicodedata.name(char)}",)


@pytest.mark.parametrize("text", ["make test", "\N{LATIN CAPITAL LETTER U WITH DIAERESIS}ber", "要求", "요구"])
def test_what_passes_for_nothing_else_is_not(text):
    assert lookalikes(text) == ()


def test_on_the_terminal_and_in_the_form_of_a_document(scene):
    proposal = propose(scene.app, scene.write(ATTACK))
    assert NAMED in approval_text(scene.app, proposal, loop_mode=True, answer="")


def test_in_the_form_that_asks_again(scene):
    scene.publish(ONE_TASK)
    scene.write(ATTACK)
    run(scene.app, 1)
    [asked] = waiting(scene.app)
    assert NAMED in question_text(scene.app, asked)


def test_in_the_comment_and_on_the_terminal_for_an_issue(scene):
    write(scene, "Greeting", f"- [ ] it says hello `$ h{CYRILLIC}s greet.txt`\n")
    adopt(scene.app, 1)
    look(scene.app)
    assert any(NAMED in body for body in scene.comments())
    assert NAMED in approval_text(scene.app, resolved(scene, 1), loop_mode=True, answer="")


def test_in_a_branch_and_in_settings(scene):
    publish = scene.policy.publish.model_copy(update={"target_branch": f"m{CYRILLIC}in"})
    scene.policy = scene.policy.model_copy(update={"publish": publish})
    assert lookalikes_in(propose(scene.app, scene.write(ONE_TASK))) == ((f"m{CYRILLIC}in", NAMED),)


@pytest.mark.parametrize("told", ["command", "display", "capabilities"])
def test_in_what_a_team_runs_and_is_told(scene, told):
    word = f"m{CYRILLIC}in"
    member = Member(**{"name": "coder", "command": ("coder",)} | {told: word if told == "display" else (word,)})
    scene.policy = scene.policy.model_copy(update={"team": (member,)})
    shown = member.line if told == "command" else word
    assert lookalikes_in(propose(scene.app, scene.write(ONE_TASK))) == ((shown, NAMED),)
