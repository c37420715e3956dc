"""The command line of a program in a container: what is approved is all that it says (R6)."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.places import ContainerSpec
from irontree.processes.containers import Engine, container_name, never_ran
from irontree.processes.family import MARK

IMAGE = f"tools@sha256:{'ab' * 32}"
ADA, ROOT = (1000, 1000), (0, 0)


def words(spec=None, *, argv=("make", "test"), variables=(), folders=(), readable=(), user=ADA, cwd="/work"):
    return Engine({}, user).command(
        spec or ContainerSpec(image=IMAGE),
        argv,
        mark="0f",
        cwd=Path(cwd),
        environment=dict.fromkeys(variables, "value"),
        folders=[Path(folder) for folder in folders],
        readable=[Path(path) for path in readable],
    )[0]


def pairs(found):
    return list(pairwise(found))


def mounts(found):
    return [next(csv.reader([value])) for name, value in pairs(found) if name == "--mount"]


def test_it_is_removed_at_its_end_named_by_us_and_never_pulled():
    found = words()
    assert found[:2] == ["docker", "run"]
    assert {"--rm", "--init", "--interactive", "--pull=never"} < set(found)
    assert ("--name", container_name("0f")) in pairs(found)
    assert found[-3:] == [IMAGE, "make", "test"]


def test_the_workspace_is_there_under_its_own_path_and_is_the_working_folder():
    found = words(folders=["/logs/attempt-1"], readable=["/repo/.git/objects"])
    assert ("--workdir", "/work") in pairs(found)
    assert mounts(found) == [
        ["type=bind", "source=/work", "target=/work"],
        ["type=bind", "source=/logs/attempt-1", "target=/logs/attempt-1"],
        ["type=bind", "source=/repo/.git/objects", "target=/repo/.git/objects", "readonly"],
    ]


@given(st.text(st.characters(exclude_characters="\0\n\r", codec="utf-8"), min_size=1))
def test_no_path_can_add_an_option_to_a_mount(name):
    [mount] = mounts(words(cwd=f"/{name}"))
    assert mount == ["type=bind", f"source={Path(f'/{name}')}", f"target={Path(f'/{name}')}"]


@pytest.mark.parametrize(
    ("given", "mounted"),
    [
        ("/data", ["source=/data", "target=/data"]),
        ("/data:/var/data", ["source=/data", "target=/var/data"]),
        ("/data:ro", ["source=/data", "target=/data", "readonly"]),
        ("/data:/var/data:ro", ["source=/data", "target=/var/data", "readonly"]),
    ],
)
def test_configured_mounts_come_beside_the_workspace(given, mounted):
    assert mounts(words(ContainerSpec(image=IMAGE, mounts=(given,))))[1] == ["type=bind", *mounted]


def test_variables_are_named_and_those_of_this_machine_are_not():
    found = words(variables=["KEY", "PATH", "HOME", "TZ", "XDG_CACHE_HOME"])
    assert [value for name, value in pairs(found) if name == "--env"] == ["HOME=/tmp", MARK, "KEY", "TZ"]


@pytest.mark.parametrize(
    ("engine", "user", "said"),
    [
        ("docker", ADA, ["--user", "1000:1000"]),
        ("docker", ROOT, ["--user", "0:0"]),
        ("podman", ADA, ["--userns", "keep-id", "--user", "1000:1000"]),
        ("podman", ROOT, ["--user", "0:0"]),
    ],
)
def test_what_it_writes_is_ours(engine, user, said):
    found = words(ContainerSpec(engine=engine, image=IMAGE), user=user)
    assert " ".join(said) in " ".join(found)
    assert ("--userns" in found) == ("--userns" in said)


def test_another_user_is_taken_as_it_was_approved():
    found = words(ContainerSpec(engine="podman", image=IMAGE, user="agent"))
    assert [value for name, value in pairs(found) if name == "--user"] == ["agent"]


def test_it_has_no_network_where_none_was_approved():
    assert "--network" not in words()
    assert ("--network", "none") in pairs(words(ContainerSpec(image=IMAGE, network=False)))


def test_more_options_come_last_so_that_they_count():
    found = words(ContainerSpec(image=IMAGE, options=("--env", "HOME=/home/agent")))
    assert found[-5:-2] == ["--env", "HOME=/home/agent", IMAGE]


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        (0, "Error: ", False),
        (1, "Error: it is red", False),
        (1, "ERROR (catatonit:2): failed to exec pid1: No such file or directory", True),
        (125, "docker: Error response from daemon: No such image: python:3.13", True),
        (125, "WARNING: no swap\ndocker: invalid reference format.", True),
        (125, "unknown flag: --dry\nSee 'docker run --help'.", True),
        (125, "Error: short-name did not resolve to an alias", True),
        (125, "what a program says that ends with this itself", False),
        (125, "bisect: Error: skip this one, docker: no", False),
        (127, "42 passed, Error: no such thing", False),
        (126, "make: permission denied", False),
        (127, "sh: 1: pytest: not found", False),
        (127, "docker: Error response from daemon: ... executable file not found in $PATH", True),
        (127, "[FATAL tini (7)] exec pytest failed: No such file or directory", True),
        (None, "", False),
    ],
)
def test_a_program_that_was_not_started_is_told_from_one_that_failed(code, output, expected):
    assert never_ran(code, output) == expected
