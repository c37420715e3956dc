"""What a run shows of its work: only what is new, and what cannot be shown is no failure of the work."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from irontree.tasks.artifacts import publish_report
from tests.support.world import GREETING, MANUAL_TASK, Scene, make_scene


@pytest.fixture
def scene(tmp_path) -> Scene:
    """An issue whose verification has written a report."""
    scene = make_scene(tmp_path)
    scene.drive(scene.start(MANUAL_TASK))
    report_of(scene).parent.mkdir(parents=True)
    report_of(scene).write_text("# Verification")
    return scene


@pytest.fixture
def shown(scene, caplog):
    """What is said when the report is to be shown at a server that is away."""

    def shown(after: int) -> list[str]:
        nowhere = {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}
        with temporary_settings(nowhere), caplog.at_level(logging.INFO, "irontree.tasks.artifacts"):
            asyncio.run(publish_report(scene.app, GREETING, after=after))
        return [record.getMessage() for record in caplog.records if record.name == "irontree.tasks.artifacts"]

    return shown


def report_of(scene: Scene) -> Path:
    return scene.root / str(scene.state().report_path)


@pytest.mark.filterwarnings("ignore:Artifact creation outside of a flow:FutureWarning")
def test_a_server_that_is_away_or_a_report_that_was_deleted_makes_no_verification_fail(scene, shown):
    assert [line.partition(": ")[0].endswith("but Prefect could not show it") for line in shown(after=0)] == [True]
    report_of(scene).unlink()
    assert "No such file" in shown(after=0)[-1]


def test_the_report_of_an_earlier_attempt_is_not_shown_again(scene, shown):
    """After a failure that leaves attempts, or a refusal: neither writes one."""
    assert scene.state().report_path
    assert shown(after=scene.state().sequence) == []
