"""What `doctor` says of the machine, from what it is shown."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from irontree.agents.scripted import ScriptedAgent, idles
from irontree.cli.doctor import Examined, _access, _own_branches, _runway, blocks, machine, misfits
from irontree.cli.output import plain
from irontree.domain.agents import AgentSpec, Member
from tests.support.prefect_stub import prefect_that
from tests.support.workflow_scenes import NAME, begin
from tests.support.world import make_scene


def found_in(environment: dict[str, str]) -> dict[str, Examined]:
    return {finding.what: finding for finding in machine(environment)}


@pytest.fixture
def program(tmp_path):
    def make(name: str) -> str:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        return str(tmp_path)

    return make


def test_a_plan_with_a_branch_of_its_own_is_named_until_its_work_is_done(tmp_path):
    scene = make_scene(tmp_path)
    assert _own_branches(scene.world) == ""
    loop = begin(scene, "loop: false")
    assert _own_branches(scene.world) == f"; that of {NAME} to hotl/rate"
    scene.agent = ScriptedAgent(idles)
    scene.drive(loop)
    assert _own_branches(scene.world) == ""


def test_this_environment_has_the_libraries_that_are_needed():
    assert found_in(dict(os.environ))["libraries"].verdict == "good"


def test_a_library_of_another_version_and_a_missing_one_are_named_with_what_is_needed():
    wrong = tuple(misfits(["pydantic<2", "no-such-thing>=1", "rich>=13", "pytest<1; extra == 'dev'"]))
    assert len(wrong) == 2
    assert wrong[0].startswith("pydantic is 2.")
    assert wrong[0].endswith("but <2 is needed")
    assert wrong[1] == "no-such-thing is missing"


def test_without_git_nothing_goes(tmp_path):
    finding = found_in({"PATH": str(tmp_path)})["git"]
    assert (finding.verdict, finding.remedy) == ("bad", "install git")


def test_a_git_that_is_too_old_is_named_with_what_is_needed(program, tmp_path):
    path = program("git")
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.37.1\n")
    finding = found_in({"PATH": path})["git"]
    assert (finding.verdict, finding.found) == ("bad", "git is 2.37.1, and 2.38 is needed")


def test_agents_on_the_path_are_named_and_none_is_no_obstacle(program, tmp_path):
    assert found_in({"PATH": str(tmp_path)})["agents"].verdict == "note"
    assert found_in({"PATH": program("codex")})["agents"].found == "codex"


def test_a_configured_server_is_named_with_where_the_setting_is_from():
    finding = found_in({"PATH": "", "PREFECT_API_URL": "http://127.0.0.1:9/api"})["Prefect server"]
    assert finding.found == "http://127.0.0.1:9/api, from PREFECT_API_URL"


@pytest.mark.parametrize(("status", "asks_nobody"), [(200, True), (401, False), (403, False)])
def test_a_configured_server_that_asks_nobody_for_a_password_is_pointed_out(status, asks_nobody):
    """Our own password does not hide that."""
    with prefect_that(lambda *_: (status, [])) as address:
        given = {"PATH": "", "PREFECT_API_URL": address, "PREFECT_API_AUTH_STRING": "ada:secret"}
        finding = found_in(given)["Prefect server"]
    assert ("asks nobody for a password" in finding.found, bool(finding.remedy)) == (asks_nobody, asks_nobody)


def test_a_remedy_stands_behind_what_was_found():
    found = (Examined("bad", "git", "not on PATH", "install git"), Examined("good", "locks", "working"))
    lines = list(plain(blocks(found)))
    assert lines[1:] == ["bad   git        not on PATH -> install git", "good  locks      working"]


def test_a_program_that_only_the_configuration_names_is_not_asked_whether_it_is_logged_in():
    """Nobody has approved it: whoever wrote the file would have it run by a look at the machine."""
    asked = []
    app = SimpleNamespace(agent=asked.append)
    [*_access(app, AgentSpec(adapter="codex", command=("uvx",)), {"HOME": "/nonexistent"})]
    assert asked == []


def test_every_agent_of_a_team_is_looked_for_and_none_that_no_task_is_left_to(tmp_path):
    scene = make_scene(tmp_path)
    team = (
        Member(name="coder", command=("no-such-coder",)),
        Member(name="eve", command=("no-such-reviewer",), role="reviewer", kinds=("docs",)),
    )
    scene.policy = scene.policy.model_copy(update={"team": team})
    found = {each.what: each.found for each in _runway(scene.app, {}) if each.what.startswith("agent")}
    assert found == {
        "agent coder": "no-such-coder, the program of the agent coder, is not on PATH",
        "agent eve": "no-such-reviewer, the program of the agent eve, is not on PATH",
    }
