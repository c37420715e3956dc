"""Which changes touch what defines the checks, and which are the task's own (R18)."""

from __future__ import annotations

import sys

import pytest

from irontree.domain.agents import AgentSpec
from irontree.domain.plan import Criterion, ExecutionPolicy, PlanNode, PublishPolicy, Shell, WorkspacePolicy
from irontree.domain.protection import Guarded, LineCount, changes_checks, fits

BEFORE = dict.fromkeys(
    ("app.py", "tests/test_app.py", "scripts/check.sh", "tools/lint.py", "Makefile", "web/README.md", "bin/check.py"),
    "",
)
NODE = PlanNode(
    task_key="greet",
    title="Greet",
    verification=("sh scripts/check.sh --all",),
    criteria=(
        Criterion(text="lints", command="python -m tools.lint app.py && test -f data.txt && grep -q new data.txt"),
    ),
)


PLAIN = NODE.model_copy(update={"verification": (), "criteria": ()})
CHECK = "CI=1 ./run-tests && pytest -c conf/pytest.toml; timeout 60 uv run python -B bin/check.py"


def policy(*, check: str = CHECK, setup: tuple[str, ...] = (), **settings) -> ExecutionPolicy:
    return ExecutionPolicy(
        agent=AgentSpec(command=("agent",)),
        checks=(Shell(name="test", run=check),),
        publish=PublishPolicy(target_branch="main"),
        workspace=WorkspacePolicy(setup=setup),
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
    assert protected(new, before={"README.md": ""}) == ()
    assert protected(new) == ("pyproject.toml",)


def test_new_configuration_counts_where_a_project_may_have_its_tests_among_its_sources():
    new = LineCount(".cargo/config.toml", 2, 0, new=True)
    assert protected(new, before={"Cargo.toml": "", "src/lib.rs": ""}) == (".cargo/config.toml",)
    assert protected(new, before={"src/lib.rs": ""}) == ()


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
    assert protected(LineCount(path, 2, 0, new=True), node=PLAIN, check="go test ./...", before={"main.go": ""}) == ()


@pytest.mark.parametrize(
    "path", ["guestbook/__main__.py", "app/json.py", "json.txt", "test/__init__.py", "pytest/a.py"]
)
def test_a_new_module_of_the_work_s_own_does_not(path):
    """Nor one that the document has the agent write and the task's command run."""
    node = NODE.model_copy(update={"verification": ("python3 -m guestbook --self-test",)})
    assert protected(LineCount(path, 2, 0, new=True), node=node) == ()


def by(check: str, count: LineCount, **settings) -> bool:
    """Whether the change of one file counts where this command is approved, and the task brings none."""
    return bool(protected(count, node=PLAIN, check=check, **settings))


@pytest.mark.parametrize(
    "count",
    [
        LineCount("tests/__init__.py", 0, 0, kept=False),
        LineCount("tests/run.sh", 0, 0, kept=False),
        LineCount("tests/test_app.py", 0, 0, kept=False),
        LineCount("scripts/check.sh", 0, 0, kept=False),
    ],
    ids=lambda count: count.path,
)
def test_a_file_that_is_gone_or_became_another_kind_counts_without_a_line(count):
    """An empty file has no line to lose; a link in the place of a test can be of the same content."""
    assert by("sh scripts/check.sh", count)


@pytest.mark.parametrize(
    "command",
    [
        "sh ci/check.sh",
        "cd ci && sh check.sh",
        "(cd ci; ./check.sh)",
        "bash -o pipefail ci/check.sh",
        "bash --rcfile tools/rc ci/check.sh",
        "timeout 60s sh ci/check.sh",
        "timeout -k 5 1m sh ci/check.sh",
        "command sh ci/check.sh",
        "flock lock sh ci/check.sh",
        "sh ci/../ci/check.sh",
        "sh ci//check.sh",
        "sh $PWD/ci/check.sh",
        'sh "$(pwd)/ci/check.sh"',
        "sh ${PWD}/ci/check.sh",
        "env -C ci sh check.sh",
        "if sh ci/check.sh; then true; else false; fi",
        "for each in ci/*.sh; do sh $each; done",
        "A=1 . ci/check.sh",
        "make -f ci/check.sh",
    ],
)
def test_a_script_is_found_however_it_is_called(command):
    files = {"ci/check.sh": "", "tools/rc": "", "README.md": "", "60s": ""}
    assert by(command, LineCount("ci/check.sh", 1, 1), before=files)
    assert not by(command, LineCount("README.md", 1, 1), before=files)


@pytest.mark.parametrize(
    "command", ["python3 -W error ci/check.py", "python3 -X dev -B ci/check.py", "uv run ci/check.py"]
)
def test_a_script_of_python_s_is_found_however_it_is_called(command):
    assert by(command, LineCount("ci/check.py", 1, 1), before={"ci/check.py": ""})


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python tools/lint.py app.py", "app.py"),
        ("grep -q run README.md", "README.md"),
        ("node tools/lint.js src/index.js", "src/index.js"),
        ("uv run pytest tests/test_app.py", "tests/test_app.py"),
    ],
)
def test_what_a_command_only_looks_at_is_the_task_s_own(command, path):
    before = {path: "", "tools/lint.py": "", "tools/lint.js": ""}
    assert not by(command, LineCount(path, 1, 0), before=before)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("make check", "check"),
        ("make -C web check", "web/check"),
        ("cd web && make check", "web/check/anything"),
        ("./run-tests", "run-tests"),
    ],
)
def test_a_new_file_that_a_command_would_take_counts(command, path):
    """Where there is a file of a target's name, make does nothing and is content."""
    assert by(command, LineCount(path, 0, 0, new=True))
    assert not by(command, LineCount("notes/check.md", 1, 0, new=True))


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python accept/run.py", "accept/subprocess.py"),
        ("cd web && python -m pytest", "web/pytest.py"),
        ("coverage run -m pytest", "pytest.py"),
        ("uv run -m pytest", "pytest/__init__.py"),
        ("python -Bm pytest", "pytest.py"),
        ("python manage.py test", "django/__init__.py"),
        ("PYTHONPATH=source pytest", "source/pytest.py"),
        ("pytest", "src/json.py"),
        ("pytest", "tests/json.py"),
        ("pytest", "tests/__init__.py"),
        ("pytest", "tests/__pycache__/test_app.cpython-311.pyc"),
        ("pytest", "evil-1.0.dist-info/entry_points.txt"),
        ("npm test", "node_modules/jest/index.js"),
        ("pytest", ".venv/bin/pytest"),
        ("pytest", "venv"),
    ],
)
def test_a_new_file_that_is_taken_in_the_place_of_what_is_installed_counts(command, path):
    assert by(command, LineCount(path, 1, 0, new=True))


