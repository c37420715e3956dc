"""Whose an automation on a server is: told by the id of the repository, whatever its folder is called now."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from irontree.app import App, Preferences
from irontree.domain.settings import Automations
from irontree.flows.serve.automations import register_automations, remove_automations
from tests.support.world import make_scene

PAGE = 2
"""Automations in one answer of the server."""


class Server:
    """As much of Prefect's client as is needed here: automations, of which several can have one name."""

    def __init__(self, *names: str) -> None:
        self._known = dict(enumerate(names))

    @property
    def names(self) -> list[str]:
        return sorted(self._known.values())

    def read_automations(self, *, offset: int = 0) -> list[SimpleNamespace]:
        in_order = sorted((name, own) for own, name in self._known.items())
        return [SimpleNamespace(name=name, id=own) for name, own in in_order[offset : offset + PAGE]]

    def read_deployments(self, **_: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(id="b7d9f6e0-3c1f-4d5a-9c3a-0a4a5a1c2b11")]

    def read_block_document_by_name(self, **_: object) -> SimpleNamespace:
        return SimpleNamespace(id="b7d9f6e0-3c1f-4d5a-9c3a-0a4a5a1c2b11")

    def create_automation(self, automation) -> None:
        self._known[max(self._known, default=0) + 1] = automation.name

    def update_automation(self, own: int, automation) -> None:
        self._known[own] = automation.name

    def delete_automation(self, own: int) -> None:
        del self._known[own]


@pytest.fixture
def app(tmp_path) -> App:
    """A repository that wants one automation."""
    scene = make_scene(tmp_path)
    scene.preferences = Preferences(automations=Automations(reconcile=True))
    return scene.app


def ours(app: App, folder: str | None = None) -> str:
    return f"irontree {folder or app.repository.root.name} {app.repository.id}: reconcile"


def test_those_of_a_folder_that_was_renamed_are_replaced_and_others_left_alone(app):
    others = ["irontree project 000000: reconcile", f"mine {app.repository.id}: start"]
    server = Server(ours(app, "earlier"), *others)
    register_automations(server, app)
    assert server.names == sorted([ours(app), *others])


def test_one_that_stands_behind_many_of_others_is_found(app):
    """...and is not made a second time, which would have every event act twice."""
    others = [f"a notification of theirs {number}" for number in range(2 * PAGE)]
    server = Server(*others, ours(app))
    register_automations(server, app)
    assert server.names == sorted([*others, ours(app)])
    assert remove_automations(server, app) == (ours(app),)
    assert server.names == others


def test_where_a_team_works_in_the_forge_assigned_issues_start_without_a_label(tmp_path):
    scene, server = make_scene(tmp_path), Server()
    scene.preferences = Preferences(automations=Automations(reconcile=False))
    assert register_automations(server, scene.app) == ()
    scene.preferences = Preferences(automations=Automations(reconcile=False), type_labels=True)
    [name] = register_automations(server, scene.app)
    assert name.endswith(": start")


def test_who_is_notified_hears_of_closed_issues_where_a_team_works_in_the_forge(tmp_path):
    scene, server = make_scene(tmp_path), Server()
    chosen = Automations(reconcile=False, notify=("slack-webhook/team",))
    scene.preferences = Preferences(automations=chosen, type_labels=True)
    names = [name.rpartition(": ")[2] for name in register_automations(server, scene.app)]
    assert names == ["notify slack-webhook/team", "notify slack-webhook/team of closed issues", "start"]


def test_of_two_with_one_name_one_is_left(app):
    server = Server(*[ours(app)] * 3)
    register_automations(server, app)
    assert server.names == [ours(app)]
