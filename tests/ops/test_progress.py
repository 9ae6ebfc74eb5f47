"""A wait of more than two seconds is said on standard error; a shorter one is not."""

from __future__ import annotations

import threading

import pytest

from infra.ops.terminal.progress import waiting


class _Heard(threading.Event):
    """A stream that tells when something was written to it."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.text = terminal, ""

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        """Do nothing."""

    def write(self, text: str) -> int:
        self.text += text
        self.set()
        return len(text)


class TestAWait:
    def test_that_is_long_is_said_on_a_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = _Heard(terminal=False)
        monkeypatch.setattr("sys.stderr", stream)
        with waiting("reading the state", quiet_s=0.001):
            assert stream.wait(30)
        assert stream.text == "reading the state … 0 s\n"

    def test_is_wiped_from_a_terminal_when_it_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = _Heard(terminal=True)
        monkeypatch.setattr("sys.stderr", stream)
        with waiting("reading\x1b the state", quiet_s=0.001):
            assert stream.wait(30)
        assert stream.text.startswith("\rreading\\x1b the state … 0 s")
        assert stream.text.endswith(" \r")

    def test_that_is_short_is_not_worth_a_word(self, capsys: pytest.CaptureFixture[str]) -> None:
        with waiting("reading the state"):
            pass
        assert capsys.readouterr().err == ""
