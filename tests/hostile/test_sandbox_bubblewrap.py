"""What a program tries from inside bubblewrap; without it, each of these reaches its goal."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from irontree.domain.places import OPEN
from irontree.processes.children import ChildProcesses
from irontree.processes.family import SHELL
from tests.support.containers import bubblewrap_place
from tests.support.nobody import as_nobody, needs_root
from tests.support.processes import AMPLE, MemoryRegistry

SECRET = "what-nobody-may-have"
CLOSED = Path("/etc/shadow")
has_closed_file = pytest.mark.skipif(not CLOSED.exists(), reason="there is no such file here")
PYTHON = shlex.quote(os.path.realpath(sys.executable))


class Stage:
    """A user's home, a workspace below it, and a program that runs in the one place or the other."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = self.home / ".cache" / "irontree" / "workspaces" / "run"
        self.workspace.mkdir(parents=True)
        self.registry = MemoryRegistry()

    def keep(self, name: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
        return path

    def run(self, script: str, *, confined: bool = True, shown: dict[str, object] | None = None, **variables: str):
        spec = bubblewrap_place(**(shown or {})).spec if confined else OPEN
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **variables}
        children = ChildProcesses(self.registry, grace_seconds=0.5, environment=os.environ)
        return children.within(spec).run(
            [SHELL, "-c", script], cwd=self.workspace, environment=environment, limits=AMPLE
        )


@pytest.fixture
def stage(home_folder):
    return Stage(home_folder)


@pytest.mark.parametrize(
    "name",
    [
        *(".ssh/id_ed25519", ".gnupg/private-keys-v1.d/key", ".config/gh/hosts.yml", ".netrc", ".git-credentials"),
        *(".local/share/keyrings/login.keyring", ".local/state/irontree/server.db", "project/.mino/config.yml"),
        *(".cache/irontree/workspaces/other/file", ".cargo/credentials.toml", ".npmrc", ".docker/config.json"),
    ],
)
def test_a_file_of_the_user_cannot_be_read(stage, name):
    path = stage.keep(name)
    assert SECRET in stage.run(f"cat '{path}'", confined=False).output
    done = stage.run(f"cat '{path}'; true")
    assert done.ok
    assert SECRET not in done.output


def test_what_is_named_can_be_read_and_not_changed_or_changed(stage):
    read, write = stage.keep("data/file"), stage.keep("cache/file")
    shown = {"read": ("~/data",), "write": ("~/cache", "~/not-there")}
    done = stage.run("cat ~/data/file; echo x > ~/data/file || echo refused; echo mine > ~/cache/file", shown=shown)
    assert SECRET in done.output
    assert "refused" in done.output
    assert (read.read_text(), write.read_text()) == (SECRET, "mine\n")


def test_a_toolchain_that_a_variable_names_can_be_read_unless_it_is_the_home(stage):
    kept = stage.keep("work/sdk/file")
    assert SECRET in stage.run('cat "$SDKROOT/file"', SDKROOT=str(kept.parent)).output
    assert SECRET not in stage.run(f"cat '{kept}'", SDKROOT=str(stage.home)).output


def test_what_the_shims_of_a_version_manager_call_can_be_read(stage):
    """Such a manager is a clone of git, as often as not."""
    called = stage.keep("manager/libexec/manager")
    manager = called.parents[1]
    for name in ("shims", "versions", ".git"):
        (manager / name).mkdir()
    assert SECRET in stage.run(f"cat '{called}'", PATH=f"{manager}/shims:/usr/bin:/bin").output


def test_of_a_package_managers_home_the_programs_are_shown_and_neither_log_ins_nor_caches(stage):
    login, tool = stage.keep("crates/credentials.toml"), stage.keep("crates/bin/tool")
    tool.write_text("a tool")
    variables = {"CARGO_HOME": str(login.parent)}
    look = f"echo \"[$CARGO_HOME]\"; cat '{tool}' '{login}'"
    said = stage.run(look, **variables).output
    assert "[]" in said
    assert "a tool" in said
    assert SECRET not in said
    said = stage.run(look, shown={"write": ("~/crates",)}, **variables).output
    assert f"[{login.parent}]" in said
    assert SECRET in said


def test_of_a_script_that_the_command_names_nothing_else_is_shown(stage):
    script, secret = stage.keep("agents/agent.sh"), stage.keep("agents/key")
    script.write_text(f"echo begins; cat '{secret}'")
    place = bubblewrap_place()
    environment = {"PATH": os.environ["PATH"], "HOME": str(stage.home)}
    done = place.children().run(["sh", str(script)], cwd=stage.workspace, environment=environment, limits=AMPLE)
    assert "begins" in done.output
    assert SECRET not in done.output


def test_nothing_is_written_outside_of_the_workspace(stage, tmp_path):
    beside = tmp_path / "beside"
    words = (
        f"echo x > '{beside}'; echo x > ~/.profile; ln -s '{tmp_path}' out; echo x > out/linked;"
        f" echo x > /tmp/there-{os.getpid()}; echo x > /etc/x; echo x > /usr/x; echo x > /x; echo mine > made"
    )
    stage.run(words)
    assert not beside.exists()
    assert not (tmp_path / "linked").exists()
    assert not (stage.home / ".profile").exists()
    assert not any(Path(path).exists() for path in ("/etc/x", "/usr/x", "/x", f"/tmp/there-{os.getpid()}"))
    assert (stage.workspace / "made").read_text() == "mine\n"


