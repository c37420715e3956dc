"""Scripts for the shell, of the verbs and options that there are."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from irontree.cli.config import SHELLS, whole_parser
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
    typed irontree import SP
    """
    done = subprocess.run([bash, "--norc", "-c", ask, script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == ["SPEC.md", "SPEC.md"]
