"""Documents as people write them: numbered headings, dependencies in plain words, commands without their `$`."""

from __future__ import annotations

import pytest

from irontree.domain.spec import read_requirements


def read(text):
    return read_requirements(text.encode(), "SPEC.md")


NUMBERED = """\
# Shop

## 1. Background

It is old.

## 2. Accounts

### 2.1 Log in (small)

- [ ] a

### 2.2. Log out

{first}

- [ ] b

## Task 3: Pay{aside}

{second}

- [ ] c
"""


def pointed_out(document):
    return [warning for warning in document.warnings if not warning.what.startswith("nothing checks")]


@pytest.mark.parametrize(
    ("first", "second", "aside"),
    [
        ("Depends on: 2.1", "Depends on: Log in, 2.2", ""),
        ("Depends on 2.1", "Depends on 2.1, 2.2.", ""),
        ("**Depends on** Log in", "Depends on 2.1 and 2.2", ""),
        ("It ends a session (depends on 2.1).", "Money (depends on: Log in, Log out) is moved.", ""),
        ("- depends on 2.1", "- Blocked by 2.1 and Log out", ""),
        ("Text.\nDepends on Log in\nMore text.", "", " (depends on 2.1, 2.2)"),
    ],
)
def test_dependencies_are_understood_without_a_field_and_by_number(first, second, aside):
    document = read(NUMBERED.format(first=first, second=second, aside=aside))
    by_title = {node.title.partition(" (")[0]: node for node in document.nodes}
    login, logout, pay = (by_title[title] for title in ("2.1 Log in", "2.2. Log out", "Task 3: Pay"))
    assert logout.depends_on == (login.task_key,)
    assert set(pay.depends_on) == {login.task_key, logout.task_key}
    assert document.introduction == "**1. Background**\n\nIt is old."
    assert not pointed_out(document)


def test_what_may_be_a_dependency_and_is_not_understood_is_pointed_out_for_each_task():
    text = "# Shop\n" + "".join(f"\n## Part {name}\n\nDepends on the weather\n\n- [ ] x\n" for name in "ABC")
    document = read(text)
    found = pointed_out(document)
    assert [warning.line for warning in found] == [5, 11, 17]
    assert "names no tasks of this document, so nothing is waited for" in found[0].what
    assert "Depends on: TITLE" in found[0].remedy
    assert all(node.depends_on == () for node in document.nodes)


def test_a_title_counts_before_the_same_words_behind_a_number():
    document = read("# Shop\n\n## Pay\n\n- [ ] a\n\n## 2. Pay\n\n- [ ] b\n\n## Ship\n\nDepends on Pay\n\n- [ ] c\n")
    assert document.nodes[2].depends_on == ("pay",)


@pytest.mark.parametrize(
    ("criterion", "command"),
    [("it holds `make check`", "make check"), ("it holds: `./run-tests --all`.", "./run-tests --all")],
)
def test_a_command_whose_dollar_was_forgotten_is_pointed_out_in_every_task(criterion, command):
    document = read("# Shop\n" + "".join(f"\n## Part {name}\n\n- [ ] {criterion}\n" for name in "AB"))
    assert [warning.line for warning in pointed_out(document)] == [5, 9]
    assert pointed_out(document)[1].remedy == f"Write `$ {command}`"


@pytest.mark.parametrize("criterion", ["it prints `Hello World`", "`make` is documented", "no `TODO` is left in `src`"])
def test_other_code_in_a_criterion_is_no_command(criterion):
    assert not pointed_out(read(f"# Shop\n\n## Part\n\n- [ ] {criterion}\n\n## Other\n\n- [ ] x\n"))
