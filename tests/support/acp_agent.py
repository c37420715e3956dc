"""A coding agent that speaks the Agent Client Protocol, with the SDK's agent side: `python acp_agent.py WAY...`.

It edits files with its own hands, as real ones do. Each WAY is one thing that it does in its turn, in that order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import acp
from acp import schema


class Agent:
    """One session; what it does in its turn is said on the command line."""

    def __init__(self, ways: list[str]) -> None:
        self._ways = ways
        self._folder = Path()
        self._session = "session-1"
        self._cancelled = asyncio.Event()
        self._stop_reason = "end_turn"

    def on_connect(self, client) -> None:
        self._client = client

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        version = 2 if "speaks-version-2" in self._ways else protocol_version
        return schema.InitializeResponse(
            protocol_version=version,
            agent_info=schema.Implementation(name="trial", title="Trial agent", version="1.2"),
            auth_methods=[schema.AuthMethodAgent(id="key", name="API key")],
        )

    async def new_session(self, cwd, mcp_servers=None, **_):
        if "is-logged-out" in self._ways:
            raise acp.RequestError.auth_required()
        self._folder = Path(cwd)
        return schema.NewSessionResponse(session_id=self._session)

    async def cancel(self, session_id, **_) -> None:
        self._cancelled.set()

    async def prompt(self, session_id, prompt, **_):
        self._prompt = prompt[0].text
        for way in self._ways:
            name, _, rest = way.partition("=")
            await getattr(self, f"_{name.replace('-', '_')}")(rest)
        usage = schema.Usage(total_tokens=30, input_tokens=20, output_tokens=10)
        return schema.PromptResponse(stop_reason=self._stop_reason, usage=usage)

    async def _says(self, text: str) -> None:
        await self._tell(acp.update_agent_message(acp.text_block(text)))

    async def _says_variable(self, name: str) -> None:
        value = os.environ[name]
        sys.stderr.write(f"{value}\n")
        await self._says(f"my key is {value}\n")
        await self._asks_to_run(f"login {value}")
        await self._says(value)

    async def _writes(self, what: str) -> None:
        """`NAME=TEXT`; without a text, the prompt."""
        name, _, text = what.partition("=")
        await self._tell(acp.start_edit_tool_call("write", f"Write {name}", str(self._folder / name), text))
        (self._folder / name).write_text(text or self._prompt)
        await self._tell(acp.update_tool_call("write", status="completed"))

    async def _asks_to_edit(self, name: str) -> None:
        path = str(self._folder / name)
        allowed = await self._asks(kind="edit", title=f"Edit {name}", locations=[schema.ToolCallLocation(path=path)])
        if allowed:
            (self._folder / name).write_text("edited with leave")

    async def _asks_to_run(self, command: str) -> None:
        if await self._asks(kind="execute", title=f"Run {command}", raw_input={"command": command}):
            await self._says(f"ran {command}\n")

    async def _asks(self, **call) -> bool:
        options = [
            schema.PermissionOption(option_id=kind, name=kind, kind=kind)
            for kind in ("allow_always", "allow_once", "reject_once")
        ]
        asked = schema.ToolCallUpdate(tool_call_id=f"ask-{call['title']}", status="pending", **call)
        answer = await self._client.request_permission(self._session, asked, options)
        chosen = getattr(answer.outcome, "option_id", "cancelled")
        await self._says(f"{call['title']}: {chosen}\n")
        return chosen == "allow_once"

    async def _costs(self, amount: str) -> None:
        cost = schema.Cost(amount=float(amount), currency="USD")
        await self._tell(schema.UsageUpdate(session_update="usage_update", used=5, size=100, cost=cost))

    async def _ends(self, stop_reason: str) -> None:
        self._stop_reason = stop_reason

    async def _fails(self, code: str) -> None:
        raise acp.RequestError(int(code), "the model's service said no", {"details": f"status {code}"})

    async def _asks_for_a_file(self, name: str) -> None:
        try:
            await self._client.read_text_file(self._session, str(self._folder / name))
        except acp.RequestError as error:
            await self._says(f"the file was refused: {error.code}\n")

    async def _asks_the_unknown(self, method: str) -> None:
        try:
            await self._client.ext_method(method, {})
        except acp.RequestError as error:
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

    async def _tell(self, update) -> None:
        await self._client.session_update(self._session, update)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Agent(sys.argv[1:])))
