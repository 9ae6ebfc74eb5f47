"""`gemma4 chat`: from a pipe each line is a turn; on a terminal lines are edited, and Ctrl-C ends an answer, not the chat."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.ops.cli import run
from infra.serving.samples import png
from tests.fakes.vllm import FakeVllm
from tests.projects import ROOT, Answer, bare_environment

Chat = Callable[..., Answer]
CHAT = "/v1/chat/completions"


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


@pytest.fixture
def chat(server: FakeVllm, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chat:
    """A conversation from a pipe, in an empty folder: a function of its lines."""
    monkeypatch.chdir(tmp_path)

    def held(*lines: str, options: tuple[str, ...] = ()) -> Answer:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        capfd.readouterr()
        code = run(["chat", "--url", server.url, *options])
        answer = Answer(code, *capfd.readouterr())
        assert "Traceback" not in answer.err
        return answer

    return held


def sent(server: FakeVllm) -> list[Any]:
    """The messages of each question as they came."""
    return [body["messages"] for body in server.sent(CHAT)]


class TestFromAPipe:
    def test_each_line_is_a_question_and_what_was_said_goes_with_it(self, chat: Chat, server: FakeVllm) -> None:
        answer = chat("one", "", "two", options=("--system", "Be brief.", "--temperature", "0"))
        assert (answer.code, answer.out, answer.err) == (0, " w0 w1 w2\n w0 w1 w2\n", "")
        assert sent(server)[1] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": " w0 w1 w2"},
            {"role": "user", "content": "two"},
        ]
        assert {body["temperature"] for body in server.sent(CHAT)} == {0}

    def test_a_line_goes_on_after_a_backslash(self, chat: Chat, server: FakeVllm) -> None:
        chat("one\\", "two", "three\\")
        assert [messages[-1]["content"] for messages in sent(server)] == ["one\ntwo", "three\n"]

    def test_a_question_that_fails_has_not_been_asked(self, chat: Chat, server: FakeVllm) -> None:
        answer = chat("one", "word " * 3000, "two")
        assert answer.code == 1
        assert "the question: with all that is sent before it, it does not fit" in answer.err
        assert answer.out == " w0 w1 w2\n" * 2
        assert [message["content"] for message in sent(server)[-1]] == ["one", " w0 w1 w2", "two"]

    def test_it_cannot_begin_without_a_server(self, server: FakeVllm, capfd: pytest.CaptureFixture[str]) -> None:
        assert run(["chat", "--url", "http://127.0.0.1:9"]) == 1
        assert "nothing listens there" in capfd.readouterr().err


class TestCommands:
    def test_clear_begins_anew(self, chat: Chat, server: FakeVllm) -> None:
        chat("one", "/clear", "two")
        assert [len(messages) for messages in sent(server)] == [1, 1]

    def test_system_counts_from_the_next_question_on(self, chat: Chat, server: FakeVllm) -> None:
        chat("one", "/system Be brief.", "two", "/system", "three")
        assert [messages[0]["role"] for messages in sent(server)] == ["user", "system", "user"]

    def test_think_switches_thinking(self, chat: Chat, server: FakeVllm) -> None:
        answer = chat("one", "/think on", "two", "/think off", "three", "/think maybe")
        assert ["chat_template_kwargs" in body for body in server.sent(CHAT)] == [False, True, False]
        assert "thinking: 90 minutes" in answer.err
        assert "/think: takes on or off; it is off." in answer.err
        assert not [text for text in sent(server)[2] if "90 minutes" in str(text)], "thoughts are not sent back"

    def test_image_goes_with_the_next_question_and_stays_in_the_conversation(
        self, chat: Chat, server: FakeVllm, tmp_path: Path
    ) -> None:
        (tmp_path / "a.png").write_bytes(png(8, 0.5))
        answer = chat("/image a.png", "/image a.png", "what?", "and now?", "/image nothing.png", "/image")
        assert [[part["type"] for part in messages[0]["content"]] for messages in sent(server)] == [
            ["image_url", "image_url", "text"]
        ] * 2
        assert "2 images to go with the next question" in answer.err
        assert "/image: nothing.png cannot be read" in answer.err
        assert answer.code == 1

    def test_save_writes_what_the_api_takes_and_never_over_a_file(self, chat: Chat, tmp_path: Path) -> None:
        answer = chat("one", "/save talk.json", "two", "/save talk.json", "/save", "/save no/where.json")
        saved = json.loads((tmp_path / "talk.json").read_text("utf-8"))
        assert saved["model"] == "gemma"
        assert [message["content"] for message in saved["messages"]] == ["one", " w0 w1 w2"]
        assert "/save: talk.json exists." in answer.err
        assert "/save: no/where.json cannot be written: No such file or directory." in answer.err

    def test_stats_count_every_answer(self, chat: Chat) -> None:
        lines = chat("one", "two", "/stats").err.splitlines()
        assert lines[0] == "2 turns; 30 of 4,096 tokens of context in use"
        assert lines[1] == "all answers: 42 prompt + 6 output tokens"
        assert lines[2].startswith("the last: first token ")

    def test_help_lists_every_command(self, chat: Chat) -> None:
        listed = chat("/help").err
        for name in ("clear", "system", "image", "think", "save", "stats", "help", "exit"):
            assert f"/{name}" in listed
        assert max(map(len, listed.splitlines())) <= 80

    def test_exit_ends(self, chat: Chat, server: FakeVllm) -> None:
        assert chat("/exit", "one").code == 0
        assert sent(server) == []

    def test_a_word_that_is_none_is_told_and_not_sent(self, chat: Chat, server: FakeVllm) -> None:
        answer = chat("/claer", "//etc/hosts is what?")
        assert "/claer: is not a command. Did you mean /clear?" in answer.err
        assert [messages[-1]["content"] for messages in sent(server)] == ["/etc/hosts is what?"]


class TestAFullContext:
    def test_is_told_and_the_oldest_turns_give_way(self, chat: Chat, server: FakeVllm) -> None:
        server.max_model_len = 400
        answer = chat(*(f"{number} " + "word " * 60 for number in range(4)))
        assert answer.code == 0
        assert "% full: the oldest turns give way" in answer.err
        assert "the context is full: the oldest 1 turn is not sent any more" in answer.err
        assert not sent(server)[-1][0]["content"].startswith("0")
        assert max(map(len, answer.err.splitlines())) <= 80

    def test_that_the_estimate_missed_is_found_by_the_server_s_refusal(self, chat: Chat, server: FakeVllm) -> None:
        server.max_model_len = 1000
        answer = chat("word " * 200, "w " * 200)  # short words, as many tokens
        assert (answer.code, answer.out) == (0, " w0 w1 w2\n" * 2)
        assert [len(messages) for messages in sent(server)] == [1, 3, 1]
        assert "the oldest 1 turn is not sent any more" in answer.err

    def test_of_images_leaves_out_the_oldest(self, chat: Chat, server: FakeVllm, tmp_path: Path) -> None:
        server.most_images = 1
        (tmp_path / "a.png").write_bytes(png(8, 0.5))
        answer = chat("/image a.png", "what?", "/image a.png", "and this?")
        assert answer.code == 0
        assert "the server takes 1 image in a request: earlier ones are not sent again" in answer.err
        assert [part["type"] for part in sent(server)[-1][0]["content"]] == ["text", "text"]


class OnATerminal:
    """A chat in a terminal of its own. `text` is all that it has shown so far."""

    def __init__(self, server: FakeVllm, *options: str) -> None:
        self._terminal, inner = pty.openpty()
        start = [sys.executable, "-c", "from infra.ops.cli import main; main()", "chat", "--url", server.url, *options]
        with bare_environment(LANG="C.UTF-8", TERM="xterm", COLUMNS="80"):
            self.process = subprocess.Popen(
                start,
                cwd=ROOT,
                stdin=inner,
                stdout=inner,
                stderr=inner,
                start_new_session=True,
                preexec_fn=_own_terminal,
            )
        os.close(inner)
        self.text = ""

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def see(self, wanted: str, times: int = 1) -> None:
        """Wait until a text has been shown so many times."""
        deadline = time.monotonic() + 20
        while self.text.count(wanted) < times:
            ready, _, _ = select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{wanted!r} was not shown: {self.text!r}"
            try:
                self.text += os.read(self._terminal, 4096).decode(errors="replace")
            except OSError:  # the other side has gone
                raise AssertionError(f"{wanted!r} was not shown: {self.text!r}") from None

    def interrupt(self, wanted: str) -> None:
        """Press Ctrl-C until a text is shown: one that comes between the echo of a letter and the wait for the next is only
        seen at the next key, by Python's own reading of lines."""
        for _ in range(40):
            if wanted in self.text:
                return
            self.type("\x03")
            while wanted not in self.text and select.select([self._terminal], [], [], 0.5)[0]:
                self.text += os.read(self._terminal, 4096).decode(errors="replace")
        raise AssertionError(f"{wanted!r} was not shown: {self.text!r}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


def _own_terminal() -> None:
    """Make the terminal the one whose Ctrl-C reaches this process."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(server: FakeVllm) -> Iterator[OnATerminal]:
    opened = OnATerminal(server)
    opened.see("> ")
    yield opened
    opened.close()


class TestOnATerminal:
    def test_lines_are_edited_and_come_back(self, terminal: OnATerminal, server: FakeVllm) -> None:
        pytest.importorskip("readline")
        terminal.type("Helo\x1b[Dl\r")  # the left key, then the missing letter
        terminal.see("w2")
        terminal.see("> ", 2)
        terminal.type("\x1b[A?\r")  # the line before, with a question mark
        terminal.see("w2", 2)
        assert [messages[-1]["content"] for messages in sent(server)] == ["Hello", "Hello?"]

    def test_tab_completes_a_command(self, terminal: OnATerminal) -> None:
        pytest.importorskip("readline")
        terminal.type("/he\t\r")
        terminal.see("list the commands")

    def test_ctrl_c_ends_the_answer_and_not_the_chat(self, terminal: OnATerminal, server: FakeVllm) -> None:
        server.gate = threading.Event()
        terminal.type("one\r")
        terminal.see("w0")
        terminal.type("\x03")
        terminal.see("stopped after 1 token; what came stays in the conversation")
        server.gate.set()
        terminal.see("> ", 2)
        terminal.type("two\r")
        terminal.see("w2")
        assert [message["content"] for message in sent(server)[-1]] == ["one", " w0", "two"]

    def test_ctrl_c_takes_a_line_back_and_ctrl_d_ends(self, terminal: OnATerminal, server: FakeVllm) -> None:
        terminal.type("never mind")
        terminal.see("never mind")
        terminal.interrupt("Ctrl-D or /exit ends the chat.")
        terminal.see("> ", 2)
        assert max(map(len, terminal.text.splitlines())) <= 80
        terminal.type("\x04")
        assert terminal.process.wait(20) == 0
        assert sent(server) == []

    def test_an_answer_does_not_steer_it(self, terminal: OnATerminal, server: FakeVllm) -> None:
        server.mode = "steers"
        terminal.type("one\r")
        terminal.see("a\\x1b[31mred\\u202eb\\rc")
        assert "\x1b[31m" not in terminal.text

    def test_thoughts_are_dimmed(self, terminal: OnATerminal) -> None:
        terminal.type("/think on\r")
        terminal.see("thinking is on")
        terminal.type("one\r")
        terminal.see("w2")
        assert "\x1b[2mthinking: " in terminal.text
