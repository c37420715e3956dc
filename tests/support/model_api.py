"""A loopback stand-in for the model services that agent programs talk to, so that real ones run with no key.

It speaks Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini, each as far as a program needs to get
to its end. `edit` has the agent write a file by a tool call of its own, as a model would; the other modes are failures.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

Mode = Literal["edit", "text", "refusal", "401", "429", "500", "hang"]
Json = Mapping[str, Any]

MADE = "made.txt"
CONTENT = "made by the agent\n"
WORDS = "STUB-OK"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
RETRY_AFTER = 3600
_ERRORS: dict[str, tuple[str, str]] = {
    "401": ("authentication_error", "UNAUTHENTICATED"),
    "429": ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    "500": ("api_error", "INTERNAL"),
}
_ANSWERED = ('"tool_result"', '"function_call_output"', '"role":"tool"', '"functionResponse"')
"""What a request holds once the program has done what was asked of it, in each dialect."""


@dataclass
class ModelApi:
    """The service: how it behaves, the folder that edits go to, and the paths it was asked for."""

    mode: Mode
    workspace: Path
    url: str = ""
    asked: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)


@contextmanager
def model_api(mode: Mode, workspace: Path) -> Iterator[ModelApi]:
    """Serve on a free port of the loopback until the end of the block."""
    api = ModelApi(mode, workspace)

    class Handler(_Handler):
        service = api

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield api
    finally:
        api.stopping.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: ModelApi

    def log_message(self, *_: object) -> None:
        """Say nothing: the test's output is for tests."""

    def do_GET(self) -> None:
        self.service.asked.append(f"GET {self.path}")
        model = {"id": "stub", "object": "model", "created": 0, "owned_by": "stub"}
        self._send(200, json.dumps({"object": "list", "data": [model], "models": []}))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = self._body()
        self.service.asked.append(f"POST {self.path}")
        if "count_tokens" in self.path or "countTokens" in self.path:
            self._send(200, json.dumps({"input_tokens": 10, "totalTokens": 10}))
        elif self.service.mode in _ERRORS:
            self._fail(self.service.mode)
        elif self.service.mode == "hang":
            self.service.stopping.wait(120)
            self.close_connection = True
        else:
            self._answer(json.loads(body or "{}"), body.decode("utf-8", "replace"))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _fail(self, mode: str) -> None:
        kind, status = _ERRORS[mode]
        error = {"type": kind, "message": f"stub says {mode}", "code": int(mode), "status": status}
        self._send(int(mode), json.dumps({"type": "error", "error": error}), retry_after=mode == "429")

    def _answer(self, request: Json, text: str) -> None:
        compact = text.replace('": "', '":"')
        done = any(sign in compact for sign in _ANSWERED)
        refused = self.service.mode == "refusal"
        wanted = self.service.mode == "edit" and not done
        call = _call(request, self.service.workspace / MADE) if wanted else None if refused else _farewell(request)
        for part, dialect in _DIALECTS.items():
            if part in self.path:
                stream = bool(request.get("stream")) or "stream" in self.path
                self._send(200, *dialect(request, call, refused, stream))
                return
        self._send(404, json.dumps({"error": {"message": f"no {self.path}"}}))

    def _send(self, status: int, body: str, kind: str = "application/json", *, retry_after: bool = False) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if retry_after:
            self.send_header("Retry-After", str(RETRY_AFTER))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@dataclass(frozen=True)
class Call:
    """A tool call: the tool's name and its arguments."""

    name: str
    arguments: Json


def _tools(request: Json) -> set[str]:
    """The names of the tools that a request offers, in any dialect."""
    names: set[str] = set()
    for tool in request.get("tools") or []:
        inner = tool.get("function") or tool
        names |= {item["name"] for item in tool.get("functionDeclarations", [])}
        names |= {str(inner.get("name") or inner.get("type") or "")}
    return names


def _call(request: Json, target: Path) -> Call | None:
    """The call by which this program writes *target*, or the text where it knows no tools; None if none can."""
    shell = f"printf '%s' '{CONTENT}' > {target}"
    ways: dict[str, Json] = {
        "Write": {"file_path": str(target), "content": CONTENT},
        "write_file": {"file_path": str(target), "content": CONTENT},
        "write": {"filePath": str(target), "content": CONTENT},
        "create": {"path": str(target), "file_text": CONTENT},
        "exec_command": {"cmd": shell},
        "shell_command": {"command": shell},
        "shell": {"command": ["sh", "-c", shell]},
        "bash": {"command": shell},
    }
    offered = _tools(request)
    if "messages" in request and not offered:
        return Call("", {"text": f"{target.name}\n```\n{CONTENT}```\n"})
    return next((Call(name, arguments) for name, arguments in ways.items() if name in offered), None)


