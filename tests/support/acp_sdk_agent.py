"""The agent of `acp_agent.py` with the protocol's SDK between it and its client: `python acp_sdk_agent.py WAY...`.

Each message of either side becomes a model of the SDK, and it must be the whole message.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import acp
from acp import schema
from pydantic import BaseModel

sys.path.append(str(Path(__file__).parent))
from acp_agent import Agent, Refused

Message = TypeVar("Message", bound=BaseModel)


def as_model(model: type[Message], message: Mapping[str, Any]) -> Message:
    """The message as the SDK understands it; raises AssertionError if that leaves anything out."""
    understood = model.model_validate(message)
    assert as_message(understood) == message, understood
    return understood


def as_message(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class SdkClient:
    """The client, as the SDK offers it to agents."""

    def __init__(self, client: acp.Client) -> None:
        self._client = client

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        assert method == "session/update"
        note = as_model(schema.SessionNotification, params)
        await self._client.session_update(note.session_id, note.update)

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        try:
            return await self._ask(method, params)
        except acp.RequestError as error:
            raise Refused(error.code, str(error)) from error

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        match method:
            case "session/request_permission":
                asked = as_model(schema.RequestPermissionRequest, params)
                answer = await self._client.request_permission(asked.session_id, asked.tool_call, asked.options)
                return as_message(answer)
            case "fs/read_text_file":
                wanted = as_model(schema.ReadTextFileRequest, params)
                return await self._client.read_text_file(wanted.session_id, wanted.path)
            case _:
                return await self._client.ext_method(method.removeprefix("_"), dict(params))


class SdkAgent:
    """The agent, as the SDK calls it."""

    def __init__(self, ways: list[str]) -> None:
        self._ways = ways

    def on_connect(self, client: acp.Client) -> None:
        self._agent = Agent(self._ways, SdkClient(client))

    async def initialize(self, protocol_version: int, **_: object) -> schema.InitializeResponse:
        answer = await self._agent.initialize({"protocolVersion": protocol_version})
        return as_model(schema.InitializeResponse, answer)

    async def new_session(self, cwd: str, **_: object) -> schema.NewSessionResponse:
        try:
            return as_model(schema.NewSessionResponse, await self._agent.new_session({"cwd": cwd}))
        except Refused as error:
            raise acp.RequestError.auth_required() from error

    async def prompt(self, session_id: str, prompt: list[BaseModel], **_: object) -> schema.PromptResponse:
        params = {"sessionId": session_id, "prompt": [as_message(piece) for piece in prompt]}
        try:
            return as_model(schema.PromptResponse, await self._agent.prompt(params))
        except Refused as error:
            raise acp.RequestError(error.code, error.message, error.data) from error

    async def cancel(self, session_id: str, **_: object) -> None:
        await self._agent.cancel({"sessionId": session_id})


if __name__ == "__main__":
    asyncio.run(acp.run_agent(SdkAgent(sys.argv[1:])))
