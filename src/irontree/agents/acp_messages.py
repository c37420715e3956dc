"""The messages of the Agent Client Protocol, version 1: JSON-RPC 2.0, one a line, in the SDK's models.

Only the models of the SDK are used. What an agent sends is read leniently: a part that is no part of the protocol
is left out.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from acp import schema
from acp.meta import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION
from pydantic import BaseModel, ValidationError

from irontree import __version__
from irontree.agents.reading import count, money
from irontree.domain.attempt import Usage

INITIALIZE: Final = AGENT_METHODS["initialize"]
NEW_SESSION: Final = AGENT_METHODS["session_new"]
PROMPT: Final = AGENT_METHODS["session_prompt"]
CANCEL: Final = AGENT_METHODS["session_cancel"]
ASK_PERMISSION: Final = CLIENT_METHODS["session_request_permission"]
UPDATE: Final = CLIENT_METHODS["session_update"]
VERSION: Final = PROTOCOL_VERSION

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
AUTH_REQUIRED: Final = -32000

M = TypeVar("M", bound=BaseModel)

_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash"})
_FOLDER_KEYS: Final = frozenset({"cwd", "dir", "directory", "file", "filename", "workdir"})


@dataclass(frozen=True, slots=True)
class Greeting:
    """What an agent says of itself."""

    version: int
    name: str
    logins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What is known of one use of a tool; a later message about the same one leaves out what has not changed."""

    identity: str
    tool: str | None = None
    title: str | None = None
    status: str | None = None
    command: str | None = None
    address: str | None = None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """How far its own plan is, and what it is at."""

    done: int
    steps: int
    current: str


Update = ToolCall | Planned | str | float
"""Text is a piece of what the agent says to the user; a number what the session has cost so far, in US dollars."""


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """A question, with the ids of the answers that may be given: yes and no, for this once if possible."""

    call: ToolCall
    yes: str | None
    no: str | None


def read(line: bytes) -> Any:
    """The message that a line is; None for what is no JSON, no UTF-8, or nested to do harm."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def initialize(identity: int) -> bytes:
    """Our greeting: files and terminals are the agent's own affair, it works with its own hands."""
    return _request(
        identity,
        INITIALIZE,
        schema.InitializeRequest(
            protocol_version=VERSION,
            client_capabilities=schema.ClientCapabilities(
                fs=schema.FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
            ),
            client_info=schema.Implementation(name="irontree", version=__version__),
        ),
    )


def new_session(identity: int, folder: str) -> bytes:
    """Open a session in *folder*, with no tools but the agent's own."""
    return _request(identity, NEW_SESSION, schema.NewSessionRequest(cwd=folder, mcp_servers=[]))


def prompt(identity: int, session: str, text: str) -> bytes:
    """Give the work; the answer comes when it is done."""
    block = schema.TextContentBlock(type="text", text=text)
    return _request(identity, PROMPT, schema.PromptRequest(session_id=session, prompt=[block]))


def cancel(session: str) -> bytes:
    """Ask for an early end: the answer to the prompt says `cancelled` then."""
    return _line({"method": CANCEL, "params": _plain(schema.CancelNotification(session_id=session))})


def answer_permission(identity: int | str, option: str | None) -> bytes:
    """Choose *option*; None says that the whole turn is cancelled."""
    outcome = (
        schema.DeniedOutcome(outcome="cancelled")
        if option is None
        else schema.AllowedOutcome(outcome="selected", option_id=option)
    )
    return _line({"id": identity, "result": _plain(schema.RequestPermissionResponse(outcome=outcome))})


def refuse(identity: int | str, code: int, words: str) -> bytes:
    """Answer with an error: an agent that gets no answer waits for ever."""
    return _line({"id": identity, "error": {"code": code, "message": words}})


def read_greeting(result: Any) -> Greeting | None:
    """What the agent answered to `initialize`; None if that is no answer to it."""
    found = _as(schema.InitializeResponse, result)
    if found is None:
        return None
    info = found.agent_info
    name = f"{info.title or info.name} {info.version}".strip() if info else ""
    return Greeting(found.protocol_version, name, tuple(method.name for method in found.auth_methods or ()))


