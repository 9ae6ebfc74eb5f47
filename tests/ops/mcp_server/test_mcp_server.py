"""A real MCP client asks the server: every question of the command line, and changes only after they were confirmed."""

from __future__ import annotations

import inspect
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from infra.errors import Gemma4Error
from infra.ops.answers.answer_base import JsonAnswer
from infra.ops.command_line.all_commands import whole_command
from infra.ops.mcp_server import serve_tools, tools
from infra.ops.mcp_server.serve_tools import make_server
from infra.ops.mcp_server.tool_signatures import parameters
from infra.ops.mcp_server.tools import NO_TOOLS, TOOLS, Tool
from tests import command_pages
from tests.fakes.ports import ReservedPort
from tests.ops.mcp_server.sessions import asked, call
from tests.projects import ROOT


def names(server: Any) -> list[str]:
    """The tools that a client is offered."""

    async def talk(client: Client) -> list[str]:
        return [one.name for one in (await client.list_tools()).tools]

    listed: list[str] = asked(server, talk)
    return listed


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


class TestEveryCommand:
    def test_is_a_tool_or_says_why_not(self) -> None:
        commands = {" ".join(words) for words, _ in command_pages.commands()}
        assert {one.command for one in TOOLS} | set(NO_TOOLS) == commands
        assert {one.command for one in TOOLS} & set(NO_TOOLS) == set()

    @pytest.mark.parametrize("tool", TOOLS, ids=lambda one: one.name)
    def test_has_the_parameters_of_its_command_with_their_help(self, tool: Tool) -> None:
        found: Any = whole_command()
        for word in tool.command.split():
            found = found.commands[word]
        own = [*parameters(tool)]
        hidden = {*inspect.signature(tool.function).parameters.values()} - {*own}
        assert all(one.annotation.__metadata__[0].description for one in own)
        assert all(
            one.default is not inspect.Parameter.empty for one in hidden if one.name not in {o.name for o in own}
        )
        assert not tool.applies or tool.applies in {one.name for one in found.params}


