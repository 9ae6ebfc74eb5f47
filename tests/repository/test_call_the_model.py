"""The page that shows how to call the model: every block runs, and three ways to ask the same do ask the same."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.call_the_model import BEGIN, blocks, headings, run_block, write_files
from tests.fakes.vllm import FakeVllm

CHAT = "/v1/chat/completions"
BLOCKS = blocks()
ASKING = [block for block in BLOCKS if block.heading != BEGIN and not block.file]
needs_curl = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="needs bash and curl")


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


def asked(server: FakeVllm) -> Any:
    """The first question since the last look, without what only says how the answer is handed over."""
    first = server.sent(CHAT)[0]
    server.requests.clear()
    return {key: value for key, value in first.items() if key not in ("model", "stream", "stream_options")}


def test_each_heading_shows_all_three_ways() -> None:
    for heading in headings():
        assert [block.way for block in ASKING if block.heading == heading] == ["openai", "curl", "gemma4"]


def test_every_block_is_one_that_is_run() -> None:
    assert {block.language for block in BLOCKS} == {"python", "sh", "json"}
    assert all(block.file for block in BLOCKS if block.language == "json")
    for file in (block.file for block in BLOCKS if block.file):
        assert sum(file in block.code for block in ASKING) == 3, file


@needs_curl
def test_the_variables_lead_to_the_server(server: FakeVllm, folder: Path) -> None:
    (block,) = (block for block in BLOCKS if (block.heading, block.language) == (BEGIN, "sh"))
    told = replace(block, code=f'{block.code}echo "$OPENAI_BASE_URL"')
    assert run_block(told, server.url, folder) == f"{server.url}/v1\n"


@needs_curl
@pytest.mark.parametrize("heading", headings())
def test_three_ways_ask_the_same_and_are_answered(heading: str, server: FakeVllm, folder: Path) -> None:
    received = []
    for block in (block for block in ASKING if block.heading == heading):
        assert run_block(block, server.url, folder).strip(), block.id
        received.append(asked(server))
    assert len(received) == 3
    assert received[0] == received[1] == received[2]


class TestWhatAnExampleShows:
    """Of the fake's answers, which are what a real server sent."""

    @staticmethod
    def said(heading: str, server: FakeVllm, folder: Path) -> str:
        (block,) = (block for block in ASKING if (block.heading, block.way) == (heading, "openai"))
        return run_block(block, server.url, folder)

    def test_a_stream_piece_by_piece(self, server: FakeVllm, folder: Path) -> None:
        assert self.said("Streamed", server, folder) == " w0 w1 w2\n"

    def test_a_tool_call_and_the_answer_to_its_result(self, server: FakeVllm, folder: Path) -> None:
        assert self.said("A tool call", server, folder).startswith("weather {'state': 'ready'}\n")
        roles = [message["role"] for message in server.sent(CHAT)[1]["messages"]]
        assert roles == ["user", "assistant", "tool"]

    def test_an_answer_of_the_schema(self, server: FakeVllm, folder: Path) -> None:
        assert ast.literal_eval(self.said("A structured answer", server, folder)) == {"mood": "good", "stars": 1}

    def test_reasoning_apart_from_the_answer(self, server: FakeVllm, folder: Path) -> None:
        said = self.said("Thinking", server, folder)
        assert said == "thought: 90 minutes are more than an hour.\nanswer: ready\n"
