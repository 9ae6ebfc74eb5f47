"""Asking a real vLLM: every block of the page that shows how, every option of `gemma4 ask`, a chat, and real refusals.

The model is tiny and random, so what it says is not looked at, only that it is asked, answered, counted and refused as the
fake has it.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.ops.cli import run
from infra.ops.conversation.ask import ask_answer
from infra.serving.client import ServingClient
from infra.serving.samples import png, wav
from tests.call_the_model import BEGIN, Block, blocks, run_block, write_files
from tests.lab import servers
from tests.lab.servers import LAB, MAX_MODEL_LEN, TOOLS, RealVllm
from tests.projects import ROOT, Answer, assert_has_its_form, bare_environment

pytestmark = [pytest.mark.lab, pytest.mark.skipif(LAB is None, reason=servers.NO_LAB)]

MOST_TOKENS = 48
SHORT = ("--override-generation-config", json.dumps({"max_new_tokens": MOST_TOKENS}))
"""Longest answer where a request names none: a random model seldom ends by itself."""
TIGHT_JSON = ("--structured-outputs-config", json.dumps({"backend": "xgrammar", "disable_any_whitespace": True}))
"""Otherwise a random model writes spaces until it is cut."""
ASKING = [block for block in blocks() if block.heading != BEGIN and not block.file]
Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    """A server that takes text and pictures, with parsers of tools and of reasoning."""
    assert LAB is not None
    scratch = tmp_path_factory.mktemp("pictures")
    with servers.running(LAB / "tiny-mm", scratch, *TOOLS, *SHORT, *TIGHT_JSON) as started:
        servers.wait_until_healthy(started)
        yield started


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    """A server that takes text only and has no parsers."""
    assert LAB is not None
    with servers.running(LAB / "tiny", tmp_path_factory.mktemp("plain"), *SHORT) as started:
        servers.wait_until_healthy(started)
        yield started


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the examples and the options read; the current folder."""
    write_files(tmp_path)
    (tmp_path / "beep.wav").write_bytes(wav(0.5))
    (tmp_path / "broken.json").write_text('{"properties": {"a": {"type": "objct"}}}')
    (tmp_path / "broken.png").write_bytes(png(8, 0.5)[:40])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ask(folder: Path, capfd: pytest.CaptureFixture[str]) -> Ask:
    def asked(server: RealVllm, *words: str) -> Answer:
        capfd.readouterr()
        code = run(["ask", "--url", server.url, *words])
        answer = Answer(code, *capfd.readouterr())
        assert "Traceback" not in answer.err
        assert_has_its_form(["ask", *words], answer.out)
        return answer

    return asked


class TestThePage:
    @pytest.mark.parametrize("block", ASKING, ids=lambda block: block.id)
    def test_every_block_is_answered(self, block: Block, pictures: RealVllm, folder: Path) -> None:
        said = run_block(block, pictures.url, folder)
        if block.way == "curl" and "stream" not in block.code:
            assert json.loads(said)["usage"]["completion_tokens"] > 0
        if block.heading == "A structured answer" and block.way == "gemma4":
            assert json.loads(said).keys() == {"mood", "stars"}