def _farewell(request: Json) -> Call | None:
    """The call that some programs have instead of a last word."""
    return Call("bash", {"command": SUBMIT}) if _tools(request) == {"bash"} else None


def _events(items: list[tuple[str, Json]]) -> str:
    return "".join(f"{f'event: {name}' + chr(10) if name else ''}data: {json.dumps(item)}\n\n" for name, item in items)


SSE = "text/event-stream"


def _anthropic(request: Json, call: Call | None, refused: bool, stream: bool) -> tuple[str, str]:
    usage = {"input_tokens": 10, "output_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    reason = "tool_use" if call else "refusal" if refused else "end_turn"
    block: dict[str, Any] = {"type": "text", "text": WORDS}
    delta: dict[str, Any] = {"type": "text_delta", "text": WORDS}
    empty: dict[str, Any] = {"type": "text", "text": ""}
    if call:
        block = {"type": "tool_use", "id": "toolu_1", "name": call.name, "input": call.arguments}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
        empty = {**block, "input": {}}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model", "stub")}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    if not stream:
        return json.dumps({**message, "content": [block], "stop_reason": reason}), "application/json"
    end = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}}
    items: list[tuple[str, Json]] = [
        ("message_start", {"type": "message_start", "message": message}),
        ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": empty}),
        ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        ("message_delta", {**end, "usage": {"output_tokens": 3}}),
        ("message_stop", {"type": "message_stop"}),
    ]
    return _events(items), SSE


def _responses(_: Json, call: Call | None, refused: bool, stream: bool) -> tuple[str, str]:
    part = {"type": "refusal", "refusal": "I will not."} if refused else {"type": "output_text", "text": WORDS}
    item: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    item["content"] = [{**part, "annotations": []}]
    if call:
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": call.name, "status": "completed"}
        item["arguments"] = json.dumps(call.arguments)
    usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": "stub"}
    whole |= {"output": [item], "usage": usage}
    if not stream:
        return json.dumps(whole), "application/json"
    begun = {**whole, "status": "in_progress", "output": []}
    items: list[tuple[str, Json]] = [
        ("response.created", {"type": "response.created", "response": begun}),
        ("response.output_item.added", {"type": "response.output_item.added", "output_index": 0, "item": item}),
        ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
        ("response.completed", {"type": "response.completed", "response": whole}),
    ]
    return _events(items), SSE


def _chat(request: Json, call: Call | None, refused: bool, stream: bool) -> tuple[str, str]:
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    reason = "tool_calls" if call else "content_filter" if refused else "stop"
    message: dict[str, Any] = {"role": "assistant", "content": WORDS}
    if call and not call.name:  # a program that reads its edits from the answer's text
        message["content"] = str(call.arguments["text"])
        reason = "stop"
    elif call:
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        message["tool_calls"] = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
    base = {"id": "c1", "created": 0, "model": request.get("model", "stub")}
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return json.dumps(
            {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        ), "application/json"
    base["object"] = "chat.completion.chunk"
    items: list[tuple[str, Json]] = [
        ("", {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
        ("", {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}),
    ]
    return _events(items) + "data: [DONE]\n\n", SSE


def _gemini(request: Json, call: Call | None, refused: bool, stream: bool) -> tuple[str, str]:
    part: Json = {"functionCall": {"name": call.name, "args": call.arguments}} if call else {"text": WORDS}
    if "responseJsonSchema" in request.get("generationConfig", {}):  # which model is to be asked: no turn of the agent
        part = {"text": json.dumps({"reasoning": "", "complexity_reasoning": "", "complexity_score": 1})}
    candidate = {"content": {"role": "model", "parts": [part]}, "index": 0}
    candidate["finishReason"] = "SAFETY" if refused else "STOP"
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}
    return (f"data: {json.dumps(whole)}\n\n", SSE) if stream else (json.dumps(whole), "application/json")


_DIALECTS = {
    "/messages": _anthropic,
    "/responses": _responses,
    "/chat/completions": _chat,
    "enerateContent": _gemini,
}
