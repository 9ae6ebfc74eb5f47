"""The MCP server: a client asks the same questions as the command line and gets the same answers, as compact JSON.

A question runs on a thread of its own, so that a slow one holds up no other, and reports that it is still at it. Imported
only by `gemma4 mcp`: it needs the extra `mcp`.
"""

from __future__ import annotations

import errno
import inspect
import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from typing import Annotated, Any

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from infra.errors import Gemma4Error
from infra.ops.mcp_server.confirmation import previewed_or_done
from infra.ops.mcp_server.tool_signatures import description, parameters
from infra.ops.mcp_server.tools import TOOLS, Tool
from infra.ops.program_version import program_version
from infra.ops.terminal.error_output import own_fault

INSTRUCTIONS = """Plans, prices and looks after Gemma 4 served by vLLM on Google Cloud. Begin with `stacks`; `plan` decides and
prices a stack offline; the rest asks what runs. Figures that are predictions come with a band; measured ones do not. What
changes something answers with a preview first: show it to your user, and confirm only what your user wants."""
HOST = "127.0.0.1"
PATH = "/mcp"
_STILL_AT_IT_S = 5.0
MOST_CHARACTERS = 24_000
"""Of one result; a longer one is refused with what to narrow, since it would fill a model's context."""


def make_server(*, allow_changes: bool) -> MCPServer[Any]:
    """Return the server with a tool for each question, and with those that change something only where that is allowed."""
    server: MCPServer[Any] = MCPServer(
        "gemma4", version=program_version(), instructions=INSTRUCTIONS, log_level="WARNING"
    )
    for tool in TOOLS:
        if tool.applies and not allow_changes:
            continue
        server.add_tool(
            _function(tool),
            name=tool.name,
            description=description(tool),
            annotations=ToolAnnotations(read_only_hint=not tool.applies, destructive_hint=bool(tool.applies)),
            structured_output=False,
        )
    return server


def serve_stdio(*, allow_changes: bool) -> None:
    """Serve one client over standard input and output until it hangs up; whatever else is printed goes to standard error."""
    with redirect_stdout(getattr(sys.stdout, "rich_proxied_file", sys.stdout)):  # the bytes are the protocol's
        make_server(allow_changes=allow_changes).run("stdio")


def serve_http(port: int, *, allow_changes: bool) -> None:
    """Serve clients on this machine over streamable HTTP until Ctrl-C. Raises Gemma4Error where the port cannot be had."""
    _must_be_free(port)
    print(f"MCP over HTTP on http://{HOST}:{port}{PATH}, for programs on this machine; Ctrl-C ends it", file=sys.stderr)
    make_server(allow_changes=allow_changes).run("streamable-http", host=HOST, port=port, streamable_http_path=PATH)


def _must_be_free(port: int) -> None:
    """Raise Gemma4Error where the port cannot be listened on, which the SDK says only after it has begun to serve."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError as error:
            why = "something else listens there" if error.errno == errno.EADDRINUSE else error.strerror
            raise Gemma4Error(f"port {port} of {HOST} cannot be used: {why}. Choose another one with --http.") from None


def _function(tool: Tool) -> Callable[..., Any]:
    """Return a coroutine function with the tool's own parameters, as the SDK reads them from a signature."""
    own = [*parameters(tool)]

    async def answer(ctx: Context[Any, Any], **arguments: Any) -> str:
        confirm = arguments.pop("confirm", "")
        work = partial(_said_or_refused, tool, arguments, confirm)
        said: str | ToolError = ""
        async with anyio.create_task_group() as group:
            group.start_soon(_say_still_at_it, ctx, tool.command)
            said = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
            group.cancel_scope.cancel()
        if isinstance(said, ToolError):
            raise said
        return said

    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)
    own += [_CONFIRM] if tool.applies else []
    signature = inspect.Signature([context, *own], return_annotation=str)
    answer.__signature__ = signature  # type: ignore[attr-defined]
    answer.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()} | {"return": str}
    return answer


_CONFIRM = inspect.Parameter(
    "confirm",
    inspect.Parameter.KEYWORD_ONLY,
    default="",
    annotation=Annotated[str, Field(description="The code of the preview; without it nothing is changed.")],
)


def _said_or_refused(tool: Tool, arguments: dict[str, Any], confirm: str) -> str | ToolError:
    """Return the answer as compact JSON, or the sentence that a user would read: raised among tasks it would be wrapped."""
    try:
        if tool.applies:
            data = previewed_or_done(tool, arguments, confirm)
        else:
            data = tool.call(**arguments).model_dump(mode="json", by_alias=True)
    except Gemma4Error as error:
        return ToolError(str(error))
    except Exception as error:
        return ToolError(own_fault(error))
    said = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    if len(said) > MOST_CHARACTERS:
        narrow = ", ".join(inspect.signature(tool.function).parameters) or "use the command itself"
        return ToolError(
            f"{tool.command} answered with {len(said):,} characters, which would fill your context; ask for less: {narrow}."
        )
    return said


async def _say_still_at_it(ctx: Context[Any, Any], command: str) -> None:
    began = time.monotonic()
    while True:
        await anyio.sleep(_STILL_AT_IT_S)
        waited = time.monotonic() - began
        await ctx.report_progress(waited, message=f"gemma4 {command}: at it for {waited:.0f} s")
