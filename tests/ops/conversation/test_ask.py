"""`gemma4 ask` against a server that answers as vLLM does: what is sent, what is printed where, what each fault is told as."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from infra.ops.cli import run
from infra.ops.conversation import attached_files
from infra.serving.samples import png, wav
from tests.fakes.vllm import FakeVllm, Mode
from tests.projects import ROOT, Answer, assert_has_its_form, bare_environment

Ask = Callable[..., Answer]
CHAT = "/v1/chat/completions"
TOOL = {"type": "function", "function": {"name": "report_state", "parameters": {"type": "object"}}}


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


@pytest.fixture
def ask(server: FakeVllm, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The command with a question for the fake server, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def asked(*words: str) -> Answer:
        capfd.readouterr()
        code = run(["ask", "--url", server.url, *words])
        answer = Answer(code, *capfd.readouterr())
        assert "Traceback" not in answer.err
        assert_has_its_form(["ask", *words], answer.out)
        return answer

    return asked


def sent(server: FakeVllm) -> Any:
    """The last question as it came."""
    return server.sent(CHAT)[-1]


class TestTheAnswer:
    def test_alone_goes_to_standard_output(self, ask: Ask, server: FakeVllm) -> None:
        answer = ask("Hello")
        assert (answer.code, answer.out) == (0, " w0 w1 w2\n")
        assert sent(server)["messages"] == [{"role": "user", "content": "Hello"}]
        assert "max_tokens" not in sent(server)
        assert "temperature" not in sent(server)

    def test_is_followed_by_its_statistics_in_a_line(self, ask: Ask) -> None:
        (line,) = ask("Hello").err.splitlines()
        assert line.startswith("first token ")
        assert "15 prompt + 3 output tokens" in line
        assert len(line) <= 80

    def test_comes_as_it_is_written(self, server: FakeVllm) -> None:
        server.gate = threading.Event()
        with in_a_process(server, "Hello") as process:
            assert process.stdout
            assert os.read(process.stdout.fileno(), 100) == b" w0"
            server.gate.set()
            assert process.stdout.read() == b" w1 w2\n"

    def test_does_not_steer_the_terminal(self, ask: Ask, server: FakeVllm) -> None:
        server.mode = "steers"
        out = ask("Hello").out
        assert out == "a\\x1b[31mred\\u202eb\rc\n", (
            "a pipe gets its carriage returns, and nothing else that moves a cursor"
        )

    def test_as_data_holds_everything(self, ask: Ask) -> None:
        data = ask("Hello", "--json").data
        assert (data["content"], data["promptTokens"], data["outputTokens"]) == (" w0 w1 w2", 15, 3)
        assert 0 < data["firstTokenS"] <= data["totalS"]
        assert data["tokensPerSecond"] > 0
        assert (data["model"], data["problem"], data["interrupted"]) == ("gemma", "", False)

    def test_that_was_cut_says_at_what(self, ask: Ask) -> None:
        assert "note: the answer was cut at --max-tokens 2" in ask("Hello", "--max-tokens", "2").err

    def test_without_text_is_said(self, ask: Ask, server: FakeVllm) -> None:
        server.mode = "empty"
        assert ask("Hello", "--json").data["notes"] == ["the model ended its answer without text"]


class TestTheQuestion:
    def test_may_come_from_standard_input(self, ask: Ask, server: FakeVllm, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("two\nlines\n"))
        assert ask("-").code == 0
        assert sent(server)["messages"][0]["content"] == "two\nlines"

    def test_carries_what_the_options_say(self, ask: Ask, server: FakeVllm) -> None:
        server.adapters = {"tuned": "x"}
        ask("Hi", "--system", "Be brief.", "--temperature", "0", "--max-tokens", "9", "--adapter", "tuned")
        body = sent(server)
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        assert (body["temperature"], body["max_tokens"], body["model"]) == (0, 9, "tuned")

    def test_sends_images_and_sounds_before_the_text(self, ask: Ask, server: FakeVllm, tmp_path: Path) -> None:
        (tmp_path / "a.jpg").write_bytes(png(8, 0.5))  # a PNG under another name
        (tmp_path / "a.wav").write_bytes(wav(0.1))
        assert ask("What?", "--image", "a.jpg", "--audio", "a.wav", "--image", "https://x.test/b.png").code == 0
        parts = sent(server)["messages"][0]["content"]
        assert [part["type"] for part in parts] == ["image_url", "image_url", "input_audio", "text"]
        assert parts[0]["image_url"]["url"].startswith("data:image/png;base64,")
        assert parts[1]["image_url"]["url"] == "https://x.test/b.png"

    def test_is_asked_again_where_the_server_forgot_an_image(self, ask: Ask, server: FakeVllm, tmp_path: Path) -> None:
        """As vLLM 0.32.0 does once after it refused a request with that image (vllm #43941)."""
        (tmp_path / "a.png").write_bytes(png(8, 0.5))
        server.mode = "drifts"
        assert ask("What?", "--image", "a.png").out == " w0 w1 w2\n"
        assert len(server.sent(CHAT)) == 2
        server.mode = "breaks off"
        assert ask("What?", "--image", "a.png").code == 1, "what has begun is not asked again"
        assert len(server.sent(CHAT)) == 3


class TestThinking:
    def test_goes_to_standard_error(self, ask: Ask, server: FakeVllm) -> None:
        answer = ask("Hello", "--think")
        assert answer.out == " w0 w1 w2\n"
        assert "thinking: 90 minutes are more than an hour.\n\n" in answer.err
        assert sent(server)["chat_template_kwargs"] == {"enable_thinking": True}

    def test_stands_apart_in_the_data(self, ask: Ask) -> None:
        data = ask("Hello", "--think", "--json").data
        assert (data["reasoning"], data["content"]) == ("90 minutes are more than an hour.", " w0 w1 w2")


class TestTools:
    def test_are_sent_and_their_calls_printed_as_json_lines(self, ask: Ask, server: FakeVllm, tmp_path: Path) -> None:
        (tmp_path / "tools.json").write_text(json.dumps([TOOL]))
        call = json.loads(ask("Report.", "--tools", "tools.json").out)
        assert (call["name"], call["arguments"]) == ("report_state", {"state": "ready"})
        assert call["id"]
        assert sent(server)["tools"] == [TOOL]
        assert ask("Report.", "--tools", "tools.json", "--json").data["toolCalls"] == [call]

    def test_may_be_one_alone(self, ask: Ask, server: FakeVllm, tmp_path: Path) -> None:
        (tmp_path / "tool.json").write_text(json.dumps(TOOL))
        ask("Report.", "--tools", "tool.json")
        assert sent(server)["tools"] == [TOOL]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[]", "defines no tool"),
            ("[{}]", "tool 1 is not a function tool"),
            ('[{"type": "function", "function": {"name": "a b"}}]', "tool 1 has no name"),
            ('[{"type": "function", "function": {"name": "a", "parameters": 3}}]', "not a JSON schema"),
            (json.dumps([TOOL, TOOL]), "two tools are called report_state"),
            ("[", "is not JSON: Expecting value in line 1, column 2"),
            ("[" * 100_000, "nested too deeply"),
        ],
    )
    def test_that_are_none_are_found_before_anything_is_sent(
        self, ask: Ask, server: FakeVllm, tmp_path: Path, text: str, words: str
    ) -> None:
        (tmp_path / "t.json").write_text(text)
        answer = ask("Report.", "--tools", "t.json")
        assert answer.code == 2
        assert "--tools: t.json" in answer.err
        assert words in answer.err
        assert server.requests == []


