"""The oracle of the storms (tools/storms/oracle.py): what is as promised passes, and each damage is caught."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.storms import oracle
from tools.storms.oracle import Facts, checkout, commits, evidence, others
from tools.storms.project import MARK, Place, commit, git, lay_out

ROOT = Path(__file__).resolve().parents[3]
Check = Callable[[Place, Facts], list[str]]
Damage = Callable[[Place, Facts], None]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def event(place: Place, issue: int, sequence: int, name: str, **keys: str) -> Path:
    lines = [f"  sequence: {sequence}", f"  event: {name}", *(f"  {key}: {value}" for key, value in keys.items())]
    file = name.replace("_", "-")
    path = place.state / "events" / f"issue-{issue}" / f"{sequence:04}-{file}.yml"
    write(path, "\n".join(["iron_tree:", *lines, ""]))
    return path


def comment(place: Place, number: int, text: str, marker: str) -> None:
    said = f"---\nauthor: Ada\n---\n\n{text}\n\n<!-- irontree:1:{marker} -->\n"
    write(place.state / "forge" / "issues" / "0001" / "comments" / f"{number:04}.md", said)


def publish(place: Place, message: str = "[run] #1: Alpha\n\nIrontree-Run: 1/0badcafe/2") -> str:
    write(place.project / "alpha.txt", f"{len(message)} {git(place.project, 'rev-parse', 'HEAD')}\n")
    commit(place.project, message)
    git(place.project, "push", "--quiet", "origin", "main")
    return git(place.project, "rev-parse", "HEAD")


CODE = 40 * "c"


def end_well(place: Place, code: str = CODE) -> Facts:
    """Write the files of a storm with one task, done by one commit."""
    event(place, 1, 1, "task_published", task_key="alpha")
    event(place, 1, 2, "verify_pending_acceptance", task_key="alpha")
    event(place, 1, 3, "checkup_done", task_key="alpha", code_ref=f'"{code}"', completion_basis="verified")
    write(place.state / "loops" / "one" / "events" / "0001-loop-started.yml", "loop:\n  sequence: 1\n")
    write(place.state / "plans" / "0badcafe.yml", "version: 1\n")
    write(place.state / "forge" / "issues" / "0001.md", "---\n---\n<!-- irontree:task-key alpha -->\n")
    comment(place, 1, "please accept", "aaaa")
    write(place.outputs / "001-task.json", json.dumps({"words": ["task"], "code": 1}))
    write(place.outputs / "001-task.txt", "refused in words\n")
    write(place.project / "mine.txt", "mine\n")
    return Facts("push", tasks=["alpha"], edits={"mine.txt": "mine\n"})


@pytest.fixture
def place(tmp_path) -> Place:
    """Only files, no repository."""
    return Place(tmp_path / "storm")


@pytest.fixture
def facts(place) -> Facts:
    made = end_well(place)
    assert look(place) == []
    return made


def look(place: Place, _: Facts | None = None) -> list[str]:
    return oracle.look(place, place.folder / "seen")


def sequences(place: Place, _: Facts) -> list[str]:
    return oracle.sequences(place)


def comments(place: Place, _: Facts) -> list[str]:
    return oracle.comments(place)


def leftovers(place: Place, _: Facts) -> list[str]:
    return oracle.leftovers(place)


def outputs(place: Place, _: Facts) -> list[str]:
    return oracle.outputs(place)


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> tuple[Path, Facts]:
    """A storm that ended well, with its repositories."""
    place = lay_out(tmp_path_factory.mktemp("storm") / "storm", "push", 0)
    write(place.project / ".gitignore", ".mino/\n")
    commit(place.project, "Hide the log")
    facts = end_well(place, publish(place))
    facts.pushed.append(git(place.project, "rev-list", "--max-parents=0", "main"))
    return place.folder, facts


@pytest.fixture
def whole(template, tmp_path) -> tuple[Place, Facts]:
    """A copy of it."""
    folder, facts = template
    place = Place(tmp_path / "storm")
    shutil.copytree(folder, place.folder)
    for clone in (place.project, place.other):
        config = clone / ".git" / "config"
        config.write_text(config.read_text().replace(str(folder), str(place.folder)))
    return place, replace(facts, tasks=[*facts.tasks], pushed=[*facts.pushed])


def test_a_storm_that_ended_well_has_no_complaints(whole):
    place, facts = whole
    assert look(place) + look(place) + oracle.judge(place, facts) == []


# --- files --------------------------------------------------------------------------------------------------


def lose_an_event(place: Place, _: Facts) -> None:
    (place.state / "events" / "issue-1" / "0002-verify-pending-acceptance.yml").unlink()


def number_wrongly(place: Place, _: Facts) -> None:
    path = event(place, 2, 2, "task_published")
    path.rename(path.with_name("0001-task-published.yml"))


def change_an_event(place: Place, _: Facts) -> None:
    event(place, 1, 2, "verify_pending_acceptance", task_key="beta")


def change_a_plan(place: Place, _: Facts) -> None:
    write(place.state / "plans" / "0badcafe.yml", "version: 2\n")


def change_a_loop(place: Place, _: Facts) -> None:
    write(place.state / "loops" / "one" / "events" / "0001-loop-started.yml", "loop:\n  sequence: 1\n  more: 1\n")


def make_an_issue_twice(place: Place, _: Facts) -> None:
    write(place.state / "forge" / "issues" / "0002.md", "---\n---\n<!-- irontree:task-key alpha -->\n")


def lose_an_issue(place: Place, _: Facts) -> None:
    (place.state / "forge" / "issues" / "0001.md").unlink()


def post_twice(place: Place, _: Facts) -> None:
    comment(place, 2, "something else", "aaaa")


def say_twice(place: Place, _: Facts) -> None:
    comment(place, 2, "please accept", "bbbb")


def not_be_done(_: Place, facts: Facts) -> None:
    facts.tasks.append("beta")


def leave_a_lock(place: Place, _: Facts) -> None:
    write(place.project / ".git" / "index.lock", "")


def leave_a_temporary_file(place: Place, _: Facts) -> None:
    write(place.state / "events" / ".0004.yml.x.tmp", "")


def leave_a_note_of_git(place: Place, _: Facts) -> None:
    write(place.project / ".git" / "irontree" / "move.json", "{}")


def end_with_a_bug(place: Place, _: Facts) -> None:
    write(place.outputs / "002-task.json", json.dumps({"words": ["task"], "code": 3}))


def say_a_traceback(place: Place, _: Facts) -> None:
    write(place.outputs / "002-task.txt", "Traceback (most recent call last):\n")


def report_a_bug(place: Place, _: Facts) -> None:
    write(place.home / ".local" / "state" / "irontree" / "reports" / "bug.txt", "")


@pytest.mark.parametrize(
    ("check", "damage", "said"),
    [
        (sequences, lose_an_event, "events/issue-1: sequences are [1, 3]"),
        (sequences, number_wrongly, "0001-task-published.yml: says another sequence"),
        (look, lose_an_event, "events/issue-1/0002-verify-pending-acceptance.yml: seen before, gone now"),
        (look, change_an_event, "events/issue-1/0002-verify-pending-acceptance.yml: seen before, changed now"),
        (look, change_a_plan, "plans/0badcafe.yml: seen before, changed now"),
        (look, change_a_loop, "loops/one/events/0001-loop-started.yml: seen before, changed now"),
        (oracle.issues, make_an_issue_twice, "2 issues for alpha"),
        (oracle.issues, lose_an_issue, "no issue for alpha"),
        (comments, post_twice, "issue 1: posted 2 times: <!-- irontree:1:aaaa -->"),
        (comments, say_twice, "issue 1: said 2 times, for 1 events: please accept"),
        (leftovers, leave_a_lock, "left over: project/.git/index.lock"),
        (leftovers, leave_a_temporary_file, "left over: project/.mino/events/.0004.yml.x.tmp"),
        (leftovers, leave_a_note_of_git, "left over: project/.git/irontree/move.json"),
        (outputs, end_with_a_bug, "002-task: exit code 3 of task"),
        (outputs, say_a_traceback, "002-task.txt: a traceback"),
        (outputs, report_a_bug, "a report of a bug: bug.txt"),
    ],
)
def test_a_damaged_file_is_caught(place, facts, check: Check, damage: Damage, said):
    assert check(place, facts) == []
    damage(place, facts)
    assert [one for one in check(place, facts) if said in one]


def test_a_process_that_is_left_is_caught(place):
    with subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: str(place.home)}) as left:
        try:
            assert oracle.leftovers(place) == [f"still alive: {left.pid} sleep 60"]
        finally:
            left.kill()
    assert oracle.leftovers(place) == []


def test_the_address_of_a_reply_and_an_archived_stream_are_no_change(place):
    path = event(place, 2, 1, "verify_passed", reply_posted="null")
    assert look(place) == []
    event(place, 2, 1, "verify_passed", reply_posted="'#1'")
    assert look(place) == []
    archived = place.state / "archive" / "issue-2-rev-0badcafe" / "events" / path.name
    archived.parent.mkdir(parents=True)
    path.rename(archived)
    assert look(place) == []


# --- repositories -------------------------------------------------------------------------------------------


def publish_an_attempt_twice(place: Place, _: Facts) -> None:
    publish(place)


def publish_two_attempts(place: Place, _: Facts) -> None:
    publish(place, "[run] #1: Alpha\n\nIrontree-Run: 1/0badcafe/5")


def be_done_elsewhere(place: Place, _: Facts) -> None:
    event(place, 1, 4, "checkup_done", task_key="alpha", code_ref=f'"{CODE}"', completion_basis="verified")


def be_done_without_a_commit(place: Place, _: Facts) -> None:
    event(place, 1, 4, "checkup_done", task_key="alpha", code_ref="null", completion_basis="verified")


def overwrite_others(place: Place, facts: Facts) -> None:
    write(place.other / "theirs.txt", "theirs\n")
    commit(place.other, "Theirs")
    facts.pushed.append(git(place.other, "rev-parse", "HEAD"))


def dirty(place: Place, _: Facts) -> None:
    write(place.project / "alpha.txt", "half\n")


def overwrite_an_edit(place: Place, _: Facts) -> None:
    write(place.project / "mine.txt", "theirs\n")


def leave_the_branch_behind(place: Place, _: Facts) -> None:
    git(place.other, "pull", "--quiet")
    write(place.other / "beta.txt", "beta\n")
    commit(place.other, "[run] #2: Beta\n\nIrontree-Run: 2/0badcafe/2")
    git(place.other, "push", "--quiet")


def leave_the_branch(place: Place, _: Facts) -> None:
    git(place.project, "switch", "--quiet", "--detach")
    git(place.project, "commit", "--quiet", "--allow-empty", "--message", "Astray")


@pytest.mark.parametrize(
    ("check", "damage", "said"),
    [
        (commits, publish_an_attempt_twice, "2 commits of attempt 1/0badcafe/2 on the target"),
        (commits, publish_two_attempts, "2 commits of task 1/0badcafe on the target"),
        (evidence, be_done_without_a_commit, "done with None, which is not on the target"),
        (evidence, be_done_elsewhere, f"done with {CODE}, which is not on the target"),
        (evidence, not_be_done, "not done: beta"),
        (others, overwrite_others, "pushed by others, not on the target"),
        (checkout, dirty, "the checkout is not clean:  M alpha.txt"),
        (checkout, overwrite_an_edit, "mine.txt: the user's edit is changed or gone"),
        (checkout, leave_the_branch_behind, "the user's main did not follow to "),
        (checkout, leave_the_branch, "the checkout is not on main"),
    ],
)
def test_a_damaged_repository_is_caught(whole, check: Check, damage: Damage, said):
    place, facts = whole
    damage(place, facts)
    assert [one for one in check(place, facts) if said in one]


def test_it_imports_nothing_of_the_program():
    for name in ("oracle", "project"):
        tree = ast.parse((ROOT / "tools" / "storms" / f"{name}.py").read_text())
        imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        imported += [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
        ours = {str(one).split(".")[0] for one in imported} - set(sys.stdlib_module_names)
        assert ours <= {"psutil", "yaml", "tools"}
        assert {str(one) for one in imported if str(one).startswith("tools")} <= {
            "tools.storms",
            "tools.storms.project",
        }
