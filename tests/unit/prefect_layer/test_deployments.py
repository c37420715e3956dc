"""The deployments of a repository, six with a toolchain: the same from a terminal and by `prefect deploy`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from irontree.app import Preferences
from irontree.domain.ids import slugify
from irontree.domain.settings import Automations
from irontree.flows.serve.documents import about_documents, documents_in
from irontree.flows.serve.serving import FLOWS, NIGHTLY, POOL, SCHEDULES, deployments_of, queue_of
from irontree.flows.server.connection import runs_url
from tests.support.world import make_scene

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def written() -> list[dict]:
    """What prefect.yaml says."""
    return yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]


def test_a_repository_has_five_named_after_flow_and_folder_with_its_folder_as_their_parameter(tmp_path):
    app = make_scene(tmp_path).app
    made = deployments_of(app)
    assert [deployment.entrypoint for deployment in made] == [f"irontree.flows.{name}.{name}" for name in FLOWS]
    assert [deployment.name for deployment in made] == [f"{flow}-{slugify(app.repository.root.name)}" for flow in FLOWS]
    assert {queue_of(asdict(deployment)) for deployment in made} == {app.repository.id}
    assert {deployment.parameters["repository"] for deployment in made} == {str(app.repository.root)}


def test_prefect_yaml_has_the_same_flows_and_schedules(tmp_path, written):
    app = replace(make_scene(tmp_path).app, preferences=lambda: Preferences(type_labels=True))
    made = deployments_of(app)
    assert [deployment["entrypoint"] for deployment in written] == [deployment.entrypoint for deployment in made]
    described = [
        deployment["description"].replace("{{ $IRONTREE_REPOSITORY }}", str(app.repository.root))
        for deployment in written
    ]
    assert described == [deployment.description for deployment in made]
    schedules = {
        deployment["entrypoint"].rpartition(".")[2]: [(entry["cron"], entry["slug"]) for entry in found]
        for deployment in written
        if (found := deployment.get("schedules"))
    }
    assert schedules == {name: [schedule] for name, schedule in SCHEDULES.items()}
    assert all(entry["timezone"] == "UTC" for deployment in written for entry in deployment.get("schedules", ()))


def test_prefect_yaml_sends_each_repository_to_its_own_queue(written):
    for deployment in written:
        assert deployment["work_pool"]["name"] == POOL
        assert deployment["name"] == f"{deployment['entrypoint'].rpartition('.')[2]}-{{{{ $IRONTREE_NAME }}}}"
        assert deployment["work_pool"]["work_queue_name"] == "{{ $IRONTREE_ID }}"
        assert deployment["parameters"] == {"repository": "{{ $IRONTREE_REPOSITORY }}"}


def test_prefect_yaml_has_the_same_tags_by_which_the_pages_find_the_runs_but_for_the_folders_name(tmp_path, written):
    app = replace(make_scene(tmp_path).app, preferences=lambda: Preferences(type_labels=True))
    said = [[tag.replace("{{ $IRONTREE_ID }}", app.repository.id) for tag in served["tags"]] for served in written]
    folder = f"folder:{app.repository.root.name}"
    assert [[*tags, folder] for tags in said] == [list(served.tags) for served in deployments_of(app)]
    assert runs_url("http://server", app).endswith(f"?tag={said[0][1]}")


def test_what_the_configuration_wants_every_night_is_put_up_by_a_schedule(tmp_path):
    wanted = Preferences(automations=Automations(nightly="all open"))
    made = {
        served.entrypoint: served
        for served in deployments_of(replace(make_scene(tmp_path).app, preferences=lambda: wanted))
    }
    intake = made["irontree.flows.intake.intake"]
    assert ((intake.cron, intake.slug), intake.scheduled) == (NIGHTLY, {"document": "all open"})
    assert "document" not in intake.parameters, "who starts it by hand names one"


def test_the_page_that_starts_a_document_names_those_that_are_there(tmp_path):
    for path in ("SPEC.md", "docs/app.md", ".mino/not.md"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("# A\n\n## B\n\n- [ ] it is there\n")
    (tmp_path / "README.md").write_text("# A\n\n- no criterion\n")
    assert documents_in(tmp_path) == ("SPEC.md", "docs/app.md")
    said = about_documents(("SPEC.md", "docs/app.md"))["description"]
    assert "There when serving started: `SPEC.md`, `docs/app.md`." in said
    assert "There when serving started: none." in about_documents(())["description"], "one may be there by now"


def test_where_there_is_one_document_alone_one_click_starts_it(tmp_path):
    app = make_scene(tmp_path).app
    (app.repository.root / "SPEC.md").write_text("# A\n\n- [ ] it is there\n")
    [intake, *_] = deployments_of(app)
    assert intake.parameters["document"] == "SPEC.md"
    (app.repository.root / "OTHER.md").write_text("# A\n\n- [ ] it is there\n")
    [intake, *_] = deployments_of(app)
    assert "document" not in intake.parameters
