"""Scripts for the shell, of the verbs and options that there are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from irontree.cli.completion import KINDS, SHELLS, whole_parser, words_of
from irontree.cli.main import VERBS, main


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_is_in_the_script_of_each_shell(shell, capsys, tmp_path):
    assert main(["-C", str(tmp_path), "completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS)
    assert "--approve" in script


def test_bash_completes_verbs_and_their_options(capsys, tmp_path):
    bash = shutil.which("bash") or pytest.skip("there is no bash here")
    main(["completion", "bash"])
    script = tmp_path / "irontree.bash"
    script.write_text(capsys.readouterr().out)
    ask = """
    source "$0"
    typed() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_irontree; echo "${COMPREPLY[@]}"; }
    typed irontree stat
    typed irontree checkup --wa
    """
    done = subprocess.run([bash, "--norc", "-c", ask, script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["status", "--wait"]


def words(kind: str, folder: Path) -> list[str]:
    return list(words_of(kind, folder))


@pytest.fixture
def repository(tmp_path) -> Path:
    state = tmp_path / "project" / ".mino"
    for name in ("events/issue-2", "events/issue-10", "events/other", "loops", "sub"):
        (state / name).mkdir(parents=True)
    for loop in ("2026-01-01-1200-aaaaaa", "2026-02-01-1200-bbbbbb"):
        (state / "loops" / f"{loop}.yml").touch()
    (state / "config.yml").write_text("verify:\n  commands: [{name: tests, run: make}, {name: lint, run: x}]\n")
    return state.parent


@pytest.mark.parametrize("name", ["$(touch pwned)", "`touch pwned`", "${x:=$(touch pwned)}", "a b", "-x", "a;b"])
def test_a_name_that_a_shell_would_do_something_with_is_no_word(repository, name):
    """`compgen -W` expands its words: the repository of a stranger would run a program with a Tab."""
    (repository / ".mino" / "config.yml").write_text(f"verify:\n  commands: [{{name: '{name}', run: x}}, plain-1.x]\n")
    (repository / ".mino" / "loops" / f"{name}.yml").touch()
    assert words("checks", repository) == ["plain-1.x"]
    assert words("loops", repository) == ["2026-02-01-1200-bbbbbb", "2026-01-01-1200-aaaaaa"]


def test_the_words_of_a_repository_are_read_from_its_files(repository):
    inside = repository / ".mino" / "sub"
    assert words("issues", inside) == ["2", "10"]
    assert words("loops", repository) == ["2026-02-01-1200-bbbbbb", "2026-01-01-1200-aaaaaa"]
    assert words("either", repository) == [*words("issues", repository), *words("loops", repository)]
    assert words("checks", repository) == ["tests", "lint"]
    assert "run.max_retry_count" in words("settings", repository)


@pytest.mark.parametrize("kind", KINDS)
def test_where_there_is_nothing_to_read_there_are_no_words(kind, tmp_path, capsys):
    assert main(["-C", str(tmp_path), "completion", "--words", kind]) == 0
    assert capsys.readouterr() == ("", "")
    (tmp_path / ".mino").mkdir()
    (tmp_path / ".mino" / "config.yml").write_text("no: [")
    assert words(kind, tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_shell_asks_for_at_a_key_press_imports_nothing_heavy(kind, repository):
    script = (
        "import sys; from irontree.cli.main import main; main(sys.argv[1:]); "
        "print(*{'prefect', 'git', 'rich', 'jinja2', 'shtab', 'httpx'} & set(sys.modules), file=sys.stderr)"
    )
    asked = [sys.executable, "-c", script, "-C", str(repository), "completion", "--words", kind]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stderr == "\n"


def test_every_argument_that_names_an_issue_a_loop_or_a_check_is_completed():
    completed = {
        verb: [action.dest for action in parser._actions if hasattr(action, "complete") and action.dest != "folder"]
        for verb, parser in parsers()
    }
    assert completed["show"] == completed["accept"] == completed["run"] == ["issue"]
    assert completed["resume"] == completed["stop"] == completed["status"] == ["loop_id"]
    assert (completed["doctor"], completed["config"], completed["answer"]) == (["run"], ["name"], ["asked"])


def parsers():
    [verbs] = [action for action in whole_parser()._actions if action.choices]
    return verbs.choices.items()


def test_bash_asks_the_program_for_the_words_of_the_repository(capsys, tmp_path, repository):
    bash = shutil.which("bash") or pytest.skip("there is no bash here")
    main(["completion", "bash"])
    script = tmp_path / "irontree.bash"
    script.write_text(capsys.readouterr().out)
    program = tmp_path / "bin" / "irontree"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m irontree "$@"\n')
    program.chmod(0o755)
    ask = """
    PATH="$1:$PATH"; source "$0"
    typed() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_irontree; echo "${COMPREPLY[@]}"; }
    typed irontree accept ""
    typed irontree show 1
    typed irontree resume 2026-02
    typed irontree doctor --run t
    typed irontree config get run.max
    typed irontree help plu
    """
    words = [bash, "--norc", "-c", ask, script, program.parent]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=repository)
    assert done.stdout.splitlines() == [
        "2 10",
        "10",
        "2026-02-01-1200-bbbbbb",
        "tests",
        "run.max_retry_count",
        "plumbing",
    ]


def test_zsh_reads_its_script(capsys, tmp_path):
    zsh = shutil.which("zsh") or pytest.skip("there is no zsh here")
    main(["completion", "zsh"])
    script = tmp_path / "_irontree"
    script.write_text(capsys.readouterr().out)
    subprocess.run([zsh, "-n", script], check=True)


def test_a_description_for_people_is_in_every_verb():
    assert whole_parser().format_help().count("\n") > len(VERBS)


def test_documents_archives_and_folders_are_completed(capsys, tmp_path):
    bash = shutil.which("bash") or pytest.skip("there is no bash here")
    main(["completion", "bash"])
    script = tmp_path / "irontree.bash"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "SPEC.md").touch()
    ask = """
    source "$0"
    typed() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_irontree; echo "${COMPREPLY[@]}"; }
    typed irontree task SP
    typed irontree move import SP
    """
    done = subprocess.run([bash, "--norc", "-c", ask, script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == ["SPEC.md", "SPEC.md"]
