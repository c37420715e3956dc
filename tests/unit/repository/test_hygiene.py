"""Nothing in the program can force-push, rewrite or delete what is on the remote (multi-agent git hygiene, R5)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import irontree.repository

REPOSITORY = Path(irontree.repository.__file__).parent
FORBIDDEN = (
    *("--force-if-includes", "--mirror", "--prune", "--delete", "--hard", "--amend", "--tags"),
    *("rebase", "filter-branch", "reflog", "gc", "prune", "--all-remotes"),
)
OURS = {"answering", "ask", "at", "change", "clear_cache", "exchange", "find", "read", "run", "settings", "use"}
"""What is called on our own runner, or on GitPython without words for git."""
ALLOWED_FORCE = {"add", "checkout", "checkout-index", "worktree"}
"""`add --force` takes up what is ignored, `checkout --force` resets a workspace, `checkout-index --force` settles a
move of the user's checkout, file by file, `worktree remove --force` takes back one that was just made and could not be
filled: none of it leaves this machine."""


def calls() -> Iterator[tuple[str, list[str]]]:
    """Where git is given words, and those of its words that stand in the source."""
    for path in sorted(REPOSITORY.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _gives_words(node):
                yield f"{path.name}:{node.lineno}", list(_words(node))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                yield f"{path.name}:{node.lineno}", list(_words(node.value))


def _gives_words(node: ast.Call) -> bool:
    """`git.run(...)`, `exchange`, `change`, `ask`, `find`; `repo.paths(...)`, `says`; `repo.git.log(...)`."""
    names = {"run", "exchange", "change", "ask", "find", "paths", "says"}
    return isinstance(node.func, ast.Attribute) and (node.func.attr in names or _read_command(node) is not None)


def _read_command(node: ast.Call) -> str | None:
    """The command that GitPython is given, as git calls it."""
    match node.func, node.args:
        case ast.Attribute(attr=name, value=ast.Attribute(attr="git")), _ if name not in OURS:
            return name.replace("_", "-")
        case ast.Attribute(attr="paths" | "says" | "changes"), [ast.Constant(value=str(name)), *_]:
            return name
    return None


def _words(node: ast.AST) -> Iterator[str]:
    """Every literal word below *node*; of a formatted one, its first literal part."""
    for found in ast.walk(node):
        if isinstance(found, ast.JoinedStr):
            first = found.values[0]
            yield first.value if isinstance(first, ast.Constant) else "{}"
        elif isinstance(found, ast.Constant) and isinstance(found.value, str):
            yield found.value


CALLS = list(calls())
READING = {
    *(
        "bundle list-heads",
        "bundle verify",
        "check-ignore",
        "diff",
        "diff-index",
        "diff-tree",
        "for-each-ref",
        "log",
    ),
    *(
        "ls-files",
        "ls-tree",
        "merge-base",
        "remote",
        "remote get-url",
        "rev-list",
        "rev-parse",
        "status",
        "symbolic-ref --quiet",
    ),
}
"""What GitPython may be given; those that also change something, with the word by which they only read."""


def test_the_scan_sees_what_git_is_given():
    words = [word for _, found in CALLS for word in found]
    assert {"push", "fetch", "commit", "merge", "checkout", "update-ref"} <= {*words}


def test_gitpython_is_given_commands_that_only_read():
    given = set()
    for path in sorted(REPOSITORY.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (command := _read_command(node)):
                more = [word.value for word in node.args if isinstance(word, ast.Constant) and word.value != command]
                given.add(f"{command} {more[0]}" if f"{command} {[*more, ''][0]}" in READING else command)
    assert given <= READING
    assert {"log", "rev-list", "diff-index", "ls-files"} <= given


@pytest.mark.parametrize("word", FORBIDDEN)
def test_no_call_of_git_has_a_word_that_rewrites_or_deletes(word):
    assert [where for where, found in CALLS if word in found] == []


def test_no_word_forces_but_the_lease_of_the_one_push():
    forcing = {
        (where.partition(":")[0], word) for where, found in CALLS for word in found if word.startswith("--force-")
    }
    assert forcing == {("publication.py", "--force-with-lease=")}


def test_force_is_used_for_nothing_that_leaves_this_machine():
    forced = {where: found for where, found in CALLS if {"--force", "-f"} & {*found}}
    assert forced
    assert all(ALLOWED_FORCE & {*found} for found in forced.values())


def test_the_one_push_names_a_commit_and_a_branch_and_the_tip_that_it_stands_on():
    """A lease without a tip would take whatever was fetched last."""
    pushes = [(where, found) for where, found in CALLS if "push" in found]
    [(_, words)] = pushes
    assert [*dict.fromkeys(word for word in words if word.startswith("-"))] == [
        *("--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--force-with-lease="),
    ]
    assert not any(word.startswith(("+", ":")) and word != ":refs/heads/" for word in words)


def test_a_plus_stands_only_before_what_is_fetched_to_a_tracking_branch_or_to_the_backup_of_the_log():
    plus = [(where, found) for where, found in CALLS if any(word.startswith("+") for word in found)]
    assert [where.partition(":")[0] for where, _ in plus] == ["publication.py", "repository.py"]
    assert not any("push" in found for _, found in plus)


def test_a_ref_is_deleted_only_if_another_of_ours_contains_it_or_it_is_the_backup_and_cannot_be_read():
    deleting = [where.partition(":")[0] for where, found in CALLS if "update-ref" in found and "-d" in found]
    assert deleting == ["backup.py", "repository.py"]
