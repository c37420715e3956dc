"""The verbs, and the one error boundary."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from irontree import __version__
from irontree.cli.console import Console
from irontree.cli.main import FORMER, GROUPS, PAGES, VERBS, guard, help_text, keep_owners_rights, main, verb_parser
from irontree.cli.parser import UsageError
from irontree.errors import Busy, Cancelled


def guarded(work, *words: str, as_json: bool = False) -> tuple[int, str]:
    err = io.StringIO()
    return guard(work, words, Console(io.StringIO(), err, json=as_json)), err.getvalue()


def raising(error: BaseException):
    def work() -> int:
        raise error

    return work


@pytest.mark.parametrize("words", [[], ["--help"], ["help"], ["help", "help"]])
def test_the_first_page_has_ten_verbs_the_decisions_in_one_line_and_where_the_rest_is(words, capsys):
    assert main(words) == 0
    page = capsys.readouterr().out
    assert re.findall(r"^  ([a-z]+) ", page, re.MULTILINE) == (
        ["demo", "init", "task", "status", "answer", "stop", "resume", "show", "serve", "ui"]
    )
    assert page.count("accept|reject|retry|skip ISSUE") == 1
    assert ("`irontree help more`" in page, "`irontree help plumbing`" in page) == (True, True)


@pytest.mark.parametrize("group", PAGES)
def test_the_others_have_pages_of_their_own(group, capsys):
    assert main(["help", group]) == 0
    page = capsys.readouterr().out
    assert re.findall(r"^  ([a-z]+) ", page, re.MULTILINE) == list(GROUPS[group])


def test_every_verb_is_in_one_group_alone():
    assert sum(len(verbs) for verbs in GROUPS.values()) == len(VERBS)
    assert not VERBS.keys() & FORMER.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_is_what_the_verb_says_of_itself(verb, capsys):
    assert main(["help", verb]) == main([verb, "--help"]) == main(["--help", verb]) == 0
    first, *others = capsys.readouterr().out.split(f"usage: irontree {verb} ")[1:]
    assert others == [first, first]


def test_help_of_what_there_is_not_names_what_is_near(capsys):
    assert main(["help", "stauts"]) == 2
    assert "did you mean `irontree status`?" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "now"), FORMER.items())
def test_a_former_verb_says_on_stderr_what_it_is_now(verb, now, capsys):
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr()
    assert shown.err == f"`irontree {verb}` is now `irontree {' '.join(now)}`\n"
    assert shown.out == help_text(now[0]) == help_text(verb)
    assert main([verb, "--bogus", "--json"]) == 2
    shown = capsys.readouterr()
    assert (shown.out, json.loads(shown.err)["error"]["kind"]) == ("", "usage")


def test_options_stand_before_the_verb_too(tmp_path, capsys):
    assert main(["--json", "-C", str(tmp_path), "config", "schema"]) == 0
    assert "properties" in json.loads(capsys.readouterr().out)
    assert main(["--format", "dot", "-C", str(tmp_path), "graph"]) == 1
    assert "not a git repository" in capsys.readouterr().err
    assert main(["--loud", "status"]) == 2
    assert "unrecognized arguments: --loud" in capsys.readouterr().err
    assert main(["--loud"]) == 2
    assert "unrecognized arguments: --loud" in capsys.readouterr().err


def test_it_tells_its_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"irontree {__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_help(verb, capsys):
    assert main([verb, "--help"]) == 0
    assert f"usage: irontree {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_no_option_is_understood_by_its_beginning(verb):
    assert not verb_parser(verb).allow_abbrev


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stauts"], "there is no verb 'stauts'; did you mean `irontree status`?"),
        (["fly"], "there is no verb 'fly'"),
        (["task", "SPEC.md", "--pln"], "unrecognized arguments: --pln; did you mean --plan?"),
        (["checkup", "rejct", "3", "no"], "; did you mean reject?"),
        (["show"], "the following arguments are required: ISSUE"),
        (["show", "1", "--why", "--diff"], "one of --why, --diff at a time"),
        (["status", "a-loop"], "irontree status --loops a-loop"),
        (["status", "--loops", "--watch"], "leave --loops out"),
        (["reject", "1"], "reject needs a note"),
        (["reject", "1", "--note", " "], "reject needs a note"),
        (["move", "export", "x.tar", "--trust"], "belong to move import"),
        (["resume", "--json"], "--json goes with --what-if"),
        (["completion"], "name the shell"),
        (["config", "get"], "config get needs the name of a setting"),
        (["config", "set", "run.max_retry_count"], "config set needs a value"),
        (["config", "explain", "agent", "x"], "config explain takes no value"),
        (["config", "schema", "agent"], "is of all settings"),
        (["status", "--loud"], "unrecognized arguments: --loud"),
        (["run", "issue-1", "--wait", "soon"], "'soon' is not a number of seconds"),
        (["run", "issue-1", "--wait", "-1"], "'-1' is not a number of seconds"),
        (["run", "issue-1", "--wait", "nan"], "'nan' is not a number of seconds"),
        (["graph", "--format", "jpeg"], "invalid choice: 'jpeg'"),
        (["checkup", "levitate"], "invalid choice: 'levitate'"),
        (["checkup", "accept"], "checkup accept needs an issue"),
        (["checkup", "reject", "issue-1"], "checkup reject needs a note"),
        (["checkup", "reject", "issue-1", " "], "checkup reject needs a note"),
        (["checkup", "finalize", "issue-1", "nice"], "checkup finalize takes no note"),
        (["checkup", "check", "issue-1"], "checkup check looks at all issues"),
        (["checkup", "accept", "issue-1", "--retry", "2"], "belong to checkup unblock"),
        (["checkup", "unblock", "issue-1", "--retry", "0"], "'0' is not a whole number above zero"),
        (
            ["checkup", "unblock", "issue-1", "--retry", "1", "--verify"],
            "one of --retry, --verify, --allow and --approve",
        ),
    ],
)
def test_a_command_line_that_cannot_be_understood_is_exit_code_2(words, said, capsys):
    assert main(words) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


def test_wrong_usage_is_json_too_when_json_was_asked_for(capsys):
    assert main(["show", "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["kind"] == "usage"
    assert "ISSUE" in error["message"]
    assert error["usage"].startswith("usage: irontree show")


def test_what_is_refused_is_exit_code_1():
    code, said = guarded(raising(Busy("busy: issue-3", remedy="wait")))
    assert (code, said) == (1, "irontree: busy: issue-3\n  -> wait\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Cancelled("verification of issue-3 was stopped")])
def test_an_interruption_is_exit_code_130_and_no_traceback(error):
    code, said = guarded(raising(error))
    assert code == 130
    assert len(said.splitlines()) == 1


def test_a_full_disk_is_the_machines_trouble_and_not_a_bug():
    code, said = guarded(raising(OSError(errno.ENOSPC, "No space left on device", "/repo/.mino/events")))
    assert code == 1
    assert said.startswith("irontree: /repo/.mino/events: No space left on device")


@pytest.mark.parametrize("code", [errno.ENOTDIR, errno.EISDIR, errno.EEXIST])
def test_a_file_where_a_folder_has_to_be_is_the_machines_trouble_too(code):
    """`HOME`, or an `XDG_…` variable, may name one."""
    ended, said = guarded(raising(OSError(code, "in the way", "/home/ada")))
    assert ended == 1
    assert said == "irontree: /home/ada: in the way\n  -> move what is there away, or see HOME and XDG_*\n"


def test_what_is_in_the_way_of_a_folder_is_named_and_not_the_file_in_it(tmp_path):
    in_the_way = tmp_path / "reports"
    in_the_way.touch()
    ended, said = guarded(raising(OSError(errno.ENOTDIR, "Not a directory", str(in_the_way / "issue-1" / "x.yml"))))
    assert ended == 1
    assert said.startswith(f"irontree: {in_the_way}: not a folder, and one has to be there\n")


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_few_open_files_are_the_machines_trouble_too(code):
    ended, said = guarded(raising(OSError(code, "Too many open files")))
    assert ended == 1
    assert "allow more open files (`ulimit -n`)" in said


def test_a_closed_pipe_is_passed_on():
    with pytest.raises(BrokenPipeError):
        guarded(raising(BrokenPipeError()))


def test_usage_errors_of_verbs_are_exit_code_2():
    code, said = guarded(raising(UsageError("no", "usage: irontree show\n")))
    assert (code, said) == (2, "usage: irontree show\nirontree: no\n")


def test_a_bug_is_exit_code_3_with_a_report_and_no_traceback(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("GITHUB_TOKEN", "abcdefgh12345678")
    error = ZeroDivisionError("division by abcdefgh12345678")
    code, said = guarded(raising(error), "run", "issue-1", "--token=hush", "https://me:pass@host/x", as_json=True)
    told = json.loads(said)["error"]
    assert (code, told["kind"]) == (3, "bug")
    [report] = tmp_path.rglob("bug-*.txt")
    assert told["report"] == str(report)
    text = report.read_text()
    assert "command: irontree run issue-1 --token=*** https://***@host/x" in text
    assert "Traceback" in text
    assert "in work" in text
    assert f"irontree {__version__}" in text
    assert not [secret for secret in ("abcdefgh12345678", "hush", "pass@") if secret in text]


def test_a_bug_report_has_no_token_that_is_hidden_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("MY_PASSPHRASE", "correct-horse")
    monkeypatch.setenv("BASIC_AUTH", "battery-staple")
    token = f"glsa_{'a1' * 16}_0123abcd"
    guarded(raising(ValueError(f"it said {{'a': '\\n{token}'}} correct-horse battery-staple")))
    [report] = tmp_path.rglob("bug-*.txt")
    assert "it said" in (text := report.read_text())
    assert not [secret for secret in (token, "correct-horse", "battery-staple") if secret in text]


def test_a_bug_report_has_a_place_even_without_a_state_folder(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocked))
    code, said = guarded(raising(ZeroDivisionError("x")))
    assert code == 3
    assert "Traceback" not in said
    [report] = re.findall(r"\S+/bug-\S+\.txt", said)
    assert "Traceback" in Path(report).read_text()
    Path(report).unlink()


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_reason_to_fail_and_nothing_else_takes_their_place(closed):
    """A shell closes them so; what was to be said there is lost, as asked."""
    command = f'"{sys.executable}" -m irontree --version {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("given", "in_force"), [(0o777, 0o077), (0o277, 0o077), (0o027, 0o027)])
def test_a_umask_that_takes_the_owners_rights_is_not_followed_in_that(given, in_force):
    """Files of the log that their owner cannot read would be lost to the next command."""
    before = os.umask(given)
    try:
        keep_owners_rights()
        assert os.umask(0o077) == in_force
    finally:
        os.umask(before)