def read_session(result: Any) -> str | None:
    """The id of the new session; None if there is none."""
    found = _as(schema.NewSessionResponse, result)
    return found.session_id if found else None


def read_end(result: Any) -> tuple[str, Usage]:
    """Why the turn ended, in the protocol's word (empty if it is none), and the tokens it took."""
    found = _as(schema.PromptResponse, result)
    if found is None:
        return "", Usage()
    return found.stop_reason, _usage(found)


def _usage(end: schema.PromptResponse) -> Usage:
    """The tokens of the turn; Gemini CLI says them in an extension of its own."""
    match (end.usage, end.field_meta):
        case (schema.Usage(input_tokens=taken, output_tokens=made), _):
            return Usage(count(taken), count(made))
        case (None, {"quota": {"token_count": {"input_tokens": taken, "output_tokens": made}}}):
            return Usage(count(taken), count(made))
        case _:
            return Usage()


def read_update(params: Any, session: str) -> Update | None:
    """What a `session/update` tells; None for another session's, and for what is not used here."""
    found = _as(schema.SessionNotification, params)
    if found is None or found.session_id != session:
        return None
    match found.update:
        case schema.AgentMessageChunk(content=schema.TextContentBlock(text=text)):
            return text
        case schema.ToolCallStart() | schema.ToolCallProgress() as call:
            return _tool_call(call)
        case schema.AgentPlanUpdate(entries=entries):
            current = next((entry.content for entry in entries if entry.status == "in_progress"), "")
            return Planned(sum(entry.status == "completed" for entry in entries), len(entries), current)
        case schema.UsageUpdate(cost=schema.Cost(amount=amount, currency="USD")):
            return money(amount)
        case _:
            return None


def read_permission(params: Any) -> PermissionAsked | None:
    """Which permission is asked for; None if the request cannot be read."""
    found = _as(schema.RequestPermissionRequest, params)
    if found is None:
        return None
    offered = {option.kind: option.option_id for option in reversed(found.options)}
    # `allow_always` would let things through of which we would not be asked.
    no = offered.get("reject_once") or offered.get("reject_always")
    return PermissionAsked(_tool_call(found.tool_call), offered.get("allow_once"), no)


def _tool_call(call: schema.ToolCall | schema.ToolCallUpdate) -> ToolCall:
    named = call.raw_input if isinstance(call.raw_input, Mapping) else {}
    edited = [part.path for part in call.content or () if isinstance(part, schema.FileEditToolCallContent)]
    paths = [*(place.path for place in call.locations or ()), *edited, *_named_paths(named)]
    address = named.get("url")
    return ToolCall(
        identity=call.tool_call_id,
        tool=call.kind,
        title=call.title,
        status=call.status,
        command=_command(named.get("command")),
        address=address if isinstance(address, str) else None,
        paths=tuple(dict.fromkeys(paths)),
    )


def _command(words: Any) -> str | None:
    """A command as one line; of `bash -lc LINE` the line."""
    if isinstance(words, str):
        return words or None
    match words:
        case [str(shell), "-c" | "-lc", str(line)] if shell.rpartition("/")[2] in _SHELLS:
            return line
        case [str(), *rest] if all(isinstance(word, str) for word in rest):
            return shlex.join(words)
        case _:
            return None


def _named_paths(named: Mapping[Any, Any]) -> Iterator[str]:
    for key, value in named.items():
        if str(key).lower().endswith("path") or str(key).lower() in _FOLDER_KEYS:
            yield from (value,) if isinstance(value, str) and value else ()


def fault_words(error: Mapping[str, Any]) -> str:
    """An error as the agent says it, its data among the words."""
    told, data = str(error.get("message", "")), error.get("data")
    details = data.get("details") if isinstance(data, dict) and set(data) == {"details"} else data
    return f"{told}: {details if isinstance(details, str) else json.dumps(details)}" if details else told


def _as(model: type[M], value: Any) -> M | None:
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _plain(model: BaseModel) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def _request(identity: int, method: str, params: BaseModel) -> bytes:
    return _line({"id": identity, "method": method, "params": _plain(params)})


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode("ascii") + b"\n"
