"""Which changes touch what defines the checks, and which are the task's own (R18)."""

from __future__ import annotations

import sys

import pytest

from irontree.domain.plan import AgentSpec, Criterion, ExecutionPolicy, PlanNode, PublishPolicy, Shell
from irontree.domain.protection import LineCount, changes_checks, fits

BEFORE = frozenset({"app.py", "tests/test_app.py", "scripts/check.sh", "tools/lint.py", "Makefile", "web/README.md"})
NODE = PlanNode(
    task_key="greet",
    title="Greet",
    verification=("sh scripts/check.sh --all",),
    criteria=(
        Criterion(text="lints", command="python -m tools.lint app.py && test -f data.txt && grep -q new data.txt"),
    ),
)


def policy(**settings) -> ExecutionPolicy:
    return ExecutionPolicy(
        agent=AgentSpec(command=("agent",)),
        checks=(
            Shell(
                name="test",
                run="CI=1 ./run-tests && pytest -c conf/pytest.toml; timeout 60 uv run python -B bin/check.py",
            ),
        ),
        publish=PublishPolicy(target_branch="main"),
        **settings,
    )


def protected(*counts: LineCount, node: PlanNode = NODE, before=BEFORE, texts=None, **settings) -> tuple[str, ...]:
    texts = {"tests/test_app.py": ("", "def test_app(): pass\n")} | (texts or {})
    return changes_checks(counts, node, policy(**settings), lambda: before, lambda: texts, sys.stdlib_module_names)


@pytest.mark.parametrize(
    "count",
    [
        LineCount("Makefile", 1, 1),
        LineCount("sub/pyproject.toml", 1, 0),
        LineCount(".github/workflows/ci.yml", 3, 1),
        LineCount("scripts/check.sh", 1, 1),
        LineCount("tools/lint.py", 1, 1),
        LineCount("run-tests", 1, 1),
        LineCount("conf/pytest.toml", 1, 0),
        LineCount("bin/check.py", 1, 1),
        LineCount("tests/test_app.py", 3, 1),
        LineCount("tests/expected.png", None, None),
        LineCount("src/thing.test.ts", 0, 4),
        LineCount("pkg/thing_test.go", 0, 40),
        LineCount("tests/conftest.py", 2, 0),
        LineCount("conftest.py", 2, 0, new=True),
        LineCount("GNUmakefile", 2, 0, new=True),
        LineCount(".cargo/config.toml", 2, 0, new=True),
        LineCount(".mvn/jvm.config", 1, 0, new=True),
        LineCount("bunfig.toml", 2, 0, new=True),
        LineCount("pyrightconfig.json", 2, 0, new=True),
        LineCount("babel.config.cjs", 2, 0, new=True),
        LineCount(".bazelrc", 1, 0, new=True),
        LineCount("phpstan.neon", 1, 1),
        LineCount(".env", 1, 0, new=True),
    ],
    ids=lambda count: count.path,
)
def test_what_judges_the_work_counts(count):
    assert protected(count) == (count.path,)


@pytest.mark.parametrize(
    "count",
    [
        LineCount("app.py", 30, 20),
        LineCount("data.txt", 1, 1),
        LineCount("README.md", 1, 1),
        LineCount("tests/test_more.py", 30, 0, new=True),
        LineCount("tests/test_app.py", 5, 0),
        LineCount("web/package.json", 9, 0, new=True),
        LineCount("latest/news.md", 1, 1),
    ],
    ids=lambda count: count.path,
)
def test_the_work_itself_and_more_tests_do_not(count):
    assert protected(count, node=NODE) == ()


def test_lines_that_are_added_to_a_test_count_if_they_may_disable_it():
    texts = {"tests/test_app.py": ("def test_app(): pass\n", "pytestmark = 1\ndef test_app(): pass\n")}
    assert protected(LineCount("tests/test_app.py", 1, 0), texts=texts) == ("tests/test_app.py",)


def test_new_configuration_counts_only_where_there_are_tests_for_it():
    new = LineCount("pyproject.toml", 9, 0, new=True)
    assert protected(new, before=frozenset({"README.md"})) == ()
    assert protected(new) == ("pyproject.toml",)


def test_new_configuration_counts_where_a_project_may_have_its_tests_among_its_sources():
    new = LineCount(".cargo/config.toml", 2, 0, new=True)
    assert protected(new, before=frozenset({"Cargo.toml", "src/lib.rs"})) == (".cargo/config.toml",)
    assert protected(new, before=frozenset({"src/lib.rs"})) == ()


def test_the_task_may_change_what_it_declares_as_its_own():
    node = NODE.model_copy(update={"target_files": ("./tests/", "Makefile")})
    assert protected(LineCount("tests/test_app.py", 0, 9), LineCount("Makefile", 1, 1), node=node) == ()


def test_settings_add_and_except_files():
    counts = (LineCount("data/golden.json", 1, 1), LineCount("package.json", 1, 1))
    assert protected(*counts, protected_files=("data/*",), unprotected_files=("package.json",)) == ("data/golden.json",)


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/b/c.py", "a", True),
        ("a/b/c.py", "a/", True),
        ("a/b/c.py", "./a/b", True),
        ("a/b/c.py", "c.py", True),
        ("a/b/c.py", "b/c.py", True),
        ("a/b/c.py", "b/*", True),
        ("a/bc/c.py", "a/b", False),
        ("ab/c.py", "b/*", False),
    ],
)
def test_a_pattern_names_a_path_a_folder_or_a_name(path, pattern, expected):
    assert fits(path, (pattern,)) is expected


def test_the_files_of_the_base_are_asked_for_once_whatever_is_new():
    asked = []

    def before():
        asked.append("once")
        return BEFORE

    new = [LineCount(f"tests/part{number}/conftest.py", 1, 0, new=True) for number in range(3)]
    new.append(LineCount("conftest.py", 1, 0, new=True))
    assert changes_checks(new, NODE, policy(), before, dict, ()) == ("conftest.py",)
    assert asked == ["once"]


@pytest.mark.parametrize(
    "path",
    [
        *("pytest.py", "pytest/__init__.py", "pytest/__main__.py", "_pytest/__init__.py", "mypy.cpython-311.so"),
        *("json.py", "concurrent/__init__.py", "_strptime.py"),
    ],
)
def test_a_new_module_in_the_place_of_what_python_runs_counts(path):
    """`python -m` looks in its folder first: the runner of the tests would be the agent's."""
    node = NODE.model_copy(update={"verification": (".venv/bin/python -B -m pytest tests",)})
    assert protected(LineCount(path, 2, 0, new=True), node=node) == (path,)
    assert protected(LineCount(path, 2, 0, new=True), node=node.model_copy(update={"target_files": (path,)})) == ()
    assert protected(LineCount(path, 2, 0, new=True), node=NODE.model_copy(update={"criteria": ()})) == ()


@pytest.mark.parametrize(
    "path", ["guestbook/__main__.py", "app/json.py", "json.txt", "test/__init__.py", "pytest/a.py"]
)
def test_a_new_module_of_the_work_s_own_does_not(path):
    """Nor one that the document has the agent write and the task's command run."""
    node = NODE.model_copy(update={"verification": ("python3 -m guestbook --self-test",)})
    assert protected(LineCount(path, 2, 0, new=True), node=node) == ()
