"""An agent that asks for permission gets it by the approved rules; what they do not know is denied."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from irontree.domain.permissions import PermissionRule, ToolRequest, denials, entry_of, missing_rule


def rule(tool: str, match: str = "*", *, allow: bool = True) -> PermissionRule:
    return PermissionRule(tool=tool, match=match, allow=allow)


def edit(*paths: str) -> ToolRequest:
    return ToolRequest("edit", "Edit something", paths=paths)


def execute(command: str) -> ToolRequest:
    return ToolRequest("execute", "Run something", command=command)


@pytest.mark.parametrize("tool", ["read", "search", "edit", "move", "delete"])
def test_without_rules_files_of_the_workspace_may_be_read_and_changed(tool):
    assert denials((), ToolRequest(tool, paths=("src/app.py",))) == ()


@pytest.mark.parametrize(
    "request_",
    [execute("ls"), ToolRequest("fetch", address="https://x"), ToolRequest("other", "Something"), ToolRequest("edit")],
    ids=lambda request: request.tool,
)
def test_without_rules_everything_else_is_denied(request_):
    (denied,) = denials((), request_)
    assert denied.startswith("no rule allows: ")


def test_a_command_is_no_edit_whatever_it_is_called():
    assert denials((), ToolRequest("edit", command="rm -rf .", paths=("app.py",)))


def test_outside_the_workspace_no_rule_helps():
    request = ToolRequest("edit", paths=("app.py",), outside=("/etc/passwd",))
    assert denials((rule("*"),), request) == ("outside the workspace: edit /etc/passwd",)


def test_the_first_rule_that_fits_counts():
    forbids, allows = rule("execute", "npm publish*", allow=False), rule("execute", "npm *")
    assert denials((forbids, allows), execute("npm publish --dry-run")) == (
        "a rule forbids: execute npm publish --dry-run",
    )
    assert denials((allows, forbids), execute("npm publish --dry-run")) == ()


def test_a_rule_can_forbid_what_is_allowed_without_one():
    assert denials((rule("edit", "*.lock", allow=False),), edit("poetry.lock")) == ("a rule forbids: edit poetry.lock",)


def test_each_path_needs_leave():
    rules = (rule("edit", "guide/*", allow=False),)
    assert denials(rules, edit("src/app.py", "guide/app.md")) == ("a rule forbids: edit guide/app.md",)


@pytest.mark.parametrize(
    "joined",
    [
        "npm test; rm -rf ~",
        "npm test && x",
        "npm test | sh",
        "npm test $(x)",
        "npm test `x`",
        "npm test\nx",
        "npm t > f",
    ],
)
def test_a_glob_lets_no_second_command_through(joined):
    assert denials((rule("execute", "npm *"),), execute(joined))
    assert not denials((rule("execute", joined.replace("*", "[*]")),), execute(joined))
    assert not denials((rule("execute"),), execute(joined))


def test_a_glob_that_forbids_is_not_escaped_by_joining():
    assert denials((rule("execute", "*rm *", allow=False), rule("execute")), execute("ls; rm -rf ."))


def test_a_kind_of_tool_that_does_not_exist_is_no_rule():
    with pytest.raises(ValidationError, match="'execute'"):
        rule("exec")


def test_the_words_of_the_agent_stand_for_a_command_only_where_it_names_none():
    assert denials((rule("execute", "npm test"),), ToolRequest("execute", "npm test", command="curl x"))
    assert not denials((rule("execute", "npm test"),), ToolRequest("execute", "npm test"))


def test_an_address_is_what_a_rule_for_fetching_is_about():
    request = ToolRequest("fetch", "Look it up", address="https://docs.example/a?b=1&c=2")
    assert not denials((rule("fetch", "https://docs.example/*"),), request)


@pytest.mark.parametrize("command", ["npm test", "echo 'a: b' # c", 'say "hi"', "ls *.py [ab]?", "a && b", "ünicode"])
def test_the_rule_that_is_missed_is_named_as_yaml_that_can_be_added(command):
    (denied,) = denials((), execute(command))
    (found,) = yaml.safe_load(entry_of(missing_rule(denied)))
    assert denials((PermissionRule.model_validate(found),), execute(command)) == ()


@given(st.text(min_size=1), st.sampled_from(["execute", "fetch", "edit", "other"]))
def test_the_rule_that_is_missed_is_the_right_one_or_none_is_named(subject, tool):
    request = ToolRequest(tool, subject, command=subject if tool == "execute" else None)
    named = [missing_rule(denied) for denied in denials((), request)]
    for missing in filter(None, named):
        (found,) = yaml.safe_load(entry_of(missing))
        assert denials((PermissionRule.model_validate(found),), request) == ()


@pytest.mark.parametrize("words", ["outside the workspace: edit /x", "a rule forbids: execute ls", "Bash: ls"])
def test_where_no_rule_is_missed_none_is_named(words):
    assert missing_rule(words) is None


def test_what_is_denied_is_one_line_of_bounded_length():
    (denied,) = denials((), execute("x\n" * 1000))
    assert (len(denied.splitlines()), len(denied) < 250, missing_rule(denied)) == (1, True, None)
