"""The token of a forge: on no command line, and in no environment but that of the process that calls the forge."""

from __future__ import annotations

import os
import queue
import sys
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.errors import RemoteFailed
from irontree.files import ALIVE
from irontree.flows.server import programs
from irontree.flows.server.private import LocalServer
from irontree.forges.credentials import APP, GITEA_TOKENS, GITHUB_TOKENS
from irontree.processes.containers import (
    CREDENTIALS,
    FORGE_VARIABLES,
    credentials_in,
    given_environment,
    without_credentials,
)
from irontree.processes.handing import handing
from irontree.processes.running import capture
from irontree.repository import open_repository
from irontree.store.layout import create
from tests.support.processes import children
from tests.support.repositories import git

TOKEN = "very-secret-4711"
CALLER = {"PATH": "/usr/bin:/bin", **dict.fromkeys(FORGE_VARIABLES, TOKEN)}
WITNESS = """\
#!/bin/sh
# Stands for git-remote-https: tells what every process of the command shows of itself, and what login git finds.
for seen in $$ $PPID $(awk '{print $4}' /proc/$PPID/stat); do
  tr '\\0' '\\n' < /proc/$seen/cmdline >> "$SEEN/shown"
  tr '\\0' '\\n' < /proc/$seen/environ >> "$SEEN/shown"
done
printf 'protocol=fake\\nhost=forge.example:8443\\n\\n' | git credential fill >> "$SEEN/found" 2>&1
printf 'protocol=https\\nhost=elsewhere.example\\n\\n' | git credential fill >> "$SEEN/elsewhere" 2>&1
exit 1
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def caller(tmp_path) -> dict[str, str]:
    """Somebody with a token, and a remote helper that looks around."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git-remote-fake", "git-remote-https"):
        (tools / name).write_text(WITNESS)
        (tools / name).chmod(0o755)
    path = f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin"
    return CALLER | {"PATH": path, "SEEN": str(tmp_path), "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}


def reach(tmp_path: Path, caller: dict[str, str], url: str, *settings: tuple[str, str]) -> None:
    """Have a repository with this remote fetch from it, which fails."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--quiet")
    git(root, "remote", "add", "origin", url)
    for name, value in settings:
        git(root, "config", name, value)
    repository = open_repository(root, children(), tmp_path / "cache", tmp_path / "state", caller)
    with pytest.raises(RemoteFailed) as failed:
        repository.base(PublishPolicy(remote="origin", target_branch="main"))
    assert TOKEN not in failed.value.message


def test_a_login_in_a_remotes_address_reaches_git_by_our_helper_and_is_shown_nowhere(tmp_path, caller):
    reach(tmp_path, caller, f"fake://ada:{TOKEN}@forge.example:8443/a/b.git")
    shown = (tmp_path / "shown").read_text()
    assert "fake://forge.example:8443/a/b.git" in shown
    assert TOKEN not in shown
    found = (tmp_path / "found").read_text()
    assert f"username=ada\npassword={TOKEN}\n" in found
    assert TOKEN not in (tmp_path / "elsewhere").read_text()


def test_a_login_that_a_rule_adds_to_the_address_is_shown_no_more_than_one_that_is_in_it(tmp_path, caller):
    rule = (f"url.fake://ada:{TOKEN}@forge.example:8443/.insteadOf", "fake://forge.example:8443/")
    reach(tmp_path, caller, "fake://forge.example:8443/a/b.git", rule)
    assert TOKEN not in (tmp_path / "shown").read_text()
    assert f"password={TOKEN}\n" in (tmp_path / "found").read_text()


def test_a_helper_of_the_user_is_not_asked_where_the_address_has_the_login(tmp_path, caller):
    other = ("credential.helper", "!echo username=eve; echo password=wrong;")
    reach(tmp_path, caller, f"fake://ada:{TOKEN}@forge.example:8443/a/b.git", other)
    assert "eve" not in (tmp_path / "found").read_text()


def test_git_gets_no_token_of_the_callers_environment(tmp_path, caller):
    reach(tmp_path, caller, "fake://forge.example:8443/a/b.git")
    assert TOKEN not in (tmp_path / "shown").read_text()
    assert TOKEN not in (tmp_path / "found").read_text()


def test_neither_the_server_nor_a_worker_is_started_with_it(tmp_path):
    """The private server through its start function; the program that serves flows is started by the same."""
    started: queue.Queue[programs.Program] = queue.Queue()

    def start(module, words, **given):
        # A program that only waits, in place of the server; everything else is as it is for that.
        assert module == "irontree.flows.server.private"
        assert TOKEN not in " ".join(words)
        program = programs.start("code", [], **given, talk=True)
        started.put(program)
        return program

    with closing(LocalServer(tmp_path / "state", CALLER, start=start).start()), started.get(timeout=30) as program:
        program.stdin.write(b"print('here')\n")
        program.stdin.flush()
        assert program.stdout.readline().endswith(b"here\n")  # the kernel shows no environment until it runs
        shown = Path(f"/proc/{program.pid}/environ").read_bytes()
        program.kill()
    assert b"PATH=" in shown
    assert TOKEN.encode() not in shown


def test_a_process_of_ours_gets_it_from_its_runner_as_long_as_that_lives():
    with handing(lambda _: b'{"GITEA_TOKEN": "%s"}' % TOKEN.encode()) as path:
        told = {CREDENTIALS: str(path), "PATH": "/bin"}
        assert given_environment(told) == {**told, "GITEA_TOKEN": TOKEN}
        assert path.parent.stat().st_mode & 0o777 == 0o700
        child = [sys.executable, "-c", "from irontree.processes.containers import *; print(given_environment())"]
        assert TOKEN in capture(child, cwd=Path("/"), environment=told, seconds=20).stdout.decode()
    assert given_environment(told) == told
    assert not path.parent.exists()


def test_every_variable_in_which_a_credential_is_looked_for_is_kept_back():
    assert {*GITEA_TOKENS, *GITHUB_TOKENS, APP} <= FORGE_VARIABLES
    assert credentials_in(without_credentials(CALLER)) == {}


def test_a_long_folder_for_temporary_files_has_no_room_for_a_socket_and_is_not_used(tmp_path):
    """...and repair looks for what a kill left in the other one too."""
    long, left = tmp_path / ("x" * 100), Path(mkdtemp(prefix="irontree-handing-", dir="/tmp"))
    long.mkdir()
    (left / ALIVE).touch()
    os.utime(left, (0, 0))
    create(tmp_path)
    does = (
        "from irontree.processes.handing import *\n"
        "from irontree.store.documents import FileUpkeep\n"
        "with handing(lambda said: said) as path: print(ask(str(path), b'hello'))\n"
        f"FileUpkeep(Path({str(tmp_path)!r})).remove_leftovers()"
    )
    told = capture([sys.executable, "-c", does], cwd=Path("/"), environment={"TMPDIR": str(long)}, seconds=20)
    assert (told.stdout, told.stderr) == (b"b'hello'\n", b"")
    assert not left.exists()


def test_a_process_without_a_runner_of_ours_has_what_its_environment_says():
    assert given_environment(CALLER) == CALLER
