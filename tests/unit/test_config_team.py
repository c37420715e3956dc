"""What the configuration says about a team of agents."""

from __future__ import annotations

import pytest

from irontree.config_file import read_config
from irontree.errors import ConfigRefused

NAME = ".mino/config.yml"


def refusal(text: str) -> str:
    with pytest.raises(ConfigRefused) as caught:
        read_config(text, NAME)
    return str(caught.value)


TEAM = """\
verify: {reviewers: [{name: critic, command: critic}]}
team:
- {name: coder, command: coder, account: bot}
- {name: %s, command: x, account: %s, role: %s}
"""


def test_a_team_is_approved_with_the_place_of_agents():
    policy = read_config(TEAM % ("quant", "quant-bot", "reviewer"), NAME).policy(None, "main")
    assert [(one.name, one.role, one.place) for one in policy.team] == [
        ("coder", "author", policy.agent.place),
        ("quant", "reviewer", policy.agent.place),
    ]


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (("coder", "other", "author"), "two agents have the name coder"),
        (("critic", "other", "author"), "two agents have the name critic"),
        (("quant", "BOT", "author"), "coder and quant have the same account: BOT"),
        (("quant", "other", "boss"), "expected 'author' or 'reviewer', got 'boss'"),
    ],
)
def test_members_that_nobody_could_tell_apart_or_in_an_unknown_role_are_refused(member, said):
    assert said in refusal(TEAM % member)


LEADS = "team:\n- {name: coder, command: x, lead: true}\n- {name: quant, command: x%s}\n"


def test_who_discusses_is_approved_and_is_no_part_of_a_digest_while_unset():
    policy = read_config(LEADS % ", discusses: false" + "toolchain: {discussion: lead}\n", NAME).policy(None, "main")
    assert (policy.discussion, [(one.lead, one.discusses) for one in policy.team]) == (
        "lead",
        [(True, True), (False, False)],
    )
    unset = read_config(TEAM % ("quant", "other", "author"), NAME).policy(None, "main").model_dump()
    assert not {"discussion", "lead", "discusses"} & {*unset, *unset["team"][0]}


def test_a_team_with_two_leads_or_without_the_one_who_is_to_discuss_is_refused():
    assert "coder and quant both lead the team" in refusal(LEADS % ", lead: true")
    nobody = "toolchain: {discussion: lead}\nteam: [{name: coder, command: x}]"
    assert "no member of the team has `lead: true`" in refusal(nobody)


def test_a_member_without_a_program_is_refused():
    assert "coder has no command" in refusal("team: [{name: coder}]")


@pytest.mark.parametrize("rounds", [0, 21, 99999999999999])
def test_a_number_of_rounds_that_never_ends_is_refused(rounds: int):
    with pytest.raises(ConfigRefused, match="rounds"):
        read_config(f"toolchain: {{rounds: {rounds}}}\n", NAME)
    assert read_config("toolchain: {rounds: 20}\n", NAME).toolchain.rounds == 20
