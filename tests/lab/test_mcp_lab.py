"""A real MCP client asks about a real vLLM server: the tools that take a URL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import servers
from tests.lab.servers import LAB, TOOLS, RealVllm
from tests.ops.mcp_server.sessions import call

pytestmark = [pytest.mark.lab, pytest.mark.skipif(LAB is None, reason=servers.NO_LAB)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    assert LAB is not None
    with servers.running(LAB / "tiny", tmp_path_factory.mktemp("mcp"), *TOOLS) as started:
        servers.wait_until_healthy(started)
        yield started


@pytest.mark.parametrize(
    ("tool", "arguments", "key"),
    [
        ("status", {}, "server"),
        ("check", {}, "servers"),
        ("metrics", {"interval": 0.5}, "members"),
        ("memory", {}, "members"),
        ("ask", {"question": "Why is the sky blue?", "max_tokens": 8}, "content"),
        ("diagnose", {}, "looked"),
        ("evaluate", {"tasks": ["arithmetic"]}, "verdict"),
    ],
)
def test_a_tool_answers_about_a_real_server(
    server: RealVllm, tool: str, arguments: dict[str, Any], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed, text = call(tool, url=server.url, **arguments)
    assert not failed, text
    assert key in json.loads(text)
