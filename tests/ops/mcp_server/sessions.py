"""Calls of MCP tools through a real client session, connected to the server in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import Client

from infra.ops.mcp_server.serve_tools import make_server


def asked(server: Any, talk: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a client gets in a session of its own."""

    async def session() -> Any:
        async with Client(server, read_timeout_seconds=120) as client:
            return await talk(client)

    return anyio.run(session)


def call(name: str, *, allow_changes: bool = False, **arguments: Any) -> tuple[bool, str]:
    """Whether a call failed, and the text of its result."""

    async def talk(client: Client) -> tuple[bool, str]:
        result = await client.call_tool(name, arguments)
        return bool(result.is_error), "".join(getattr(part, "text", "") for part in result.content)

    answered: tuple[bool, str] = asked(make_server(allow_changes=allow_changes), talk)
    return answered
