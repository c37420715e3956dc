"""A coding agent that speaks the Agent Client Protocol, line by line: `python acp_agent.py WAY...`.

It edits files with its own hands, as real ones do. Each WAY is one thing that it does in its turn, in that order.
It does without the protocol's SDK, whose import takes 0.6 s; `acp_sdk_agent.py` is the same agent with the SDK.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

AUTH_REQUIRED, METHOD_NOT_FOUND = -32000, -32601
SESSION = "session-1"
LONGEST_LINE = 1 << 20


class Refused(Exception):
    """An error of the protocol, which either side answers with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Agent:
    """One session with *client*; what it does in its turn is said on the command line."""

    def __init__(self, ways: list[str], client: Any) -> None:
        self._ways = ways
        self._client = client
        self._folder = Path()
        self._cancelled = asyncio.Event()
        self._stop_reason = "end_turn"

    async def initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "protocolVersion": 2 if "speaks-version-2" in self._ways else params["protocolVersion"],
            "agentInfo": {"name": "trial", "title": "Trial agent", "version": "1.2"},
            "authMethods": [{"id": "key", "name": "API key"}],
        }

    async def new_session(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if "is-logged-out" in self._ways:
            raise Refused(AUTH_REQUIRED, "Authentication required")
        self._folder = Path(params["cwd"])
        return {"sessionId": SESSION}

    async def cancel(self, _: Mapping[str, Any]) -> None:
        self._cancelled.set()

    async def prompt(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._prompt = params["prompt"][0]["text"]
        for way in self._ways:
            name, _, rest = way.partition("=")
            await getattr(self, f"_{name.replace('-', '_')}")(rest)
        usage = {"totalTokens": 30, "inputTokens": 20, "outputTokens": 10}
        return {"stopReason": self._stop_reason, "usage": usage}

    async def _says(self, text: str) -> None:
        await self._tell("agent_message_chunk", content={"type": "text", "text": text})

    async def _says_variable(self, name: str) -> None:
        value = os.environ[name]
        sys.stderr.write(f"{value}\n")
        await self._says(f"my key is {value}\n")
        await self._asks_to_run(f"login {value}")
        await self._says(value)

    async def _writes(self, what: str) -> None:
        """`NAME=TEXT`; without a text, the prompt."""
        name, _, text = what.partition("=")
        path = str(self._folder / name)
        await self._tell(
            "tool_call",
            toolCallId="write",
            title=f"Write {name}",
            kind="edit",
            status="pending",
            locations=[{"path": path}],
            rawInput={"path": path, "content": text},
        )
        (self._folder / name).write_text(text or self._prompt)
        await self._tell("tool_call_update", toolCallId="write", status="completed")

    async def _asks_to_edit(self, name: str) -> None:
        path = str(self._folder / name)
        if await self._asks(kind="edit", title=f"Edit {name}", locations=[{"path": path}]):
            (self._folder / name).write_text("edited with leave")

    async def _asks_to_run(self, command: str) -> None:
        if await self._asks(kind="execute", title=f"Run {command}", rawInput={"command": command}):
            await self._says(f"ran {command}\n")

    async def _asks(self, **call: Any) -> bool:
        options = [
            {"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_always", "allow_once", "reject_once")
        ]
        asked = {"toolCallId": f"ask-{call['title']}", "status": "pending", **call}
        params = {"sessionId": SESSION, "toolCall": asked, "options": options}
        answer = await self._client.request("session/request_permission", params)
        chosen = answer["outcome"].get("optionId", "cancelled")
        await self._says(f"{call['title']}: {chosen}\n")
        return chosen == "allow_once"

    async def _costs(self, amount: str) -> None:
        await self._tell("usage_update", used=5, size=100, cost={"amount": float(amount), "currency": "USD"})

    async def _ends(self, stop_reason: str) -> None:
        self._stop_reason = stop_reason

    async def _fails(self, code: str) -> None:
        raise Refused(int(code), "the model's service said no", {"details": f"status {code}"})

    async def _asks_for_a_file(self, name: str) -> None:
        try:
            await self._client.request("fs/read_text_file", {"sessionId": SESSION, "path": str(self._folder / name)})
        except Refused as error:
            await self._says(f"the file was refused: {error.code}\n")

    async def _asks_the_unknown(self, method: str) -> None:
        try:
            await self._client.request(f"_{method}", {})
        except Refused as error:
            await self._says(f"{method} was refused: {error.code}\n")

    async def _prints(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    async def _complains(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    async def _dies(self, code: str) -> None:
        os._exit(int(code))

    async def _hangs_until_cancelled(self, _: str) -> None:
        await self._cancelled.wait()
        self._stop_reason = "cancelled"

    async def _hangs(self, _: str) -> None:
        await asyncio.Event().wait()

    async def _ignores_signals(self, _: str) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    async def _starts_a_child(self, script: str) -> None:
        await asyncio.create_subprocess_exec("sh", "-c", script, start_new_session=True)

    async def _stays(self, _: str) -> None:
        asyncio.get_running_loop().run_in_executor(None, signal.sigwait, [signal.SIGUSR1])

    async def _speaks_version_2(self, _: str) -> None:
        raise AssertionError("nobody should have opened a session")

    _is_logged_out = _speaks_version_2

    async def _tell(self, what: str, /, **update: Any) -> None:
        await self._client.notify("session/update", {"sessionId": SESSION, "update": {"sessionUpdate": what, **update}})


class Lines:
    """The client at the other end of stdin and stdout: a JSON-RPC message per line."""

    def __init__(self, ways: list[str]) -> None:
        agent = Agent(ways, self)
        self._methods = {
            "initialize": agent.initialize,
            "session/new": agent.new_session,
            "session/prompt": agent.prompt,
            "session/cancel": agent.cancel,
        }
        self._asked: list[asyncio.Future[Any]] = []

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self._send(method=method, params=params)

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._send(id=len(self._asked), method=method, params=params)
        self._asked.append(answer)
        return await answer

    async def listen(self) -> None:
        """Until the client closes its end; it may cancel, and answers, during a turn."""
        reader = asyncio.StreamReader(limit=LONGEST_LINE)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async with asyncio.TaskGroup() as turns:
            while line := await reader.readline():
                message = json.loads(line)
                if "method" in message:
                    turns.create_task(self._obey(message))
                elif error := message.get("error"):
                    self._asked[message["id"]].set_exception(Refused(error["code"], error["message"]))
                else:
                    self._asked[message["id"]].set_result(message["result"])
            raise SystemExit

    async def _obey(self, message: Mapping[str, Any]) -> None:
        try:
            found = {"result": await self._methods[message["method"]](message["params"])}
        except Refused as error:
            found = {"error": {"code": error.code, "message": error.message, "data": error.data}}
        if "id" in message:
            self._send(id=message["id"], **found)

    def _send(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(Lines(sys.argv[1:]).listen())