class TestAnAnswer:
    def test_is_counted_as_the_server_counts(self, ask: Ask, pictures: RealVllm) -> None:
        data = ask(pictures, "Hello", "--max-tokens", "20", "--temperature", "0", "--json").data
        assert data["outputTokens"] <= 20
        assert data["promptTokens"] > 5
        assert data["content"]
        assert 0 < data["firstTokenS"] < data["totalS"]
        again = ask(pictures, "Hello", "--max-tokens", "20", "--temperature", "0")
        assert again.out.rstrip("\n").split() == data["content"].split(), "what is printed is what was said"

    def test_takes_an_image_and_a_system_s_text(self, ask: Ask, pictures: RealVllm) -> None:
        without = ask(pictures, "What?", "--json").data["promptTokens"]
        told = ask(pictures, "What?", "--system", "Be brief.", "--image", "sign.png", "--json").data["promptTokens"]
        assert told > without + 50, "an image is many tokens"

    def test_that_ctrl_c_ends_is_no_longer_generated(self, pictures: RealVllm) -> None:
        client = ServingClient(pictures.url)
        start = [sys.executable, "-c", "from infra.ops.cli import main; main()", "ask", "--url", pictures.url]
        with bare_environment():
            command = [*start, "Hello", "--max-tokens", "4000"]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            assert process.stdout
            assert process.stderr
            assert os.read(process.stdout.fileno(), 100)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            counted = re.search(r"(\d+) prompt \+ (\d+) output tokens", process.stderr.read().decode())
        assert counted
        assert int(counted[1]) > 0
        assert 0 < int(counted[2]) < 4000
        deadline = time.monotonic() + 10
        while running(client) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not running(client), "the server went on without a listener"


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (
                ("x " * MAX_MODEL_LEN,),
                "question: with all that is sent before it, it does not fit into the server's context",
            ),
            (
                ("Hi", "--max-tokens", "5000"),
                "--max-tokens: 5000 is more than the server's whole context of 4096 tokens.",
            ),
            (("Hi", "--adapter", "tuned"), "--adapter: the server serves nothing under the name tuned."),
            (("Hi", "--audio", "beep.wav"), "--audio: the server takes no sounds"),
            (("Hi", "--image", "broken.png"), "--image: the server cannot read it as an image."),
            (("Hi", "--schema", "broken.json"), "--schema: the server cannot hold an answer to this schema"),
        ],
    )
    def test_name_the_option_at_fault(self, ask: Ask, pictures: RealVllm, words: tuple[str, ...], said: str) -> None:
        answer = ask(pictures, *words)
        assert (answer.code, answer.out) == (2, ""), answer.err
        assert said in answer.err

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("Hi", "--image", "sign.png"), "--image: the server takes text only."),
            (("Hi", "--tools", "weather.json"), "--tools: the server was started without a tool parser."),
        ],
    )
    def test_of_a_server_with_less_do_so_too(
        self, ask: Ask, plain: RealVllm, words: tuple[str, ...], said: str
    ) -> None:
        answer = ask(plain, *words)
        assert (answer.code, answer.out) == (2, ""), answer.err
        assert said in answer.err

    def test_of_an_image_do_not_spoil_the_next_question_with_it(self, ask: Ask, pictures: RealVllm) -> None:
        """vllm #43941: after a refusal the API server believes that the engine has the image."""
        assert ask(pictures, "x " * MAX_MODEL_LEN, "--image", "sign.png").code == 2
        assert ask(pictures, "What?", "--image", "sign.png").code == 0


class TestAChat:
    def test_sends_what_was_said_and_counts_the_context(
        self, pictures: RealVllm, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = ("Hello", "/image sign.png", "And this?", "/stats", "/save talk.json")
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        assert run(["chat", "--url", pictures.url, "--max-tokens", "16"]) == 0
        counts = re.search(r"2 turns; (\d+) of 4,096 tokens", capfd.readouterr().err)
        assert counts
        assert int(counts[1]) > 80, "an image is among them"
        assert [message["role"] for message in json.loads((folder / "talk.json").read_text())["messages"]] == [
            "user",
            "assistant",
        ] * 2

    def test_goes_on_where_the_context_is_full(
        self, pictures: RealVllm, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = [f"{number} " + "ba co di fu " * 100 for number in range(12)]
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        assert run(["chat", "--url", pictures.url, "--max-tokens", "8"]) == 0
        said = capfd.readouterr().err
        assert "not sent any more" in said
        assert "% full" in said


def test_the_function_behind_the_command_is_one_for_assistants_too(pictures: RealVllm) -> None:
    answer = ask_answer("Hello", url=pictures.url, max_tokens=8, think=True)
    assert answer.output_tokens <= 8


def running(client: ServingClient) -> float:
    """Requests that the server is at work on."""
    samples = client.metrics().samples
    return sum(sample.value for sample in samples if sample.name == "vllm:num_requests_running")
