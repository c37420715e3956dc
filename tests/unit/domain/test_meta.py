"""What `meta:` says is typed when it is asked for, and nothing that stands there is refused (protocol, Meta)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.meta import AgentMeta, Meta

NAMES = [name for name in dir(Meta) if not name.startswith("_")]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner), max_leaves=5
)


@given(st.dictionaries(st.sampled_from(NAMES), values))
def test_whatever_other_tools_and_hands_write_there_can_be_read(keys):
    for name in NAMES:
        getattr(Meta(keys), name)


@pytest.mark.parametrize(
    ("written", "read"), [(7, 7), ("7", 7), ("9" * 5000, None), ("-1", None), ("x", None), (None, None)]
)
def test_a_number_is_read_as_one_or_as_none(written, read):
    """Python refuses to read a number of more than 4300 digits."""
    assert Meta({"request": written}).request == read


def test_what_is_absent_is_empty():
    told = Meta()
    assert (told.time, told.reviews, told.request, told.seconds, told.budget, told.reviewers) == (
        "",
        (),
        None,
        None,
        {},
        (),
    )
    assert isinstance(told.agent, AgentMeta)
    assert (told.agent.ended, told.agent.denied, told.agent.success) == ("", (), None)
