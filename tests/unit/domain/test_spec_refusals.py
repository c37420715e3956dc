"""A document that cannot be approved is refused with file, line and remedy, all problems at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from irontree.domain.ids import MAX_KEY
from irontree.domain.requirements.drafts import MAX_TITLE
from irontree.domain.requirements.markdown import MAX_TEXT
from irontree.domain.spec import MAX_BYTES, read_requirements
from irontree.domain.task_types import TASK_TYPES
from irontree.errors import RequirementsRefused

MANUAL = Path(__file__).parents[3] / "docs" / "requirement-format.md"
X = "- [ ] x (manual)\n"
CHECKED = "- [ ] x `$ make`\n"

# text, line, the problem and the remedy as they begin
REFUSED = [
    ("", 1, "the document is empty", "Write a heading for each task"),
    ("---\na: b\n---\n", 1, "the document is empty", "Write a heading"),
    ("Only text.\n\n- [ ] and a box", 1, "the document has no headings, so no tasks", "Write a heading for each task"),
    (b"a" * (10 * MAX_BYTES), 1, "the document has 10,485,760 bytes, more than 1,048,576", "Split it"),
    (b"# A\r\n\r\xff", 3, "byte 0xff at offset 6 is no UTF-8 text", "Save the document as UTF-8 text"),
    ("# A\n- [ ] x".encode("utf-16"), 1, "byte 0xff at offset 0 is no UTF-8 text", "Save the document as UTF-8"),
    (b"# A\n\n- [ ] \0", 3, "byte 0x00 at offset 11 is no UTF-8 text", "Save the document"),
    (f"# A\n{X}\rpay \u202eme", 4, "the invisible character U+202E in column 5", "Remove it"),
    (f"# A\x1b[2J\n{X}", 1, "the invisible character U+001B in column 4", "Remove it"),
    (
        f"# A\n{X}\n```\n# B\n{X}",
        4,
        "a code block or comment that begins here never ends",
        "Close it with the same fence",
    ),
    (f"# A\n{X}\n<!--\n# B\n{X}", 4, "a code block or comment that begins here never ends", "Close it with the same"),
    (f"# A\n{X}\n#\n{X}", 4, "a heading without text", "Give the task a title, or delete the heading"),
    (f"# {'a' * 256}\n{X}", 1, "a title of 256 characters", "Keep it within 255"),
    (
        f"# A\n{X}# a!\n{X}",
        3,
        "'a!' has the same key as 'A' at line 1: a",
        "Give one of them another title, or a 'Key:'",
    ),
    (f"# A\n{X}# B\nKey: a\n{X}", 3, "'B' has the same key as 'A' at line 1: a", "Give one of them another title"),
    ("# A\ntext\n", 1, "'A' has no acceptance criterion", "Add one as '- [ ] ...'"),
    ("# A\n## Verification\n- `$ make`\n", 1, "'A' has no acceptance criterion", "Add one as '- [ ] ...'"),
    (f"# A\n{X}# Notes\ntext\n", 3, "'Notes' has no acceptance criterion", "If it is a section of the task above"),
    ("# A\n- [ ]\n- [ ] x\n", 2, "an acceptance criterion without text", "Say what must hold, or delete it"),
    (f"# T\n{X}## A\n{X}", 2, "an acceptance criterion that belongs to no task", "Move it under the heading"),
    (f"{X}# A\n{X}", 1, "an acceptance criterion that belongs to no task", "Move it under the heading"),
    (f"# T\n## A\n{X}## Checks\n- `$ a`\n", 4, "the section 'Checks' belongs to no task", "Give it a deeper heading"),
    (f"# A\nType: bug\n{X}## type\nbug\n", 4, "'type' is given twice, first at line 2", "Keep one of them"),
    (f"# A\nDepends on:\n\n{X}".replace("- [ ]", "text\n\n- [ ]"), 2, "'Depends on' has no value", "Give it one, or"),
    (f"# A\n## Priority\n## Done when\n{X}", 2, "'Priority' has no value", "Give it one, or delete the line"),
    (f"# A\nType: chore\n{X}", 2, "'chore' is no type", f"Use one of: {', '.join(TASK_TYPES)}"),
    (f"# A\nPriority: 0\n{X}", 2, "'0' is no priority", "Use 1 (first) to 9 (last)"),
    (f"# A\n- Priority: urgent\n{X}", 2, "'urgent' is no priority", "Use 1 (first) to 9 (last)"),
    (f"# A\nKey: Foo Bar\n{X}", 2, "'Foo Bar' cannot be a key", "Use at most 64 lower-case letters, digits and single"),
    (f"# A\nKey: {'a' * 65}\n{X}", 2, f"'{'a' * 65}' cannot be a key", "Use at most 64 lower-case letters"),
    (f"# A\nFiles: a, ../b\n{X}", 2, "'../b' is outside the repository", "Name files relative to"),
    (
        f"# A\n### Files\n- a\n- `/etc/passwd`\n\n### Done when\n{X}",
        4,
        "'/etc/passwd' is outside the repository",
        "Name",
    ),
    (f"# A\n- [ ] {'a' * 2001}\n", 2, "a field, criterion or command of 2,001 characters", "Keep it within 2,000"),
    (f"# A\nDepends on: {'a' * 2001}\n{X}", 2, "a field, criterion or command of 2,001 characters", "Keep it within"),
    ("# A\n- [ ] x (check: )\n", 2, "'(check: )' names no check", "Name a configured check, or delete the mark"),
    (
        f"# A\n{X}## Checks\n```\n$ a \\\n  b\n```\n",
        5,
        "a command that goes on behind a backslash",
        "Write the command on",
    ),
    (f"# A\n{X}## Checks\n- `$ a\u200bb`\n", 4, "a command with the invisible character U+200B", "Remove it, or"),
    (f"# A\n{X}## Checks\n- `$ a\u3164b`\n", 4, "a command with the invisible character U+3164", "Remove it, or"),
    (
        f"# A\n{X}## Checks\n- `$ test '-----BEGIN PRIVATE KEY-----' || x; : -----END PRIVATE KEY-----`\n",
        4,
        "a command with what looks like a secret, which an approval would not show",
        "Let it be read from a variable",
    ),
    (f"# Log in\n{X}# B\nDepends on: Login\n{X}", 4, "'Login' is no task of this document", "Did you mean 'Log in'?"),
    (f"# A\nDepends on: none, zzz\n{X}", 2, "'zzz' is no task of this document", "Use a title, a key or '#N'"),
    (
        f"# A\n## T\n{X}# B\n## T\n{X}# C\nDepends on: t\n{X}",
        8,
        "'t' is the title of 2 tasks",
        "Name one by its key (a-t, b-t) or as 'Parent / Title'",
    ),
    (f"# A\nDepends on: #7\n{X}", 2, "no known task has the issue number #7", "Name a task of this document by its"),
    (f"# A\nDepends on: A\n{X}", 2, "'A' depends on itself", "Remove that name"),
    (f"# A\n## B\nDepends on: A\n{X}# C\n{X}", 3, "'B' depends on 'A', of which it is a part", "Remove that name; a"),
    (f"# A\nDepends on: B\n## B\n{X}# C\n{X}", 2, "'A' depends on 'B', which is a part of it", "Remove that name; a"),
    (
        f"# A\nDepends on: B\n{X}# B\nDepends on: C\n{X}# C\nDepends on: A\n{X}",
        1,
        "a cycle, in which each waits for the next: 'A' -> 'B' -> 'C' -> 'A'",
        "Remove one of these dependencies",
    ),
    (
        f"# A\n## B\nDepends on: C\n{X}# C\n## D\nDepends on: A\n{X}",
        1,
        "a cycle, in which each waits for the next: 'A' -> 'B' -> 'C' -> 'D' -> 'A'",
        "Remove one of these dependencies",
    ),
]
WARNED = [
    (f"# A\nDepend on: B\n{X}", 2, "'Depend on' is no field", "Did you mean 'Depends on'?"),
    (f"# A\nDepend on: #1\nPrio: high\n{X}", 3, "'Prio' is no field", "Did you mean 'Priority'?"),
    (f"# A\nType: bug\nOwner: me\n{X}", 3, "'Owner' is no field", "It stays in the description"),
    (f"# A\n- Type: bug\n- Owner: me\n\n{X}", 3, "'Owner' is no field", "It stays in the description"),
    (f"# A\ntext\n\n- Type: bug\n\ntext\n\n{X}", 4, "'Type' stands in a list behind other text", "If it is meant as a"),
    (f"# T\nType: bug\n## A\n{X}", 2, "'Type' stands in the document's introduction", "If it is meant as a field"),
    (
        "# A\n- [ ] `$ make` is quiet (manual)\n",
        2,
        "a command inside a criterion covers it only at the end",
        "Move the",
    ),
    (f"# A\n{X}## Checks\n- `make`\n", 4, "nothing is run of this: a command begins with '$ '", "Write `$ command`"),
    (f"# A\n{X}## Checks\n```\nmake\n```\n", 4, "nothing is run of this: a command begins with '$ '", "Write `$ comm"),
    (f"# A\n{X}## Checks\n- `$ true`\n", 4, "'true' cannot fail, so it proves nothing", "Name a command that can"),
    ("# A\n- [ ] x `$ pytest || true`\n", 2, "'pytest || true' cannot fail, so it proves nothing", "Name a command"),
    (f"# A\n- [ ] x\n{X}", 1, "nothing checks 1 of the 2 criteria of 'A'", "A person will be asked"),
    (
        f"# T\n## A\n### Checks\n- `$ a`\n### B\n{X}",
        2,
        "the commands of 'A' are never run, because it has parts",
        "Move them to",
    ),
]


def problems(text):
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(RequirementsRefused) as refusal:
        read_requirements(data, "SPEC.md")
    return refusal.value.problems


def warnings(text):
    found = read_requirements(text.encode(), "SPEC.md")
    return [warning.describe(found.name) for warning in found.warnings]


def begins(line, found):
    """The problem is whole, the remedy may go on."""
    number, problem, remedy = line
    return re.match(rf"SPEC\.md:{number}: {re.escape(problem)}[^.]*\. {re.escape(remedy)}", found)


@pytest.mark.parametrize(("text", "line", "problem", "remedy"), REFUSED, ids=[case[2][:40] for case in REFUSED])
def test_a_refusal_names_file_line_problem_and_remedy(text, line, problem, remedy):
    assert [found for found in problems(text) if begins((line, problem, remedy), found)], problems(text)


@pytest.mark.parametrize(("text", "line", "problem", "remedy"), WARNED, ids=[case[2][:40] for case in WARNED])
def test_a_warning_stops_nothing_and_names_what_to_do(text, line, problem, remedy):
    assert [found for found in warnings(text) if begins((line, problem, remedy), found)], warnings(text)


@pytest.mark.parametrize("case", REFUSED, ids=[case[2][:40] for case in REFUSED])
def test_each_mistake_is_told_once_and_causes_no_other_complaint(case):
    """But for a section on the wrong level and a document in which two tasks are wrong."""
    text, _, problem, _ = case
    others = [found for found in problems(text) if problem not in found]
    assert not others or problem.startswith(("the section", "the document has no", "a code block", "'/etc"))


def test_all_problems_are_told_at_once_in_the_order_of_their_lines():
    text = (
        "# T\n## A\nType: chore\nPriority: 77\nDepends on: B, Zzz\n- [ ] x\n"
        "## B\nDepends on: A\n- [ ] x (check: )\n## A!\n## C\nFiles: /x\nKey: No!\nDepends on: C\n- [ ] y\n"
    )
    found = problems(text)
    assert [int(line.split(":")[1]) for line in found] == [2, 3, 4, 5, 9, 10, 10, 12, 13, 14]
    assert all(line.startswith("SPEC.md:") for line in found)


def test_lines_are_those_of_the_file_as_it_was_given():
    assert problems("\r\n\r\n\r\n# A\r\rType: x\n\n\n\n- [ ] x")[0].startswith("SPEC.md:6: ")


def test_long_texts_and_long_cycles_are_cut_in_messages():
    title = "long " * 40
    ring = "".join(f"# T{i}\nDepends on: T{(i + 1) % 500}\n{X}" for i in range(500))
    assert max(len(line) for line in problems(f"# {title}\n# {title}\n") + problems(ring)) < 1000


def test_a_refusal_carries_all_its_lines_as_its_message():
    with pytest.raises(RequirementsRefused) as refusal:
        read_requirements(b"# A\n# A\n", "SPEC.md")
    assert str(refusal.value).splitlines() == list(refusal.value.problems)


@pytest.mark.parametrize(
    "command", ["true", "/bin/true", ":", "exit 0", "echo fine", "pytest || true", "make test; exit 0", "printf ok"]
)
def test_commands_that_cannot_fail_are_pointed_out(command):
    assert any("proves nothing" in line for line in warnings(f"# A\n- [ ] x `$ {command}`\n"))


@pytest.mark.parametrize(
    "command", ["truely", "make true", "echo x | grep x", "exit 1", "echo a && make", "./true.sh", "make test;"]
)
def test_commands_that_can_fail_are_not(command):
    assert warnings(f"# A\n- [ ] x `$ {command}`\n") == []


def test_the_limits_in_the_manual_are_those_of_the_code():
    limits = MANUAL.read_text(encoding="utf-8").split("## Limits\n")[1]
    assert f"at most {MAX_BYTES:,} bytes" in limits
    assert (
        f"A title has at most {MAX_TITLE} characters, a key {MAX_KEY}, a field, criterion or command {MAX_TEXT:,}"
        in limits
    )
