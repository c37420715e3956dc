"""Whose an automation on a server is: told by the id of the repository, whatever its folder is called now."""

from __future__ import annotations

from types import SimpleNamespace

from irontree.app import Preferences
from irontree.domain.settings import Automations
from irontree.flows.serve.automations import register_automations
from tests.support.world import make_scene


class Server:
    """As much of Prefect's client as is needed here: automations by their names."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def read_automations(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name, id=name) for name in self.names]

    def read_deployment_by_name(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(id="b7d9f6e0-3c1f-4d5a-9c3a-0a4a5a1c2b11")

    def create_automation(self, automation) -> None:
        self.names.add(automation.name)

    def delete_automation(self, name: str) -> None:
        self.names.remove(name)


def test_those_of_a_folder_that_was_renamed_are_replaced_and_others_left_alone(tmp_path):
    scene = make_scene(tmp_path)
    scene.preferences = Preferences(automations=Automations(reconcile=True))
    own = scene.repository.id
    server = Server(f"irontree earlier {own}: reconcile", "irontree project 000000: reconcile", f"mine {own}: start")
    register_automations(server, scene.app)
    assert server.names == {
        f"irontree {scene.root.name} {own}: reconcile",
        "irontree project 000000: reconcile",
        f"mine {own}: start",
    }