def test_no_process_of_ours_can_be_seen_or_signalled(stage):
    look = "for each in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $each; done 2>/dev/null; true"
    other = subprocess.Popen(["sleep", "60"], env={"OURS": SECRET})
    try:
        until = time.monotonic() + 10
        while SECRET not in (said := stage.run(look, confined=False).output) and time.monotonic() < until:
            time.sleep(0.05)
        assert SECRET in said
        done = stage.run(f"{look}; kill -9 {other.pid}")
        assert SECRET not in done.output
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_sockets_of_the_system_and_of_the_desktop_are_not_there(stage):
    names = (
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
    )
    done = stage.run("env; ls -A /run /var/run/ | grep -v :", **dict.fromkeys(names, SECRET))
    assert SECRET not in done.output
    assert "docker.sock" not in done.output
    assert "dbus" not in done.output


def test_a_socket_in_a_folder_cannot_be_reached_whoever_says_where_it_is(stage, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        path = tmp_path / "docker.sock"
        listener.bind(str(path))
        listener.listen()
        connect = f"{PYTHON} -c \"import socket; socket.socket(socket.AF_UNIX).connect('{path}'); print('reached')\""
        assert "reached" in stage.run(connect, confined=False).output
        assert "reached" not in stage.run(connect).output


def test_without_network_neither_loopback_nor_abstract_sockets_are_reached(stage):
    with socket.socket() as server, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(("127.0.0.1", 0))
        server.listen()
        name = f"irontree-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        port = server.getsockname()[1]
        reach = (
            f"{PYTHON} -c \"import socket; socket.create_connection(('127.0.0.1', {port})); print('lo')\";"
            f"{PYTHON} -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\\\0{name}'); print('abstract')\""
        )
        assert {"lo", "abstract"} <= set(stage.run(reach, confined=False).output.split())
        assert not {"lo", "abstract"} & set(stage.run(reach, shown={"network": False}).output.split())


def test_a_program_has_no_capability_even_if_root_starts_it(stage):
    [line] = [each for each in stage.run("cat /proc/self/status").output.splitlines() if each.startswith("CapEff")]
    assert int(line.split()[1], 16) == 0


def test_what_only_root_may_read_stays_unread(stage):
    done = stage.run("cat /etc/shadow && [ -s /etc/shadow ] && echo read; ls -A /etc/ssl/private; cat /etc/ssh/*key")
    assert "read" not in done.output.split()
    assert "key" not in done.output.replace("/etc/ssh/*key", "")
    assert "KEY" not in done.output


def test_of_the_system_a_program_reads_what_everybody_may_read_and_no_more(stage):
    """Root's files are its own, and a user's groups are its groups."""
    found = [Path(folder) / name for folder, _, names in os.walk("/etc") for name in names]
    closed = [
        path for path in found if not path.is_symlink() and path.stat().st_size and not path.stat().st_mode & 0o004
    ]
    if not closed:
        pytest.skip("there is no such file here")
    read = stage.run(f"cat {' '.join(shlex.quote(str(path)) for path in closed)} 2> /dev/null; true")
    assert read.ok
    assert read.output == ""
    assert stage.run("cat /etc/passwd").ok


@has_closed_file
@needs_root
def test_what_is_hidden_is_shown_where_it_is_named(stage):
    secret = CLOSED.read_text()
    assert stage.run(f"cat {CLOSED}", shown={"read": (str(CLOSED),)}).output == secret


@has_closed_file
@needs_root
def test_what_a_user_may_read_by_a_group_alone_is_not_shown():
    """The group of shadowed passwords stands for those that read logs or keys."""
    place, group = bubblewrap_place().spec, CLOSED.stat().st_gid

    def work(folder: Path) -> None:
        children = ChildProcesses(MemoryRegistry(), environment=os.environ).within(place)
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        secret = CLOSED.read_text()
        done = children.run(["cat", str(CLOSED)], cwd=folder, environment=environment, limits=AMPLE)
        assert done.ended == "exited"
        assert secret not in done.output

    as_nobody(work, group)


@pytest.mark.parametrize("confined", [True, False])
def test_nothing_survives_its_end_by_any_way_of_leaving(stage, confined):
    """It has no parent of ours, no session, no group and no environment by which it could be known."""
    beat = stage.workspace / "beat"
    survivor = "while :; do echo alive > beat; sleep 0.1; done"
    words = f"setsid env -i sh -c '({survivor}) & ' > /dev/null 2>&1; while [ ! -e beat ]; do sleep 0.05; done"
    assert stage.run(words, confined=confined).ok
    beat.unlink(missing_ok=True)
    time.sleep(0.5)
    assert not beat.exists()
    assert not stage.registry.recorded()


def test_a_programs_words_are_no_options_of_bubblewrap(stage):
    place = bubblewrap_place()
    words = ["sh", "-c", 'echo "$@"', "--bind", "/", "/"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(stage.home)}
    done = place.children().run(words, cwd=stage.workspace, environment=environment, limits=AMPLE)
    assert done.output == "/ /\n"


def test_no_value_of_a_variable_is_on_a_command_line(stage):
    """Everybody may read it there."""
    done = stage.run("true", KEY=SECRET)
    assert done.ok
    assert SECRET not in json.dumps([child.command for child in stage.registry.history])
