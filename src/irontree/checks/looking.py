"""The artifact that a step of a plan has to leave, looked at in a workspace; `hotl-rt` does without results."""

from __future__ import annotations

from pathlib import Path

from irontree.checks.artifact import judge_artifact
from irontree.domain.checks import CheckResult, result_of
from irontree.domain.workflow.step import Artifact
from irontree.domain.workflow.verify import ArtifactCheck


def look_at(check: Artifact, workspace: Path) -> CheckResult:
    """What *check* comes to in the folder *workspace*, in upstream's words; nothing is run."""
    found = judge_artifact(ArtifactCheck(check.path, check.kind, check.value), workspace)
    output = found.stdout or found.stderr or found.reason
    return result_of(check, "exited", 0 if found.end == "pass" else 1, seconds=0, output=output)
