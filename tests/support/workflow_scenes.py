"""A workflow file in a scene: proposed, approved, worked off."""

from __future__ import annotations

from pathlib import Path

from irontree.services.answers.approve import approve
from irontree.services.loops.loop import Loop
from irontree.services.proposals.proposal import Proposal
from irontree.services.proposals.sources import propose
from tests.support.hotl import workflow
from tests.support.world import Scene

NAME = "hotl-workflow-rate.md"
ONE, TWO = "rate-part-1", "rate-part-2"
AUTO = "risk_level: low\nauto_approve: true"


def write(scene: Scene, *steps: str, front: str = AUTO) -> Path:
    path = scene.root / NAME
    path.write_text(workflow(*steps, front=front))
    return path


def proposed(scene: Scene, *steps: str, front: str = AUTO) -> Proposal:
    return propose(scene.app, write(scene, *steps, front=front))


def begin(scene: Scene, *steps: str, front: str = AUTO) -> Loop:
    proposal = proposed(scene, *steps, front=front)
    return approve(scene.app, proposal, proposal.name, "ada")


def driven(scene: Scene, *steps: str, front: str = AUTO) -> str:
    return scene.drive(begin(scene, *steps, front=front)).reason