class TestASchema:
    SCHEMA: ClassVar = {"type": "object", "properties": {"city": {"type": "string"}, "year": {"type": "integer"}}}

    def test_shapes_the_answer(self, ask: Ask, server: FakeVllm, tmp_path: Path) -> None:
        (tmp_path / "my place.json").write_text(json.dumps(self.SCHEMA))
        answer = ask("Which city, in which year?", "--schema", "my place.json")
        assert (answer.code, json.loads(answer.out)) == (0, {"city": "x", "year": 1})
        assert sent(server)["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "my_place", "schema": self.SCHEMA, "strict": True},
        }
        assert "note" not in answer.err

    def test_is_not_seen_by_the_model_so_the_question_should_name_its_fields(self, ask: Ask, tmp_path: Path) -> None:
        (tmp_path / "s.json").write_text(json.dumps(self.SCHEMA))
        answer = ask("Where was it, in which year?", "--schema", "s.json", "--json")
        assert answer.data["notes"] == [
            "the question does not name city: the model is held to the schema but does not see it"
        ]
        assert answer.data["parsed"] == {"city": "x", "year": 1}

    def test_that_the_answer_does_not_have_is_a_failure(self, ask: Ask, server: FakeVllm, tmp_path: Path) -> None:
        server.mode = "steers"  # which writes no JSON
        (tmp_path / "s.json").write_text(json.dumps(self.SCHEMA))
        answer = ask("Which city, in which year?", "--schema", "s.json")
        assert answer.code == 1
        assert "failed: the answer is not JSON, although a schema was given" in answer.err
        assert ask("Which city?", "--schema", "s.json", "--json").code == 1

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ([], "holds a list"),
            ({"name": "x", "schema": SCHEMA}, "the field of a request around a schema"),
            ({"type": "json_schema", "json_schema": {"schema": SCHEMA}}, "the field of a request around a schema"),
            (
                {"properties": {"a": {"type": "objct"}}},
                "the server cannot hold an answer to this schema: Invalid type: objct",
            ),
        ],
    )
    def test_that_is_none_is_one_clean_error(self, ask: Ask, tmp_path: Path, data: Any, words: str) -> None:
        (tmp_path / "s.json").write_text(json.dumps(data))
        answer = ask("Which?", "--schema", "s.json")
        assert (answer.code, answer.out) == (2, "")
        assert "--schema: " in answer.err
        assert words in answer.err

    @pytest.mark.parametrize(
        "data", [{"type": "authorized_user", "refresh_token": "1//x"}, {"auths": {"r": {"auth": "eA=="}}}, {"type": 3}]
    )
    def test_that_is_a_file_of_credentials_is_never_sent(
        self, ask: Ask, server: FakeVllm, tmp_path: Path, data: Any
    ) -> None:
        (tmp_path / "s.json").write_text(json.dumps(data))
        before = len(server.requests)
        answer = ask("Which?", "--schema", "s.json")
        assert (answer.code, len(server.requests)) == (2, before)
        assert "s.json holds no JSON schema. Nothing of it was sent." in answer.err


