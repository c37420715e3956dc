"""What members say about an issue: what can be used of it, how it is told, and the document that it comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.claims import Claim, Contributed, breakdown, contribution_of, prose, read_contribution
from irontree.domain.commands import parse_command
from irontree.domain.review import InvalidAnswer
from irontree.domain.spec import read_requirements
from irontree.errors import RequirementsRefused

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def claim(title: str = "Risk limit", **changes: Any) -> dict[str, Any]:
    return {"title": title, "task": "Stop after three losses.", "criteria": ["it stops `$ pytest -k risk`"]} | changes


def answer(*claims: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({"position": "I know risk.", "claims": claims} | changes).encode()


def read(*claims: dict[str, Any], **changes: Any) -> str:
    found = read_contribution(answer(*claims, **changes), ())
    assert isinstance(found, str), found.problems
    return found


def refused(content: bytes) -> str:
    found = read_contribution(content, ())
    assert isinstance(found, InvalidAnswer)
    return "; ".join(found.problems)


def contributed(member: str, *claims: dict[str, Any], **changes: Any) -> Contributed:
    return Contributed(member, contribution_of(read(*claims, **changes)))


def test_an_answer_is_told_in_words():
    said = read(claim(depends=["Data"]), claim("Data", kind="feat"), advice="Use averages.", risks=["slippage"])
    told = "(feature): Stop after three losses. It is done when: it stops `$ pytest -k risk`."
    assert prose(contribution_of(said)) == (
        "I know risk.\n\nUse averages.\n\nTakes on:\n\n"
        f"- **Risk limit** {told} After: Data.\n- **Data** {told}\n\n"
        "Risks:\n\n- slippage"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"I would rather write prose.", "Invalid JSON"),
        (b"\xff\xfe", "Invalid JSON"),
        (b"[" * 50_000, "Invalid JSON"),
        (answer(position=" "), "position"),
        (b"{}", "position: Field required"),
        (answer(mood="good"), "mood: Extra inputs are not permitted"),
        (answer(claim("Notes")), "claim 1: “Notes” cannot be a title"),
        (answer(claim("Part\n## Other")), "claims.0.title"),
        (answer(claim("@everyone")), "claims.0.title"),
        (answer(claim(criteria=[])), "claims.0.criteria"),
        (answer(claim(criteria=["a\n- [ ] b"])), "claims.0.criteria.0"),
        (answer(claim(kind="poem")), "claims.0.kind"),
        (answer(claim(depends=["<!-- nothing -->"])), "claims.0.depends.0"),
        (answer(claim("Risk  limit")), "claim 1: it does not read as one task with 1 criteria"),
        (answer(*[claim(f"Part {n}") for n in range(13)]), "claims"),
        (answer(advice="x" * 3_900, position="y" * 3_900, risks=["z" * 400]), "longer than 8,000 characters in all"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused_with_the_reason(content, why):
    assert why in refused(content)


def test_what_is_kept_of_an_answer_has_no_secret_and_no_marker():
    said = read(claim(task=f"<!-- irontree:asked:x -->use {TOKEN}\u200b"), position="hunter2 and <!-- irontree:x -->")
    assert TOKEN not in said
    assert "irontree" not in said
    assert "\u200b" not in said
    kept = read_contribution(answer(position="hunter2"), {"hunter2"})
    assert isinstance(kept, str)
    assert "hunter2" not in kept


def test_claims_become_a_document_whose_tasks_are_the_parts_of_the_issue():
    found = breakdown(
        100,
        "Two-average strategy",
        (
            contributed("quant", claim("Strategy", kind="impl", depends=["risk limit", "#7"])),
            contributed("coder", claim()),
            Contributed("tester", None),
        ),
    )
    assert found.text == (
        "# Two-average strategy\n\nParent: #100\n\n## Strategy\n\nType: impl\nDepends on: Risk limit, #7\n\n"
        "> Stop after three losses.\n\n- [ ] it stops `$ pytest -k risk`\n\n## Risk limit\n\nType: feature\n\n"
        "> Stop after three losses.\n\n- [ ] it stops `$ pytest -k risk`\n"
    )
    assert (found.claimed, found.repeated) == ((("Strategy", "quant"), ("Risk limit", "coder")), ())
    assert found.absent == ("tester",)
    document = read_requirements(found.text.encode(), "draft", known_issues={7: "prices"})
    assert document.divides == 100
    assert [node.depends_on for node in document.nodes] == [("prices", "risk-limit"), ()]


def test_of_a_part_that_is_claimed_twice_the_first_counts_and_that_is_said():
    found = breakdown(100, "x", (contributed("quant", claim()), contributed("coder", claim("risk Limit", task="No."))))
    assert found.claimed == (("Risk limit", "quant"),)
    assert found.repeated == (("risk Limit", "coder"),)
    assert "No." not in found.text


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ((claim(depends=["Login"]),), "Login"),
        ((claim(depends=["#7"]),), "#7"),
        ((claim("A", depends=["B"]), claim("B", depends=["A"])), "cycle"),
        ((), "no acceptance criterion"),
    ],
)
def test_what_depends_on_something_unknown_or_on_itself_cannot_be_approved(claims, said):
    text = breakdown(100, "x", (contributed("quant", *claims),)).text
    with pytest.raises(RequirementsRefused, match=f"(?i){said}"):
        read_requirements(text.encode(), "draft")


@pytest.mark.parametrize("title", ["Notes", "", "# <!--", "```", "@everyone `x` [y](z)", "a\n## b"])
def test_any_title_of_an_issue_makes_a_title_of_a_document(title):
    text = breakdown(100, title, (contributed("quant", claim()),)).text
    assert [node.title for node in read_requirements(text.encode(), "draft").nodes] == ["Risk limit"]


PIECES = st.sampled_from(
    [
        *("x", " ", "\n", "\n\n", "# A", "## B\n", "Key: z\n", "Depends on: Login\n", "(depends on 2)", "- [ ] c\n"),
        *("`$ rm -rf /`", "```\n", "~~~\n", "<!--", "-->", "---\n", "Parent: #7\n", "@ada", "fixes #1", "/approve x\n"),
        *(
            "| a |\n|---|\n",
            "    code",
            "> q",
            "<b>",
            "(manual)",
            "(check: y)",
            "\u202e",
            "\\",
            "*",
            "Verification\n===",
        ),
    ]
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_whatever_members_say_they_add_no_task_and_nothing_has_an_effect(title, task, criterion, position):
    found = read_contribution(answer(claim(title, task=task, criteria=[criterion]), position=position), ())
    if isinstance(found, InvalidAnswer):
        return
    said = contribution_of(found)
    text = breakdown(100, "x", (Contributed("quant", said),)).text
    document = read_requirements(text.encode(), "draft")
    [node] = document.nodes
    assert (document.divides, node.title, node.depends_on, len(node.criteria)) == (100, said.claims[0].title, (), 1)
    assert node.verification == ()
    told = prose(said)
    assert "@ada" not in told
    assert "@ada" not in text
    assert "fixes #1" not in told
    assert parse_command(f"[quant] {told}\n\n<!-- irontree:asked:x -->") is None or "/approve" in position


def test_two_claims_with_equal_keys_are_one_part():
    assert Claim(title="Risk limit", criteria=("x",)).key == Claim(title="risk Limit", criteria=("y",)).key
