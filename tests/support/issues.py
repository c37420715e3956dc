"""Issues that people wrote on the forge of a scene, before anybody took them in."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.commands import Issues, OpenIssues
from irontree.services.answers.approve import adopt
from irontree.services.loops.loop import Loop
from irontree.services.proposals.proposal import Proposal
from irontree.services.proposals.sources import resolve
from tests.support.approving import approve_as_shown
from tests.support.world import Scene

CLEAR = "- [ ] it says hello `$ has greet.txt hello`\n"
"""What the agent of a good day does, for an issue whose title is Greeting."""


def write(scene: Scene, title: str = "Greeting", body: str = CLEAR, *, author: str = "us", labels=()) -> int:
    """An open issue; its number."""
    return scene.forge(author).create_issue(title, body, labels).number


def edit(scene: Scene, number: int, **changes) -> None:
    """Change title, body, state or `pull_request` of an issue behind our back."""
    scene.tracker.issues[number] = scene.tracker.issues[number]._replace(**changes)


def say(scene: Scene, number: int, body: str, *, author: str = "us") -> None:
    """Comment on it."""
    scene.forge(author).post_comment(number, body)


def resolved(scene: Scene, *numbers: int, words: str = "") -> Proposal:
    """The Resolved Plan for these issues; for all open ones without any."""
    intent = Issues(numbers) if numbers else OpenIssues()
    return resolve(scene.app, intent, words or " ".join(f"#{number}" for number in numbers))


def authorise(scene: Scene, *numbers: int) -> Loop:
    """Approve these issues, and start their loop."""
    return approve_as_shown(scene.app, resolved(scene, *numbers), "ada")


def take_in(app: App, *numbers: int) -> None:
    """Adopt each, and stop there."""
    for number in numbers:
        adopt(app, number)
