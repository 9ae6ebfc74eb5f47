"""Printing an answer while it is written: what would steer a terminal is spelled out, what writing needs is not."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from infra.ops.conversation.live_answer import LiveAnswer
from infra.ops.terminal.safe_output import safe_output
from infra.serving.chat_answer import Piece
from infra.suggestions import readable


class Terminal(io.StringIO):
    """A terminal, as far as a program can tell."""

    def isatty(self) -> bool:
        return True


def shown(out: io.StringIO, *pieces: Piece) -> tuple[str, str]:
    """What an answer of these pieces leaves on standard output and error."""
    err = Terminal() if out.isatty() else io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), safe_output():
        live = LiveAnswer()
        for piece in pieces:
            live.show(piece)
        live.end()
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x9b31m", "a\x08b", "\x07", "\u202egnp.exe", "\u2028", "\x7f", "\U000e0041"]
)
def test_what_would_steer_a_terminal_is_spelled_out(text: str) -> None:
    for out in (Terminal(), io.StringIO()):
        printed, _ = shown(out, *(Piece(content=char) for char in text))
        assert not [char for char in printed if not char.isprintable() and char != "\n"], ascii(printed)


@pytest.mark.parametrize("text", ["10\u00a0km", "می\u200cخواهم", "👩\u200d🚀", "a\tb", "d'accord\u202f!"])
def test_what_writing_needs_stays(text: str) -> None:
    assert readable(text) == text
    assert shown(Terminal(), Piece(content=text)) == (f"{text}\n", "")


def test_a_carriage_return_reaches_a_pipe_and_no_terminal() -> None:
    assert shown(io.StringIO(), Piece(content='{\r\n"a": 1}'))[0] == '{\r\n"a": 1}\n'
    assert shown(Terminal(), Piece(content="right\rwrong"))[0] == "right\\rwrong\n"


def test_reasoning_is_dimmed_on_a_terminal_and_steers_it_no_more_than_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out, err = shown(Terminal(), Piece(reasoning="one "), Piece(reasoning="\x1b[2Jtwo"), Piece(content="Yes."))
    assert out == "Yes.\n"
    assert "\x1b[2m" in err
    assert "\\x1b[2Jtwo" in err
    assert "\x1b[2J" not in err
    assert err.endswith("\n\n")


def test_reasoning_is_plain_text_elsewhere() -> None:
    out, err = shown(io.StringIO(), Piece(reasoning="one "), Piece(reasoning="two"), Piece(content="Yes."))
    assert (out, err) == ("Yes.\n", "thinking: one two\n\n")
