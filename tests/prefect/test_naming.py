"""The names of a repository's deployments: as people read them, one for each flow, and the same for ever."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from prefect.deployments.runner import RunnerDeployment

from irontree.bootstrap import set_up
from irontree.flows.intake import intake
from irontree.flows.runs import runs
from irontree.flows.serve.serving import FLOWS, deployments_of, register
from tests.prefect.harness import deploy
from tests.prefect.toys import FRIENDLY, Toy, make_toy
from tests.support.repositories import hook


def registered(toy: Toy) -> dict[str, object]:
    """What the server has of the toy, by name, after a worker registered it."""
    served = list(map(asdict, deployments_of(toy.app)))
    asyncio.run(register(served, queue_limit=1, add=RunnerDeployment.aapply, reopen=True))
    return {found.name: found for found in toy.client.read_deployments(deployment_filter=runs.of_repository(toy.id))}


def toy_at(root: Path, client) -> Toy:
    """A toy without deployments, in that folder."""
    return moved(make_toy(root.parent, client, FRIENDLY), root)


def moved(toy: Toy, root: Path) -> Toy:
    """The toy with *root* as its new home."""
    toy.root.rename(root)
    set_up(root)
    return Toy(root, toy.client)


def test_deployments_are_called_after_flow_and_folder_and_keep_their_name(tmp_path, client):
    name = f"todo-{uuid4().hex[:8]}"
    toy = toy_at(tmp_path / "one" / name, client)
    found = registered(toy)
    assert found.keys() == {f"{flow}-{name}" for flow in FLOWS}
    asked = found[f"intake-{name}"].parameter_openapi_schema
    assert asked["properties"].keys() == {"document", "branch"}, "a page asks for nothing that is known"
    assert (asked["required"], found[f"intake-{name}"].parameters["document"]) == (["document"], "SPEC.md")
    namesake = toy_at(tmp_path / "two" / name, client)
    assert registered(namesake).keys() == {f"{flow}-{name}-{namesake.id[:6]}" for flow in FLOWS}
    assert registered(moved(toy, tmp_path / "moved")).keys() == found.keys()


def test_a_deployment_of_an_earlier_version_is_removed_and_what_it_asked_is_asked_again(tmp_path, client):
    toy = toy_at(tmp_path / f"todo-{uuid4().hex[:8]}", client)
    old = deploy(intake, toy.id, {"repository": str(toy.root)}, tags=runs.tags(toy.app))
    parameters = {"repository": str(toy.root), "document": "SPEC.md"}
    asking = client.create_flow_run_from_deployment(old, parameters=parameters).id
    assert toy.drive(asking, intake).name == "Suspended"
    assert registered(toy).keys() == {f"{flow}-{toy.root.name}" for flow in FLOWS}
    assert runs.state(client, asking).state_name == "Superseded"
    [again] = [run for run in toy.all_runs() if run.parameters == parameters]
    assert toy.drive(again.id, intake).name == "Suspended"


def test_the_server_is_not_told_the_address_of_the_remote(tmp_path, client, monkeypatch):
    """A token may be in it. Prefect asks git for it, in the folder that it is in."""
    toy = toy_at(tmp_path / f"todo-{uuid4().hex[:8]}", client)
    asked = tmp_path / "asked"
    hook(tmp_path / "bin", "git", f'echo "$*" >> {asked}; exec {shutil.which("git")} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(toy.root)
    assert registered(toy)
    assert "remote.origin.url" not in asked.read_text()