class TestAClient:
    def test_is_offered_only_questions(self) -> None:
        assert names(make_server(allow_changes=False)) == [one.name for one in TOOLS if not one.applies]

    def test_is_offered_changes_where_they_are_allowed(self) -> None:
        assert names(make_server(allow_changes=True)) == [one.name for one in TOOLS]

    def test_gets_the_answer_of_the_command_line(self) -> None:
        failed, text = call("stacks")
        printed = subprocess.run([sys.executable, "-c", _GEMMA4, "stacks", "--json"], capture_output=True, check=True)
        assert not failed
        assert json.loads(text) == json.loads(printed.stdout)
        assert "\n" not in text

    def test_gets_a_plan_in_words(self) -> None:
        failed, text = call("plan", stack="l4", assignments=["serving.maxModelLen=4096"])
        assert not failed
        assert re.search("Price .*/hour running", json.loads(text)["text"])

    def test_gets_a_user_s_fault_as_the_sentence_that_a_user_reads(self) -> None:
        assert call("plan", stack="l5") == (True, _anything("there is no stack file Pulumi.l5.yaml"))

    @pytest.mark.parametrize(("name", "beyond"), [("logs", {"limit": 0}), ("cost", {"hours_a_day": 25})])
    def test_is_held_to_the_limits_of_the_command_s_options(self, name: str, beyond: dict[str, Any]) -> None:
        assert call(name, stack="l4", **beyond) == (True, _anything(f"{next(iter(beyond))}\n  Input should be"))

    def test_gets_an_unexpected_fault_without_a_traceback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tools, "import_module", lambda _: (_ for _ in ()).throw(ZeroDivisionError("by nought")))
        server = Tool("stacks", "a:b")
        assert "this is a fault of gemma4 itself (ZeroDivisionError: by nought" in str(
            serve_tools._said_or_refused(server, {}, "")
        )

    def test_is_told_to_narrow_what_would_fill_its_context(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(serve_tools, "MOST_CHARACTERS", 100)
        assert call("explain", key="serving") == (True, _anything("would fill your context; ask for less: key"))

    def test_hears_that_a_slow_answer_is_still_being_worked_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(serve_tools, "_STILL_AT_IT_S", 0.001)
        heard: list[str] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append(message or "")

        async def talk(client: Client) -> None:
            await client.call_tool("recommend", {"users": 8}, progress_callback=hear)

        asked(make_server(allow_changes=False), talk)
        assert heard
        assert re.fullmatch(r"gemma4 recommend: at it for \d+ s", heard[0])


class Deed(JsonAnswer):
    """What a deed would do."""

    would: str


class TestAChange:
    """A deed that counts how often it was done."""

    @pytest.fixture
    def deeds(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        done: list[str] = []

        def deed(stack: str, delete: bool = False) -> Deed:
            if delete:
                done.append(stack)
            return Deed(would=f"delete {stack}")

        monkeypatch.setattr(Tool, "function", property(lambda _: deed))
        monkeypatch.setattr(serve_tools, "TOOLS", (Tool("tpu ended", "a:b", applies="delete"),))
        return done

    def test_is_shown_first_and_done_once_it_is_confirmed(self, deeds: list[str]) -> None:
        _, shown = call("tpu_ended", allow_changes=True, stack="v6e4")
        preview = json.loads(shown)
        assert (preview["done"], preview["preview"]["would"], deeds) == (False, "delete v6e4", [])
        _, said = call("tpu_ended", allow_changes=True, stack="v6e4", confirm=preview["confirm"])
        assert (json.loads(said)["done"], deeds) == (True, ["v6e4"])

    def test_of_something_else_is_not_confirmed_by_that_code(self, deeds: list[str]) -> None:
        code = json.loads(call("tpu_ended", allow_changes=True, stack="v6e4")[1])["confirm"]
        assert call("tpu_ended", allow_changes=True, stack="v6e8", confirm=code) == (
            True,
            _anything("Nothing was changed"),
        )
        assert deeds == []

    def test_has_no_parameter_that_would_do_it_at_once(self, deeds: list[str]) -> None:
        call("tpu_ended", allow_changes=True, stack="v6e4", delete=True)
        assert deeds == []


class TestTransports:
    """The command as a process of its own."""

    def test_standard_input_and_output_carry_nothing_else(self) -> None:
        server = StdioServerParameters(command=sys.executable, args=["-c", _GEMMA4, "mcp"], cwd=str(ROOT))
        assert "plan" in names(server)

    def test_http_on_a_port_in_use_is_one_clean_error(self) -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as taken,
            pytest.raises(Gemma4Error, match="something else listens"),
        ):
            serve_tools.serve_http(taken.getsockname()[1], allow_changes=False)

    def test_http_is_bound_to_this_machine(self) -> None:
        with http_server() as port:
            assert "plan" in names(f"http://127.0.0.1:{port}/mcp")
            assert refused_host(port) == "421"


_GEMMA4 = "import sys; from infra.ops.cli import main; sys.argv[0] = 'gemma4'; main()"


def _anything(part: str) -> Any:
    """Equal to every text with that part."""

    class Holds(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return self in str(other)

        __hash__ = str.__hash__

    return Holds(part)


@contextmanager
def http_server() -> Iterator[int]:
    """The command with --http, until the block ends."""
    reserved = ReservedPort()
    port = reserved.number
    process = subprocess.Popen([sys.executable, "-c", _GEMMA4, "mcp", "--http", str(port)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(30)
        reserved.close()


def refused_host(port: int) -> str:
    """The status that a request with another machine's name gets, as a page of a browser would send it after DNS rebinding."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        body = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
        head = f"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(
            f"{head}Accept: application/json, text/event-stream\r\nConnection: close\r\n\r\n{body}".encode()
        )
        return connection.recv(100).decode().split()[1]
