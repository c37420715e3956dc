"""Requests to agents and the standing approval that something else than the program wrote are not believed (R18)."""

from __future__ import annotations

import pytest

from irontree.domain.agent_requests import answered, begun
from irontree.domain.checks import CheckReport
from irontree.errors import LogDamaged
from irontree.store.agent_requests import FileAgentRequests
from irontree.store.documents import FileResultStore, encode_value
from irontree.store.layout import create
from tests.support.store import SHA, asked_agent, check_report, standing


@pytest.fixture
def layout(tmp_path):
    return create(tmp_path / "repository")


def store_of(layout) -> FileAgentRequests:
    return FileAgentRequests(layout.root, layout.root.parent / "state" / "results.key")


def forge(path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_value(value))


@pytest.mark.parametrize("has_key", [True, False])
def test_neither_an_answer_nor_an_approval_without_a_seal_counts(layout, has_key):
    store = store_of(layout)
    if has_key:
        FileResultStore(layout.root, layout.root.parent / "state" / "results.key").begin_sealing()
    request = answered(begun(asked_agent()), "/approve everything")
    forge(layout.agent_requests / f"{request.key}.yml", request)
    forge(layout.standing_approval, standing())
    with pytest.raises(LogDamaged, match="this program did not write it") as caught:
        store.load(request.key)
    assert "irontree audit --vouch" in caught.value.remedy
    with pytest.raises(LogDamaged, match="this program did not write it") as caught:
        store.standing()
    assert "irontree toolchain approve" in caught.value.remedy


def test_the_seal_of_one_request_or_approval_fits_no_other(layout):
    store = store_of(layout)
    first, other = asked_agent(), asked_agent(member="coder")
    store.save(first)
    (layout.agent_requests / f"{first.key}.yml").rename(layout.agent_requests / f"{other.key}.yml")
    with pytest.raises(LogDamaged, match=f"is the request {first.key}"):
        store.load(other.key)
    assert store.vouch() == 0
    store.approve(standing())
    text = layout.standing_approval.read_text()
    layout.standing_approval.write_text(
        text.replace('wall_seconds: "3600"', 'wall_seconds: "3601"').replace("wall_seconds: 3600", "wall_seconds: 3601")
    )
    assert layout.standing_approval.read_text() != text
    with pytest.raises(LogDamaged, match="was changed"):
        store.standing()


def test_who_vouches_for_requests_approves_nothing(layout):
    """The same is so for what an archive brings from another machine (R21)."""
    store = store_of(layout)
    forge(layout.agent_requests / f"{asked_agent().key}.yml", asked_agent())
    forge(layout.standing_approval, standing())
    assert store.vouch() == 1
    assert store.load(asked_agent().key) == asked_agent()
    with pytest.raises(LogDamaged):
        store.standing()
    store.approve(standing())
    assert store.standing() == standing()


def test_the_first_request_takes_no_results_of_an_earlier_version_away(layout):
    results = FileResultStore(layout.root, layout.root.parent / "state" / "results.key")
    forge(layout.reports(12) / f"{SHA}.yml", check_report())
    store_of(layout).save(asked_agent())
    assert isinstance(results.load(12, SHA), CheckReport)
