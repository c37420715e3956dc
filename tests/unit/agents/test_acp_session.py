"""A session of the Agent Client Protocol, turn by turn: lines in, lines out, no program."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.agents.acp import AcpSession, SessionEnd
from irontree.domain.permissions import PermissionRule

OPTIONS = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_always", "allow_once", "reject_once")]


class Talk:
    """A session, what it was shown, and the ways to speak to it as an agent."""

    def __init__(self, workspace, *rules: PermissionRule, opened: bool = True) -> None:
        self.workspace = workspace
        self.shown: list[str] = []
        self.session = AcpSession("make it", workspace, rules, self.shown.append)
        self.greeting = json.loads(self.session.begin())
        if opened:
            self.answers(0, protocolVersion=1)
            self.prompt = self.answers(1, sessionId="s")

    def hears(self, message) -> dict | None:
        line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        said = self.session.hear(line + b"\n")
        assert said == b"" or said.endswith(b"\n")
        return json.loads(said) if said else None

    def answers(self, identity: int, **result):
        return self.hears({"id": identity, "result": result})

    def updates(self, kind: str, /, *, session: str = "s", **fields):
        update = {"sessionUpdate": kind, **fields}
        return self.hears({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def says(self, text: str):
        return self.updates("agent_message_chunk", content={"type": "text", "text": text})

    def asks(self, *, options=OPTIONS, identity=9, **call):
        params = {"sessionId": "s", "options": options, "toolCall": {"toolCallId": "t", **call}}
        answer = self.hears({"id": identity, "method": "session/request_permission", "params": params})
        assert answer["id"] == identity
        return answer["result"]["outcome"]


@pytest.fixture
def talk(tmp_path) -> Talk:
    return Talk(tmp_path)


def test_it_greets_offering_neither_files_nor_terminals(tmp_path):
    greeting = Talk(tmp_path, opened=False).greeting
    assert (greeting["method"], greeting["params"]["protocolVersion"]) == ("initialize", 1)
    assert greeting["params"]["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }


def test_it_opens_a_session_in_the_workspace_and_gives_the_prompt(tmp_path):
    talk = Talk(tmp_path, opened=False)
    opens = talk.answers(0, protocolVersion=1, agentInfo={"name": "a", "version": "1"})
    assert (opens["method"], opens["params"]) == ("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    prompts = talk.answers(1, sessionId="s-7")
    assert prompts["method"] == "session/prompt"
    assert prompts["params"] == {"sessionId": "s-7", "prompt": [{"type": "text", "text": "make it"}]}
    assert talk.shown == ["agent: a 1"]


@pytest.mark.parametrize("answer", [{"protocolVersion": 2}, {}, {"protocolVersion": "x" * 9}])
def test_an_agent_that_speaks_another_version_is_told_nothing_more(tmp_path, answer):
    talk = Talk(tmp_path, opened=False)
    after = talk.answers(0, **answer)
    assert talk.session.over == (after is None)


def test_the_turn_ends_with_its_stop_reason_and_what_it_took(talk):
    usage = {"totalTokens": 9, "inputTokens": 5, "outputTokens": 4}
    talk.says("Made it.")
    talk.answers(2, stopReason="end_turn", usage=usage)
    session = talk.session
    assert (session.over, session.ended, session.words) == (True, SessionEnd("end_turn"), "Made it.")
    assert (session.usage.input_tokens, session.usage.output_tokens) == (5, 4)


def test_tokens_in_the_extension_of_gemini_count(talk):
    count = {"input_tokens": 5, "output_tokens": 4}
    talk.answers(2, stopReason="end_turn", _meta={"quota": {"token_count": count}})
    assert (talk.session.usage.input_tokens, talk.session.usage.output_tokens) == (5, 4)


def test_a_stop_reason_that_nobody_knows_is_no_end_of_work(talk):
    talk.answers(2, stopReason="enlightenment")
    assert (talk.session.ended.stop_reason, talk.session.over) == ("", True)


def test_an_error_ends_the_session_with_its_details(talk):
    error = {"code": -32603, "message": "Internal error", "data": {"details": "quota exceeded"}}
    talk.hears({"id": 2, "error": error})
    assert talk.session.ended == SessionEnd("", -32603, "Internal error: quota exceeded")


def test_words_come_in_lines_however_they_are_cut(talk):
    for piece in ("I lo", "ok\nI ma", "ke\n\nDone"):
        talk.says(piece)
    assert talk.shown == ["I look", "I make"]
    talk.answers(2, stopReason="end_turn")
    assert talk.shown == ["I look", "I make", "Done"]


def test_a_remark_of_the_program_is_a_line_of_its_own(talk):
    for piece in ("Info: Trying again...", "Error: no access"):
        talk.says(piece)
    talk.answers(2, stopReason="end_turn")
    assert talk.shown == ["Info: Trying again...", "Error: no access"]


def test_the_last_words_are_those_after_the_last_piece_of_work(talk):
    talk.says("I will look.")
    talk.updates("tool_call", toolCallId="t", title="Read app.py", kind="read")
    talk.says("It is done.")
    assert talk.session.words == "It is done."


def test_tools_plans_and_failures_are_shown_once_each(talk):
    talk.updates("tool_call", toolCallId="t", title="Read app.py", kind="read", status="pending")
    for status in ("in_progress", "failed", "failed"):
        talk.updates("tool_call_update", toolCallId="t", status=status)
    entry = {"content": "Write", "priority": "high"}
    talk.updates("plan", entries=[{**entry, "status": "completed"}, {**entry, "status": "in_progress"}])
    assert talk.shown == ["read: Read app.py", "failed: read: Read app.py", "plan: 1 of 2 done, now: Write"]


def test_the_cost_is_the_highest_that_was_said_in_dollars(talk):
    for amount, currency in ((0.5, "USD"), (0.2, "USD"), (9.0, "EUR")):
        talk.updates("usage_update", used=10, size=100, cost={"amount": amount, "currency": currency})
    assert talk.session.usage.cost_usd == 0.5


@pytest.mark.parametrize("amount", ["NaN", "1e999", "-Infinity", "-1", "9" * 400])
def test_a_cost_that_cannot_be_meant_is_one_that_was_not_said(talk, amount):
    update = f'{{"sessionUpdate":"usage_update","used":1,"size":9,"cost":{{"amount":{amount},"currency":"USD"}}}}'
    talk.hears(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}' % update.encode())
    assert talk.session.usage.cost_usd is None


@pytest.mark.parametrize("count", [-1, 10**400])
def test_tokens_that_cannot_be_meant_were_not_said(talk, count):
    quota = {"quota": {"token_count": {"input_tokens": count, "output_tokens": count}}}
    talk.answers(2, stopReason="end_turn", _meta=quota)
    assert talk.session.usage.known() == {}


def test_the_filling_of_the_context_is_no_usage(talk):
    talk.updates("usage_update", used=10, size=100)
    talk.answers(2, stopReason="end_turn")
    assert talk.session.usage.input_tokens is None


def test_what_is_said_in_another_session_is_not_ours(talk):
    talk.updates("agent_message_chunk", session="other", content={"type": "text", "text": "psst\n"})
    assert (talk.shown, talk.session.words) == ([], "")


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "elicitation/create", "_own/thing", "x"])
@pytest.mark.parametrize("identity", [0, 7, "seven"])
def test_whatever_else_is_asked_is_refused_at_once(talk, method, identity):
    answer = talk.hears({"id": identity, "method": method, "params": {}})
    assert (answer["id"], answer["error"]["code"]) == (identity, -32601)


def test_a_question_that_cannot_be_read_is_refused_at_once(talk):
    answer = talk.hears({"id": 3, "method": "session/request_permission", "params": {"what": 1}})
    assert answer["error"]["code"] == -32602
    assert talk.shown == ["it asked for permission in a way that cannot be read: refused"]


def test_leave_is_given_for_this_once_only(talk):
    path = str(talk.workspace / "app.py")
    assert talk.asks(kind="edit", locations=[{"path": path}]) == {"outcome": "selected", "optionId": "allow_once"}
    assert (talk.session.denied, talk.shown) == ([], ["allowed: edit app.py"])


def test_where_leave_can_only_be_given_for_ever_it_is_denied(talk):
    asked = {"kind": "read", "locations": [{"path": "app.py"}], "title": "Read"}
    assert talk.asks(options=OPTIONS[:1], **asked) == {"outcome": "cancelled"}
    assert talk.session.denied == ["it can only be allowed for ever: read Read"]


@pytest.mark.parametrize(
    "named",
    [
        {"locations": [{"path": "/etc/passwd"}]},
        {"rawInput": {"file_path": "../other/app.py"}},
        {"rawInput": {"cwd": "/"}, "locations": [{"path": "app.py"}]},
        {"content": [{"type": "diff", "path": "/etc/passwd", "newText": ""}]},
        {"locations": [{"path": "~/.ssh/id"}]},
        {"locations": [{"path": "file:///etc/passwd"}]},
        {"locations": [{"path": "link/passwd"}]},
        {"locations": [{"path": "app.py\0"}]},
    ],
)
def test_paths_outside_the_workspace_are_denied_whatever_the_rules_say(tmp_path, named):
    (tmp_path / "link").symlink_to("/etc")
    talk = Talk(tmp_path, PermissionRule(allow=True))
    assert talk.asks(kind="edit", **named)["optionId"] == "reject_once"
    assert talk.session.denied[0].startswith("outside the workspace: edit ")


def test_what_was_said_of_the_tool_before_counts_when_leave_is_asked_for(talk):
    talk.updates("tool_call", toolCallId="t", title="Run", kind="execute", rawInput={"command": "rm -rf x"})
    assert talk.asks()["optionId"] == "reject_once"
    assert talk.session.denied == ["no rule allows: execute rm -rf x"]


@pytest.mark.parametrize(
    "words", ["npm test", ["npm", "test"], ["bash", "-lc", "npm test"], ["/bin/sh", "-c", "npm test"]]
)
def test_a_command_is_one_however_it_is_spelled(tmp_path, words):
    talk = Talk(tmp_path, PermissionRule(tool="execute", match="npm test", allow=True))
    assert talk.asks(kind="execute", title="x", rawInput={"command": words})["optionId"] == "allow_once"


def test_the_same_denial_is_recorded_once(talk):
    for identity in (1, 2, 3):
        talk.asks(kind="fetch", title="Look", rawInput={"url": "https://x"}, identity=identity)
    assert talk.session.denied == ["no rule allows: fetch https://x"]


def test_once_it_is_to_stop_the_turn_is_cancelled_and_so_is_every_question(talk):
    said = json.loads(talk.session.stop())
    assert (said["method"], said["params"], "id" in said) == ("session/cancel", {"sessionId": "s"}, False)
    assert talk.asks(kind="read", locations=[{"path": "app.py"}]) == {"outcome": "cancelled"}
    talk.answers(2, stopReason="cancelled")
    assert talk.session.ended == SessionEnd("cancelled")


def test_before_there_is_a_session_there_is_nothing_to_cancel(tmp_path):
    assert Talk(tmp_path, opened=False).session.stop() == b""


def test_asked_to_stop_before_there_is_a_session_it_gives_no_work(tmp_path):
    talk = Talk(tmp_path, opened=False)
    talk.session.stop()
    talk.answers(0, protocolVersion=1)
    assert talk.answers(1, sessionId="s") is None
    assert talk.session.ended == SessionEnd("cancelled")


@given(
    st.one_of(
        st.binary(),
        st.text().map(str.encode),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(st.characters()),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(
                    st.sampled_from(["id", "method", "params", "result", "error", "code", "update", "sessionId"]), inner
                )
            ),
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_nothing_that_an_agent_may_say_raises_an_error(tmp_path_factory, line):
    talk = Talk(tmp_path_factory.getbasetemp())
    said = talk.session.hear(line.replace(b"\n", b" ") + b"\n")
    assert said == b"" or json.loads(said)["jsonrpc"] == "2.0"


def test_half_a_character_is_no_reason_to_fail(talk):
    talk.hears({"id": "\ud800", "method": "x\ud800"})
    assert talk.asks(kind="edit", title="\ud800")["optionId"] == "reject_once"


def test_a_line_that_is_nested_to_do_harm_is_noise(talk):
    assert talk.hears(b"[" * 200_000) is None