class TestRefusals:
    """What the server does not take is a fault of an option, with what to write instead."""

    @pytest.mark.parametrize(
        ("mode", "words", "said"),
        [
            ("normal", ("word " * 3000,), "question: with all that is sent before it, it does not fit"),
            (
                "normal",
                ("Hi", "--max-tokens", "9999"),
                "--max-tokens: 9999 is more than the server's whole context of 4096",
            ),
            ("normal", ("Hi", "--adapter", "tuned"), "--adapter: the server serves nothing under the name tuned."),
            ("text only", ("Hi", "--image", "a.png"), "--image: the server takes text only."),
            ("no images", ("Hi", "--image", "a.png"), "--image: the server takes text only."),
            ("no audio tower", ("Hi", "--audio", "a.wav"), "--audio: the server takes no sounds"),
            ("no tool flags", ("Hi", "--tools", "t.json"), "--tools: the server was started without a tool parser."),
        ],
    )
    def test_name_the_option_at_fault(
        self, ask: Ask, server: FakeVllm, tmp_path: Path, mode: Mode, words: tuple[str, ...], said: str
    ) -> None:
        (tmp_path / "a.png").write_bytes(png(8, 0.5))
        (tmp_path / "a.wav").write_bytes(wav(0.1))
        (tmp_path / "t.json").write_text(json.dumps([TOOL]))
        server.mode = mode
        answer = ask(*words)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err
        assert "generated nothing." in answer.err

    def test_of_too_much_to_send_come_before_it_is_sent(
        self, ask: Ask, server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(attached_files, "MOST_BYTES", 1000)
        data = png(8, 0.5)
        (tmp_path / "a.png").write_bytes(data + bytes(900 - len(data)))
        answer = ask("Hi", "--image", "a.png", "--image", "a.png")
        assert answer.code == 2
        assert answer.err.count("--image: ") == 1
        assert server.requests == []

    def test_that_are_no_fault_of_the_question_stay_what_they_are(self, ask: Ask, server: FakeVllm) -> None:
        server.mode, server.refusals_left = "busy", -1
        answer = ask("Hi")
        assert (answer.code, answer.out) == (1, "")
        assert "429" in answer.err

    def test_of_an_engine_that_dies_keep_what_came(self, ask: Ask, server: FakeVllm) -> None:
        server.mode = "breaks off"
        answer = ask("Hi")
        assert (answer.code, answer.out) == (1, " w0 w1\n")
        assert "broke off" in answer.err


class TestCtrlC:
    def test_stops_the_generation_and_counts_what_came(self, server: FakeVllm) -> None:
        server.gate = threading.Event()
        with in_a_process(server, "Hello") as process:
            assert process.stdout
            assert process.stderr
            assert os.read(process.stdout.fileno(), 100) == b" w0"
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            said = process.stderr.read().decode()
            server.gate.set()
        note, counted = said.splitlines()
        assert note == "stopped; the server stops too. What came until then:"
        assert "15 prompt + 1 output tokens" in counted

    def test_before_the_first_token_ends_the_command(self, server: FakeVllm) -> None:
        asked = threading.Event()
        held = threading.Event()

        def hold(_: str) -> bool:
            if server.requests[-1][1] == CHAT:
                asked.set()
                held.wait(30)
            return True

        server.lets_in = hold
        with in_a_process(server, "Hello", "--json") as process:
            assert asked.wait(20)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            held.set()
            assert process.stderr
            assert process.stderr.read() == b"stopped before an answer came\n"


def in_a_process(server: FakeVllm, *words: str) -> subprocess.Popen[bytes]:
    """The command as a shell runs it."""
    start = [sys.executable, "-c", "from infra.ops.cli import main; main()", "ask", "--url", server.url, *words]
    with bare_environment():
        return subprocess.Popen(start, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