def test_a_link_counts_as_the_module_that_it_is_called_by():
    assert by("python -m pytest", LineCount("pytest", 1, 0, new=True, link=True))
    assert not by("python -m pytest", LineCount("pytest", 1, 0, new=True))


def test_scripts_of_the_set_up_count():
    count = LineCount("ci/setup.sh", 1, 1)
    assert by("make check", count, before={"ci/setup.sh": ""}, setup=("sh ci/setup.sh",))
    assert not by("make check", count, before={"ci/setup.sh": ""})


def test_what_a_link_leads_to_counts_as_what_the_link_is_called():
    before = {"Makefile": "build/rules", "tests": "./build/t", "build/rules": "", "build/t/a.txt": "", "x/loop": "loop"}
    assert by("make check", LineCount("build/rules", 1, 1), before=before)
    assert by("make check", LineCount("build/t/a.txt", 1, 1), before=before)
    assert not by("make check", LineCount("build/other", 1, 1), before=before)


@pytest.mark.parametrize("path", ["tasks.py", "dodo.py"])
def test_what_is_configuration_at_the_top_of_a_project_is_none_elsewhere(path):
    assert by("make check", LineCount(path, 1, 0, new=True))
    assert not by("make check", LineCount(f"app/{path}", 1, 0, new=True))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("__pycache__/\n*.pyc\n# made\nout/\n/data/\n", False),
        ("app.py\n", True),
        ("tools/\n", True),
        ("*.py\n", True),
        ("**/lint.py\n", True),
        ("!app.py\n", True),
    ],
)
def test_a_gitignore_counts_if_its_new_lines_leave_out_what_is_there(lines, expected):
    """Checkers of style leave out what git ignores."""
    texts = {".gitignore": ("", lines)}
    assert by("make check", LineCount(".gitignore", 2, 0, new=True), texts=texts) is expected
    assert by("make check", LineCount(".gitignore", 2, 0), texts=texts) is expected
    assert by("make check", LineCount(".gitignore", 1, 1), texts=texts)


def test_a_target_file_is_that_file_and_no_other_of_its_name():
    node = PLAIN.model_copy(update={"target_files": ("utils.py",)})
    assert protected(LineCount("tests/utils.py", 1, 1), node=node) == ("tests/utils.py",)
    assert protected(LineCount("utils.py", 1, 1), node=node, protected_files=("utils.py",)) == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("conftest.py", True),
        ("sitecustomize.py", True),
        ("tests/__pycache__/test_app.cpython-311.pyc", True),
        ("pytest.py", True),
        ("pytest", True),
        ("Makefile", False),
        ("dist/index.js", False),
        ("node_modules/jest", False),
        (".coverage", False),
        ("dist/package.json", False),
    ],
)
def test_of_what_a_check_leaves_only_what_redefines_the_next_one_must_go(path, expected):
    assert Guarded(PLAIN, policy(), BEFORE, sys.stdlib_module_names).planted(path) is expected


