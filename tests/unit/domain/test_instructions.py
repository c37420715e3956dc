"""Steps and report forms by action and type of task: the file's format, and what is wrong in one."""

from __future__ import annotations

import pytest

from irontree.config_file import load_instructions
from irontree.domain.instructions import (
    NOT_SAID,
    OURS,
    SAID,
    TOLD,
    Instructions,
    filled,
    instructions_for,
    is_report,
    read_instructions,
    untold,
)
from irontree.domain.settings import Toolchain
from irontree.domain.task_types import TASK_TYPES
from irontree.errors import ConfigRefused

BUG = {"steps": ["reproduce it"], "output_template": "[Action Report]\n**Cause**: {root_cause}\n**CI**: {ci_status}"}


def read(**document):
    return read_instructions(document, lambda place: ".".join(map(str, place)))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_shipped_has_steps_for_every_type_and_no_step_that_the_program_takes(language, tmp_path):
    found = load_instructions(Toolchain(language=language), tmp_path)
    assert {each.kind for each in found if each.action == "issue_assigned"} == {*TASK_TYPES}
    assert {each.action for each in found} == {*TOLD}
    assert [*untold(found)] == []
    assert all(each.report.startswith("[Action Report]") for each in found if each.kind)
    assert {name for each in found for name in each.said_by_agent} <= {*SAID}


def test_nothing_is_told_unless_somebody_wants_it(tmp_path):
    assert load_instructions(Toolchain(), tmp_path) == ()


def test_a_file_of_ones_own_is_read_in_the_toolchains_format(tmp_path):
    (tmp_path / "steps.yml").write_text(
        "issue_assigned:\n  feat: {steps: [write it]}\n  default: {steps: [do it]}\nci_failure: {steps: [look]}\n"
    )
    found = load_instructions(Toolchain(templates="steps.yml"), tmp_path)
    assert instructions_for(found, "issue_assigned", "feature").steps == ("write it",)
    assert instructions_for(found, "issue_assigned", "docs").steps == ("do it",)
    assert instructions_for(found, "ci_failure", "docs").steps == ("look",)
    assert instructions_for(found, "review_result", "docs") is None


def test_a_mistake_is_named_with_the_line_it_is_in(tmp_path):
    (tmp_path / "steps.yml").write_text("issue_assigned:\n  bug:\n    steps: [look]\n    output: x\n")
    with pytest.raises(ConfigRefused, match=r"steps\.yml, line 4: unknown key `output`"):
        load_instructions(Toolchain(templates="steps.yml"), tmp_path)


def test_a_file_that_is_not_there_or_is_a_link_is_refused(tmp_path):
    with pytest.raises(ConfigRefused, match=r"no file steps\.yml"):
        load_instructions(Toolchain(templates="steps.yml"), tmp_path)
    (tmp_path / "steps.yml").symlink_to("/etc/hostname")
    with pytest.raises(ConfigRefused, match="or a link is in its place"):
        load_instructions(Toolchain(templates="steps.yml"), tmp_path)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"issue_asigned": {}}, "issue_asigned: unknown action `issue_asigned`; did you mean `issue_assigned`"),
        ({"issue_assigned": {"feature_": BUG}}, "unknown type of task `feature_`; did you mean `feature`"),
        ({"issue_assigned": {"bug": {**BUG, "step": []}}}, "issue_assigned.bug.step: unknown key"),
        ({"issue_assigned": {"bug": {"steps": []}}}, "issue_assigned.bug: `steps` has to be a list of at least one"),
        ({"issue_assigned": {"bug": {}}}, "`steps` has to be"),
        ({"issue_assigned": {"bug": {"steps": "look"}}}, "`steps` has to be"),
        ({"issue_assigned": {"bug": {"steps": ["look at {rot_cause}"]}}}, "placeholder `rot_cause`; did you mean"),
        ({"issue_assigned": {"bug": {**BUG, "output_template": ["x"]}}}, "`output_template` has to be text"),
        ({"issue_assigned": ["bug"]}, "expected keys below it"),
        ({"ci_failure": {"bug": BUG}}, "ci_failure.bug: unknown key `bug`"),
        ({"ci_failure": {"steps": ["look\N{RIGHT-TO-LEFT OVERRIDE}"]}}, "invisible character U\\+202E"),
    ],
)
def test_what_is_wrong_is_refused_and_never_an_empty_list(document, problem):
    with pytest.raises(ConfigRefused, match=problem):
        read(**document)


def test_steps_that_the_program_takes_and_actions_that_nobody_is_told_are_named():
    found = read(
        issue_assigned={"bug": {"steps": ["find it", "git push", "创建 PR", "推送分支"]}}, mention={"steps": ["answer"]}
    )
    assert [*untold(found)] == [
        "issue_assigned.bug: the program does this, not the agent: git push",
        "issue_assigned.bug: the program does this, not the agent: 创建 PR",
        "issue_assigned.bug: the program does this, not the agent: 推送分支",
        "mention: no agent is told these steps",
    ]


def test_a_report_is_filled_in_by_both_and_what_nobody_said_is_named():
    (told,) = read(issue_assigned={"bug": BUG})
    assert told.said_by_agent == ("root_cause",)
    shown = filled(told.report, {"ci_status": "passed"})
    assert shown == f"[Action Report]\n**Cause**: {NOT_SAID}\n**CI**: passed"
    assert "{" not in filled(" ".join(f"{{{name}}}" for name in SAID), {})


def test_a_line_about_what_there_is_not_is_left_out():
    form = "[Action Report]\n**Request**: {pr_number}\n**CI**: {ci_status}\n**Cause**: {root_cause}"
    shown = filled(form, {"pr_number": "", "ci_status": ""})
    assert shown == f"[Action Report]\n**Cause**: {NOT_SAID}"
    assert filled("\n".join(f"{{{name}}}" for name in OURS), {}) == ""


def test_text_that_is_filled_in_is_not_filled_in_again():
    told = Instructions(action="issue_assigned", steps=("x",), report="{root_cause} {title}")
    assert filled(told.report, {"root_cause": "{title}", "title": "t"}) == "{title} t"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Action Report]\n**CI**: passed", True),
        ("\n  \n[action report] done", True),
        ("He wrote `[Action Report]` here", False),
        ("> [Action Report]", False),
        ("", False),
    ],
)
def test_a_report_is_known_by_its_first_line_and_a_quoted_one_is_none(text, expected):
    assert is_report(text) is expected
