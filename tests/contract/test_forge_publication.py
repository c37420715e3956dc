"""Publication is exactly once in effect, on every forge: no duplicate, and no task skipped by mistake (R8).

Two public failures of a similar tool are among the cases: github/spec-kit issues 2968 and 4271.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from irontree.errors import RemoteUnavailable, RequirementsRefused
from irontree.ports import Forge, Label
from irontree.services.delivery.deliver import LABELS
from irontree.services.execution.publish import PublishedNodes, publish
from irontree.services.proposals.sources import propose
from tests.support.approving import write_plan
from tests.support.forges import FallibleStage, Stage
from tests.support.stages import FALLIBLE, STAGES
from tests.support.world import SPEC, Scene, make_scene

TITLES = ["Greeting", "Parts", "Part one", "Part two", "Close"]
OTHER = "# Other\n\n## Greeting\n\n- [ ] it waves `$ has wave.txt`\n"


@pytest.fixture(params=FALLIBLE)
def fallible(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FallibleStage]:
    with STAGES[request.param](tmp_path) as opened:
        yield opened  # type: ignore[misc]


@pytest.fixture
def clone(tmp_path: Path) -> Callable[[Any], Scene]:
    """A new clone of the repository with a log of its own, which knows nothing of any issue."""
    made: list[Scene] = []

    def make(forge: Any) -> Scene:
        scene = make_scene(tmp_path / f"clone-{len(made)}")
        scene.forge_seen = forge
        made.append(scene)
        return scene

    return make


def publish_document(scene: Scene, text: str = SPEC, name: str = "SPEC.md") -> PublishedNodes:
    path = scene.root / name
    path.write_text(text)
    proposal = propose(scene.app, path)
    return publish(scene.app, write_plan(scene.app, proposal, proposal.name, "ada"))


def titles(forge: Forge) -> list[str]:
    """Of all open issues, by number."""
    numbered = (forge.read_issue(number) for number in range(1, 20))
    return [issue.title for issue in numbered if issue and issue.state == "open"]


def what_became(published: PublishedNodes) -> list[str]:
    return [status for _, _, status in published]


def test_publishing_again_from_nothing_duplicates_nothing(stage: Stage, clone):
    """spec-kit 2968: a second run did not know what the first had created, and created it all again."""
    assert what_became(publish_document(clone(stage.ours))) == ["created"] * 5
    assert what_became(publish_document(clone(stage.ours))) == ["found"] * 5
    assert titles(stage.ours) == TITLES


def test_the_same_key_in_another_document_is_refused_and_never_skipped(stage: Stage, clone):
    """spec-kit 4271: keys began anew in each document, and the second's tasks were taken for published ones."""
    publish_document(clone(stage.ours))
    before = stage.ours.read_issue(1)
    with pytest.raises(RequirementsRefused) as refused:
        publish_document(clone(stage.ours), OTHER, "docs.md")
    assert "greeting of docs.md: #1 has this key but belongs to SPEC.md" in str(refused.value)
    assert "Key:" in str(refused.value.remedy)
    assert stage.ours.read_issue(1) == before


def test_with_a_key_of_its_own_it_is_published(stage: Stage, clone):
    publish_document(clone(stage.ours))
    other = OTHER.replace("## Greeting\n", "## Greeting\n\nKey: waving\n")
    assert what_became(publish_document(clone(stage.ours), other, "docs.md")) == ["created"]
    assert titles(stage.ours) == [*TITLES, "Greeting"]


class Overtaken:
    """A forge before whose first new issue somebody else does something."""

    def __init__(self, forge: Forge, meanwhile: Callable[[], object]) -> None:
        self._forge = forge
        self._meanwhile: Callable[[], object] | None = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def create_issue(self, *arguments: Any) -> Any:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile:
            meanwhile()
        return self._forge.create_issue(*arguments)


def test_of_two_publishers_at_once_the_later_takes_what_the_earlier_made(stage: Stage, clone):
    """spec-kit 4271: both looked, both found nothing, both created."""
    first = clone(stage.ours)
    second = clone(Overtaken(stage.afresh(), lambda: publish_document(first)))
    published = publish_document(second)
    assert titles(stage.ours) == TITLES
    assert [number for _, number, _ in published] == [first.number(node.task_key) for node, _, _ in published]


def test_a_lost_answer_leaves_one_issue_and_publication_goes_on(fallible: FallibleStage, clone):
    scene = clone(fallible.ours)
    fallible.ours.ensure_labels([*LABELS.values(), Label("enhancement", "ededed")])  # the next write is of an issue
    fallible.lose_next_answer()
    with pytest.raises(RemoteUnavailable):
        publish_document(scene)
    publish_document(scene)
    assert titles(fallible.ours) == TITLES
    assert scene.events() == ["task_published"]


def test_a_listing_that_lags_hides_nothing(fallible: FallibleStage, clone):
    publish_document(clone(fallible.ours))
    fallible.lag(3)
    assert what_became(publish_document(clone(fallible.afresh()))) == ["found"] * 5
    assert titles(fallible.ours) == TITLES


def test_a_listing_that_breaks_off_stops_publication(fallible: FallibleStage, clone):
    publish_document(clone(fallible.ours))
    fallible.break_listings(behind=2)
    with pytest.raises(RemoteUnavailable):
        publish_document(clone(fallible.afresh()))
    assert titles(fallible.ours) == TITLES


def test_a_strangers_issue_with_our_key_is_not_ours(stage: Stage, clone):
    """R8: anybody can open an issue."""
    publish_document(clone(stage.ours), OTHER)
    body = stage.ours.read_issue(1)
    assert body
    stage.ours.edit_issue(1, body="nothing")
    stage.stranger.create_issue("Greeting", body.body)
    assert what_became(publish_document(clone(stage.ours), OTHER)) == ["created"]