THERE = dict.fromkeys(
    (
        *("Makefile", "README.md", "app.py", "greet", "expected.txt", "go.mod", "src/index.js", "app/__init__.py"),
        *("app/cli.py", "app/models.py", "checks/accept.py", "checks/accept.js", "checks/main.go", "checks/util.py"),
        *("scripts/accept.sh", "my checks/accept.sh", "tests/test_app.py", "tests/helpers.py", "tests/expected.json"),
        *("blog/__init__.py", "blog/tests.py", "package.json", "lib/x.rb", "sums", "notes/index.md"),
    ),
    "",
)
"""A repository of many languages."""


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python -m checks.accept", "checks/accept.py"),
        ("python -m app.cli", "app/__init__.py"),
        ("python3 app.py | diff - expected.txt", "expected.txt"),
        ("cmp out expected.txt", "expected.txt"),
        ("grep -q -f expected.txt out", "expected.txt"),
        ("sha256sum -c sums", "sums"),
        ("make --file scripts/accept.sh", "scripts/accept.sh"),
        ("python -m pytest checks/accept.py", "checks/accept.py"),
        ("python -m unittest checks.accept", "checks/accept.py"),
        ("mocha checks/accept.js", "checks/accept.js"),
        ("node checks/accept", "checks/accept.js"),
        ("node --import=./checks/accept.js src/index.js", "checks/accept.js"),
        ("go run ./checks", "checks/main.go"),
        ('sh "$PWD"/scripts/accept.sh', "scripts/accept.sh"),
        ("find scripts -name '*.sh' | xargs -n1 sh", "scripts/accept.sh"),
        ("find scripts -name '*.sh' -exec sh {} +", "scripts/accept.sh"),
        ("run-parts scripts", "scripts/accept.sh"),
        ("sh -c 'cd scripts; . ./accept.sh'", "scripts/accept.sh"),
        ("sh 'my checks/accept.sh'", "my checks/accept.sh"),
        ("sh < scripts/accept.sh", "scripts/accept.sh"),
        ("cat scripts/accept.sh | sh", "scripts/accept.sh"),
        ("for n in accept; do sh scripts/$n.sh; done", "scripts/accept.sh"),
        ("sh scripts/accept.sh | grep -q fine", "scripts/accept.sh"),
        ("sh 'scripts/accept.sh", "scripts/accept.sh"),
    ],
)
def test_what_a_command_runs_or_compares_with_counts(command, path):
    assert by(command, LineCount(path, 1, 1), before=THERE)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python3 app.py | grep -q hello", "app.py"),
        ("node src/index.js | grep -q hello", "src/index.js"),
        ("./greet | diff - expected.txt", "greet"),
        ("for f in app.py README.md; do grep -q x $f; done", "README.md"),
        ("for f in app/*.py; do python -m py_compile $f; done", "app/cli.py"),
        ("grep -q hello README.md", "README.md"),
    ],
)
def test_what_a_command_looks_at_from_outside_is_the_work(command, path):
    assert not by(command, LineCount(path, 1, 1), before=THERE)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("make check", "unit"),
        ("make", "all"),
        ("make test", "pytest.py"),
        ("tox", "src/sitecustomize.py"),
        ("make test", "pytest_timeout.py"),
        ("make test", "tests/helpers/__init__.py"),
        ("make test", "tests/test_app/__init__.py"),
        ("make test", "checks/util/__init__.py"),
        ("make test", "tests/expected.js"),
        ("node checks/accept.js", "checks/util.js"),
        ("make test", "app/models.cpython-311-x86_64-linux-gnu.so"),
        ("go test ./...", "vendor/modules.txt"),
        ("npm test", "package-lock.json"),
        ("npm test", "requirements.txt"),
        ("npm test", "CLAUDE.md"),
        ("npm test", ".claude/settings.json"),
        ("make test", "scripts/.gitattributes"),
        ("make test", ".mypy_cache/3.11/app.meta.json"),
        ('PATH="$PWD/bin:$PATH" ./greet | grep -q hello', "bin/grep"),
        ("export PATH=bin:$PATH; greet", "bin/greet"),
        ("env PYTHONPATH=source python3 checks/accept.py", "source/json.py"),
        ("pytest checks/accept.py", "checks/conftest.py"),
    ],
)
def test_a_new_file_that_goes_before_what_was_there_counts(command, path):
    before = THERE | ({"checks/util.json": ""} if path == "checks/util.js" else {})
    assert by(command, LineCount(path, 1, 0, new=True), before=before)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("make test", "tests/test_more.py"),
        ("make notes", "notes/guide.md"),
        ("make -C app test", "app/new.py"),
        ("just build", "build/x"),
        ("make test", "LICENSE"),
        ("make test", "blog/types.py"),
        ("make test", "blog/calendar.py"),
        ("make test", "app/email.py"),
        ("make test", "app/new/__init__.py"),
        ("make test", "data.toml"),
        ("make test", "alembic.ini"),
        ("make test", "Dockerfile"),
        ("make test", "compose.yml"),
        ("make test", ".readthedocs.yaml"),
        ("npm test", "src/button.js"),
        ("npm test", "src/index.ts"),
    ],
)
def test_honest_new_files_have_nobody_asked(command, path):
    assert not by(command, LineCount(path, 1, 0, new=True), before=THERE)


def test_a_module_that_becomes_a_package_is_no_second_one():
    package, module = LineCount("app/models/__init__.py", 9, 0, new=True), LineCount("app/models.py", 0, 9, kept=False)
    assert by("make test", package, before=THERE)
    assert protected(package, module, node=PLAIN, check="make test", before=THERE) == ()
