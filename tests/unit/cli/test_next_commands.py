"""What to type next exists, and can be typed."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from irontree.cli.answer import read_choice
from irontree.cli.checkup import MODES, _require_fit
from irontree.cli.context import as_typed_here, program_for
from irontree.cli.main import HELP, VERBS, top_parser, verb_parser
from irontree.cli.output import Cell, TextLines, with_commands
from irontree.domain.decide import Aggregate, Finalize, Recover, Run, Verify
from irontree.domain.halt import AGENT_BUDGET, RULE, RULES
from irontree.domain.spending import Budget
from irontree.services.questions.commands import DAMAGED, answers_to
from irontree.services.questions.questions import Question
from irontree.services.views.history import step_command

ROOT = Path(__file__).resolve().parents[3]
LOOP_ID = "2026-04-22-1432-a3f8b2"
OF_ISSUES = [
    Question(rule, "key", issue_number=7, task_key="it's-a-key", loop_id=loop_id, revision="1a2b3c4d")
    for rule in RULES
    if rule.asked_of == "issue"
    for loop_id in (None, LOOP_ID)
]
OF_LOOPS = [
    *(Question(rule, "key", loop_id=LOOP_ID) for rule in RULES if rule.asked_of == "loop"),
    Question(AGENT_BUDGET, "key", loop_id=LOOP_ID, budget=Budget("loop", "money", 1, 1)),
]


def understood(command: str, asked: Question | None = None) -> argparse.Namespace:
    """The options that *command* gives, as an answer to *asked*; raises UsageError if it cannot be typed."""
    program, *words = shlex.split(command)
    assert program == "irontree"
    verb, *rest = top_parser().parse_args(words).words
    options = verb_parser(verb).parse(rest)
    if verb == "checkup":
        _require_fit(options, MODES[options.mode])
    if verb == "answer":
        assert asked
        assert read_choice(" ".join(options.choice), asked, begin="").choice
    return options


@pytest.mark.parametrize("asked", [*OF_ISSUES, *OF_LOOPS], ids=lambda asked: f"{asked.reason}-{asked.loop_id}")
def test_every_legal_answer_has_a_command_that_can_be_typed(asked):
    assert answers_to(asked)
    for _, command in answers_to(asked):
        understood(command, asked)


def test_without_a_loop_there_is_nothing_to_skip_or_stop():
    names = {choice.name for asked in OF_ISSUES if asked.loop_id is None for choice, _ in answers_to(asked)}
    assert not names & {"skip", "stop"}


def test_what_an_issue_asks_is_answered_by_one_word_and_its_number():
    [accepting] = [asked for asked in OF_ISSUES if asked.reason == "pending_acceptance" and asked.loop_id]
    assert [command for choice, command in answers_to(accepting)] == [
        "irontree accept 7",
        "irontree reject 7 --note 'NOTE'",
        "irontree skip 7",
        f"irontree stop {LOOP_ID}",
    ]


def test_a_damaged_log_is_put_right_before_anything_is_answered():
    assert answers_to(Question(RULE["blocked"], "key", issue_number=7, damaged=True)) == ()
    understood(DAMAGED)


@pytest.mark.parametrize("kind", [Recover, Run, Verify, Finalize, Aggregate])
def test_every_step_has_a_command_that_can_be_typed(kind):
    understood(step_command(kind("auth-core"), 7))


def test_a_command_names_its_repository_only_where_that_is_another_folder(tmp_path):
    assert program_for(Path.cwd()) == "irontree"
    assert program_for(Path.cwd().parent) == "irontree -C .."
    assert program_for(tmp_path / "a place") == f"irontree -C '{tmp_path / 'a place'}'"


def test_commands_in_a_remedy_are_about_the_folder_that_was_named(tmp_path):
    inside = tmp_path / "a place" / "sub"
    inside.mkdir(parents=True)
    (inside.parent / ".mino").mkdir()
    told = as_typed_here("type `irontree task SPEC.md`, not my-irontree task: irontree example > x", VERBS, inside)
    where = f"irontree -C '{inside.parent}'"
    assert told == f"type `{where} task SPEC.md`, not my-irontree task: irontree example > x"


def test_only_a_command_of_ours_that_works_as_it_stands_is_shown_as_it_has_to_be_typed_here():
    """What an archive brings, or a clone elsewhere needs, is not for here."""
    block = TextLines((Cell("irontree status", "command"), Cell("irontree status", "typed"), "irontree status"))
    shown = with_commands(block, lambda text: text.replace("irontree", "irontree -C x"))
    assert [each.text for each in shown.lines] == ["irontree status", "irontree -C x status", "irontree status"]


def texts() -> list[Path]:
    folders = ("src", "flows", "tasks", "blocks", "templates", "docs")
    return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".j2", ".md"}]


def test_every_command_that_a_text_mentions_exists():
    missing = [
        f"{path.relative_to(ROOT)}: irontree {verb}"
        for path in texts()
        for verb in re.findall(r"(?:[`\"']|: |&& )irontree (?:-C \S+ )?([a-z]+)", path.read_text(encoding="utf-8"))
        if verb not in VERBS and verb != HELP
    ]
    assert not missing


def test_every_mode_of_checkup_that_a_text_mentions_exists():
    missing = [
        f"{path.relative_to(ROOT)}: irontree checkup {mode}"
        for path in texts()
        for mode in re.findall(r"irontree checkup ([a-z][a-z-]+)", path.read_text(encoding="utf-8"))
        if mode not in MODES
    ]
    assert not missing
    assert verb_parser("checkup").parse_args([]).mode == "check"
