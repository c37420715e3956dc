"""Whatever is written to disk and read again is equal: every setting and every field, drawn from the models (R1)."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ruamel.yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from irontree.config import Config
from irontree.config_file import read_config
from irontree.domain.agent_requests import AskedAgent, StandingApproval
from irontree.domain.checks import CheckReport
from irontree.domain.events import ISSUE_EVENTS
from irontree.domain.loop import LOOP_EVENTS, LoopEntity
from irontree.domain.plan import ExecutionPolicy, Plan
from irontree.domain.values import Section
from irontree.errors import ConfigRefused
from irontree.forges import ForgeSettings
from irontree.forges.local import LocalForge
from irontree.forges.markers import as_kept, one_line
from irontree.ports import EffectLedger, Label
from irontree.store.agent_requests import FileAgentRequests
from irontree.store.codec import read_mapping, typed, write_mapping
from irontree.store.documents import FileDeliveries, FilePlanStore, FileResultStore
from irontree.store.event_log import FileLoopLog
from irontree.store.layout import create
from irontree.store.lockfiles import _Lease, _RunLock
from irontree.store.registry import Registered, RepositoryRegistry
from irontree.store.streams import ISSUE_FORM, LOOP_FORM
from tests.support.store import StillClock, plan
from tests.support.values import TEXTS, values_of, written_settings

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.json_schema.PydanticJsonSchemaWarning")
slowly = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large])


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        create(Path(path))
        yield Path(path)


def as_block_yaml(settings: dict) -> str:
    """As a person writes it: one key a line."""
    text = io.StringIO()
    yaml = ruamel.yaml.YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(settings, text)
    return text.getvalue()


@slowly
@given(keys=written_settings(Config), write=st.sampled_from([as_block_yaml, json.dumps]))
def test_every_setting_goes_through_the_plan_s_file_and_is_approved_as_it_was(keys, write):
    try:
        policy = read_config(write(keys), "config.yml").policy("origin", "main")
    except ConfigRefused:
        assume(False)
    approved = plan(policy=policy)
    with folder() as root:
        FilePlanStore(root).save(approved)
        found = FilePlanStore(root).load(approved.spec_revision)
    assert found == approved
    assert found.policy.digest == policy.digest


@slowly
@given(policy=values_of(ExecutionPolicy))
def test_every_field_of_a_policy_goes_through_the_file(policy):
    with folder() as root:
        FilePlanStore(root).save(plan(policy=policy))
        assert FilePlanStore(root).load(plan().spec_revision).policy == policy


@slowly
@given(approved=values_of(Plan))
def test_every_field_of_a_plan_goes_through_the_file(approved):
    with folder() as root:
        FilePlanStore(root).save(approved)
        found = FilePlanStore(root).load(approved.spec_revision)
    assert found == approved
    assert [node.digest for node in found.nodes] == [node.digest for node in approved.nodes]


@slowly
@given(report=values_of(CheckReport))
def test_every_field_of_check_results_goes_through_the_file(report):
    with folder() as root:
        FileResultStore(root, root / "key").save(report)
        assert FileResultStore(root, root / "key").load(report.issue_number, report.anchor) == report


@slowly
@given(request=values_of(AskedAgent))
def test_every_field_of_a_request_to_an_agent_goes_through_the_file(request):
    with folder() as root:
        FileAgentRequests(root, root / "key").save(request)
        assert FileAgentRequests(root, root / "key").load(request.key) == request


@slowly
@given(standing=values_of(StandingApproval))
def test_every_field_of_the_standing_approval_goes_through_the_file(standing):
    with folder() as root:
        FileAgentRequests(root, root / "key").approve(standing)
        assert FileAgentRequests(root, root / "key").standing() == standing


@given(entity=values_of(LoopEntity))
def test_every_field_of_a_loop_goes_through_the_file(entity):
    with folder() as root:
        FileLoopLog(root, StillClock()).write_entity(entity)
        assert FileLoopLog(root, StillClock()).read_entity(entity.loop_id) == entity


@given(ledger=values_of(EffectLedger))
def test_every_field_of_the_ledger_of_effects_goes_through_the_file(ledger):
    with folder() as root:
        FileDeliveries(root).save(12, ledger)
        assert FileDeliveries(root).load(12) == ledger


@settings(max_examples=10)
@given(st.data())
@pytest.mark.parametrize(
    ("form", "model"),
    [(form, model) for form in (ISSUE_FORM, LOOP_FORM) for model in form.models.values()],
    ids=[*ISSUE_EVENTS, *LOOP_EVENTS],
)
def test_every_field_of_every_event_goes_through_the_file(form, model, data):
    event = data.draw(values_of(model))
    assert form.decode(form.encode(event, {}), "event").event == event


@given(value=values_of(_RunLock) | values_of(_Lease))
def test_every_field_of_the_lock_files_goes_through_the_file(value):
    found = read_mapping(write_mapping(value.model_dump(mode="json")), "lock")
    assert typed(type(value), found, "lock") == value


@given(title=TEXTS, body=TEXTS, labels=st.lists(TEXTS, unique=True, max_size=3), comment=TEXTS)
def test_an_issue_of_files_is_read_as_it_was_created(title, body, labels, comment):
    with folder() as root:
        forge = LocalForge(ForgeSettings(root, "ada", StillClock(), read_mapping, write_mapping))
        forge.ensure_labels([Label(name, "ff0000", "why") for name in labels])
        created = forge.create_issue(title, body, labels)
        posted = forge.post_comment(created.number, comment)
        (read,) = forge.comments(created.number)
        assert forge.read_issue(created.number) == created
        assert (created.body, [*created.labels]) == (as_kept(body), labels)
        assert one_line(title) in {"", created.title}
        assert (read, read.body) == (posted, as_kept(comment))


_PATHS = st.binary(min_size=1, max_size=20).map(lambda data: data.replace(b"\0", b"\n").replace(b"/", b"x"))


@given(name=_PATHS.filter(lambda name: name not in {b".", b".."}) | st.just(b"a\n") | st.just(b"\n"))
def test_a_path_of_any_name_is_registered_as_it_is(name):
    with folder() as root:
        where = Path("/srv") / name.decode("utf-8", "surrogateescape")
        RepositoryRegistry(root).add("0123456789ab", where)
        assert RepositoryRegistry(root).all() == (Registered("0123456789ab", where),)


class Strict(Section):
    """A section as a new one may be: numbers that no text passes for."""

    number: int
    wanted: bool
    share: float
    names: tuple[str, ...] = ()


def test_no_field_is_so_strict_that_what_was_written_cannot_be_read():
    """A plan holds sections of the configuration, which are strict: there, text is no number."""
    written = Strict(number=2, wanted=True, share=0.5)
    found = read_mapping(write_mapping(written.model_dump(mode="json")), "plan")
    assert typed(Strict, found, "plan") == written
