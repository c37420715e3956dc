"""Where programs run, on the machine or in containers: what each of the places keeps (R3, R4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from irontree.domain.child import Child
from irontree.errors import EnvironmentRefused
from irontree.processes.containers import Engine, container_name
from irontree.processes.family import ProcessLimits
from tests.support.containers import ABSENT, Place, bubblewrap_place, fake_place, real_place
from tests.support.processes import AMPLE, MemoryRegistry

PATIENCE = 60
SECRET = "a-key-that-nobody-may-see"
DRIVER = """
import dataclasses, json, os, sys
from pathlib import Path
from irontree.domain.places import PlaceSpec
from irontree.processes.children import ChildProcesses
from irontree.processes.family import ProcessLimits

class FileRegistry:
    def record(self, child):
        Path("registry.json").write_text(json.dumps(dataclasses.asdict(child)))
    def forget(self, pid): pass
    def recorded(self): return ()

place = PlaceSpec.model_validate_json(sys.argv[2])
ChildProcesses(FileRegistry(), environment=os.environ).within(place).run(
    ["sh", "-c", sys.argv[1]], cwd=Path.cwd(), environment=dict(os.environ), limits=ProcessLimits(60)
)
"""


@pytest.fixture(params=["machine", "bubblewrap", "fake", "docker", "podman"])
def place(request, tmp_path_factory):
    if request.param == "fake":
        return fake_place(tmp_path_factory.mktemp("engine"))
    if request.param == "bubblewrap":
        return bubblewrap_place()
    if request.param == "machine":
        return Place(os.environ)
    found = real_place(request.param)
    if found is None:
        pytest.skip(f"{request.param} does not work here, or there is no static busybox to make an image of")
    return found


def sh(place, script, cwd, *, environment=None, limits=AMPLE, folders=(), **more):
    given = {"PATH": os.environ["PATH"], **(environment or {})}
    return place.children(*folders).run(["sh", "-c", script], cwd=cwd, environment=given, limits=limits, **more)


def test_a_program_ends_with_its_exit_code_and_its_output(place, tmp_path):
    done = sh(place, "echo out; echo err >&2; exit 3", tmp_path)
    assert (done.ended, done.exit_code, done.ok) == ("exited", 3, False)
    assert sorted(done.output.split()) == ["err", "out"]


def test_it_works_in_the_same_folder_and_what_it_writes_is_ours(place, tmp_path):
    assert sh(place, "pwd; echo made > made.txt", tmp_path).output.strip() == str(tmp_path)
    assert (tmp_path / "made.txt").read_text() == "made\n"
    assert (tmp_path / "made.txt").stat().st_uid == os.getuid()


def test_what_it_is_told_on_stdin_arrives_whole(place, tmp_path):
    text = b"a line\n" * 2000
    assert sh(place, "cat", tmp_path, stdin=text, keep=20_000).output == text.decode()


def test_it_sees_the_folders_that_it_is_given(place, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "beside").mkdir()
    words = f"echo said > '{tmp_path}/beside/summary.txt'"
    assert sh(place, words, tmp_path / "work", folders=(tmp_path / "beside",)).ok
    assert (tmp_path / "beside" / "summary.txt").read_text() == "said\n"


def test_it_sees_its_variables(place, tmp_path):
    assert sh(place, 'echo "$KEY"', tmp_path, environment={"KEY": SECRET}).output.strip() == SECRET


def test_the_commands_own_words_are_no_options_of_the_engine(place, tmp_path):
    words = ["sh", "-c", 'echo "$#:$1"', "--rm", "--privileged"]
    done = place.children().run(words, cwd=tmp_path, environment={"PATH": os.environ["PATH"]}, limits=AMPLE)
    assert done.output == "1:--privileged\n"


@pytest.mark.parametrize("how", ["timeout", "stalled", "cancelled"])
def test_a_program_that_must_end_is_gone_when_that_is_told(place, tmp_path, how):
    stop = threading.Event()
    seconds = 4 if place.slow else 2
    limits = {
        "timeout": ProcessLimits(seconds),
        "stalled": ProcessLimits(60, seconds),
        "cancelled": ProcessLimits(60, cancel=stop),
    }[how]
    done = sh(
        place,
        "trap '' TERM; echo up; while :; do echo alive > beat.txt; sleep 0.1; done",
        tmp_path,
        limits=limits,
        on_line=lambda _: stop.set(),
    )
    assert done.ended == how
    assert is_still(tmp_path / "beat.txt")
    assert not place.registry.recorded()


def test_a_program_that_is_not_there_was_never_started(place, tmp_path):
    done = place.children().run(
        ["there-is-no-such-program"], cwd=tmp_path, environment={"PATH": os.environ["PATH"]}, limits=AMPLE
    )
    assert (done.ended, done.exit_code) == ("not_started", None)


def test_what_goes_on_after_we_are_killed_is_found_and_ended_by_the_next(place, tmp_path):
    words = "trap '' TERM HUP; while :; do echo alive > beat.txt; sleep 0.1; done"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, words, place.spec.model_dump_json()], cwd=tmp_path, env=place.environment
    )
    wait_for(tmp_path / "beat.txt")
    driver.kill()
    driver.wait()
    registry = MemoryRegistry()
    registry.record(Child(**json.loads((tmp_path / "registry.json").read_text())))
    place.children(registry=registry).kill_leftovers()
    assert is_still(tmp_path / "beat.txt")
    assert not registry.recorded()


def test_what_left_its_family_goes_with_it(place, tmp_path):
    survivor = "while :; do echo alive > beat.txt; sleep 0.1; done"
    words = f"setsid env -i sh -c '({survivor}) &' > /dev/null 2>&1; while [ ! -e beat.txt ]; do sleep 0.1; done"
    assert sh(place, words, tmp_path).ok
    assert is_still(tmp_path / "beat.txt")


def wait_for(path):
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_still(path):
    """Whether nobody writes the file (any more): for longer than its writer ever pauses."""
    path.unlink(missing_ok=True)
    time.sleep(0.5)
    return not path.exists()


# --- what only a container has ----------------------------------------------------------------------------


@pytest.fixture(params=["fake", "docker", "podman"])
def contained(request, tmp_path_factory):
    found = fake_place(tmp_path_factory.mktemp("engine")) if request.param == "fake" else real_place(request.param)
    if found is None:
        pytest.skip(f"{request.param} does not work here, or there is no static busybox to make an image of")
    return found


def test_what_is_of_this_machine_alone_stays_outside(contained, tmp_path):
    here = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/home/ada/.config", "SSL_CERT_FILE": "/etc/ours.pem", "TZ": "UTC"}
    seen = sh(contained, "env", tmp_path, environment={"PATH": "/usr/only-here:" + os.environ["PATH"], **here}).output
    assert "TZ=UTC" in seen
    assert "HOME=/tmp" in seen
    assert "/home/ada" not in seen
    assert "only-here" not in seen
    assert "SSL_CERT_FILE" not in seen


def test_an_image_that_is_not_here_is_named_with_the_way_to_get_it(contained):
    absent = contained.container.model_copy(update={"image": f"irontree-none@{ABSENT}"})
    [blocker] = Engine(contained.environment).blockers(absent)
    assert blocker.check == "container-image"
    assert blocker.remedy == f"{absent.engine} pull {absent.image}"
    assert Engine(contained.environment).blockers(contained.container) == ()


def test_removing_a_container_that_is_gone_is_no_error(contained):
    assert Engine(contained.environment).remove(contained.container.engine, "0" * 32) is False


# --- what the engine is told ------------------------------------------------------------------------------


@pytest.fixture
def engine(tmp_path_factory):
    return fake_place(tmp_path_factory.mktemp("engine"))


def calls(place):
    lines = (place_folder(place) / "calls.jsonl").read_text().splitlines()
    return [json.loads(line)["words"] for line in lines]


def place_folder(place):
    return Path(place.environment["DOCKER_FAKE_STATE"])


def test_no_value_of_a_variable_is_on_a_command_line(engine, tmp_path):
    sh(engine, "true", tmp_path, environment={"KEY": SECRET})
    assert SECRET not in json.dumps(calls(engine))
    assert ["--env", "KEY"] in [call[n : n + 2] for call in calls(engine) for n in range(len(call))]


def test_the_container_is_named_after_what_is_recorded_before_it_starts(engine, tmp_path):
    sh(engine, "true", tmp_path)
    [child] = engine.registry.history
    assert child.engine == "docker"
    assert container_name(child.mark) in calls(engine)[0]


def test_an_engine_that_cannot_say_whether_it_is_gone_is_an_error_and_stays_recorded(engine, tmp_path):
    sh(engine, "true", tmp_path)
    left = replace(engine.registry.history[0], owner=0, owner_started="")
    registry = MemoryRegistry()
    registry.record(left)
    (place_folder(engine) / "bin" / "docker").write_text("#!/bin/sh\necho no daemon >&2\nexit 1\n")
    with pytest.raises(EnvironmentRefused, match="cannot be removed: no daemon"):
        engine.children(registry=registry).kill_leftovers()
    assert registry.recorded() == (left,)


def test_an_engine_that_is_missing_or_does_not_work_is_told_before_any_attempt(engine):
    without = {**engine.environment, "PATH": "/nowhere"}
    assert [found.check for found in Engine(without).blockers(engine.container)] == ["container-engine"]
    (place_folder(engine) / "bin" / "docker").write_text("#!/bin/sh\necho no daemon >&2\nexit 1\n")
    [blocker] = Engine(engine.environment).blockers(engine.container)
    assert blocker.message == "docker does not work here: no daemon"


def test_an_interrupted_driver_leaves_no_container(engine, tmp_path):
    """Ctrl-C in the middle of it."""

    def interrupt(_line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sh(engine, "echo up; while :; do echo alive > beat.txt; sleep 0.1; done", tmp_path, on_line=interrupt)
    assert is_still(tmp_path / "beat.txt")
