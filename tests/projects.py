"""A project folder of a test's own, and the `gemma4` command run on it in this process."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from infra.ops.answers.all_answers import ANSWERS
from infra.ops.answers.answer_base import FailureAnswer
from infra.ops.cli import run

ROOT = Path(__file__).parents[1]
"""The checkout: its stack files are the ones that ship."""

Capture = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class Answer:
    """What one command line gave back."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    def faults(self, kind: str) -> list[str]:
        """The refusals or warnings of a plan's JSON, as sentences."""
        return [
            " ".join(filter(None, (f"{row['key']}: {row['fact']}", row["consequence"], row["fix"])))
            for row in self.data[kind]
        ]


Command = Callable[..., Answer]


def command(capture: Capture) -> Command:
    """The command line as a function of its words; every answer is checked for a traceback, for a fault of the program's
    own, and for what a terminal would obey."""

    def call(*words: str) -> Answer:
        capture.readouterr()
        code = run(words)
        answer = Answer(code, *capture.readouterr())
        assert_shown_safely(answer.out + answer.err)
        assert_has_its_form(words, answer.out)
        return answer

    return call


def assert_shown_safely(said: str) -> None:
    """What a command printed holds no traceback, no fault of the program's own, and nothing that a terminal obeys."""
    assert "Traceback" not in said
    assert "a fault of gemma4 itself" not in said
    assert [char for char in said if not char.isprintable() and char not in "\n\t"] == []


def assert_has_its_form(words: Sequence[str], said: str) -> None:
    """What a command printed with `--json` is as the model of its answer, or of a failure, has it: no key more or less."""
    if "--json" not in words or not said:
        return
    data = json.loads(said)
    name = next((name for name in ANSWERS if tuple(name.split()) == tuple(words[: len(name.split())])), "")
    failed = isinstance(data, dict) and {*data} == {"schema", "verdict", "error", "faults"}
    (FailureAnswer if failed else ANSWERS[name]).model_validate_json(said, strict=True)


def bare_environment(**variables: str) -> AbstractContextManager[Any]:
    """Set an environment that holds nothing of this machine's but where its programs and temporary files are: neither a
    terminal's width and colours nor anybody's credentials."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return mock.patch.dict(os.environ, {**kept, **variables}, clear=True)


def write_stack(root: Path, body: str, *, name: str = "mine", model: str = "", accelerator: str = "") -> None:
    """Write `Pulumi.<name>.yaml` with the lines of `body` below `config:`, and the project file beside it."""
    head = [f"gemma4:{key}: {value}" for key, value in (("model", model), ("accelerator", accelerator)) if value]
    lines = [*head, *textwrap.dedent(body).strip().splitlines()]
    (root / "Pulumi.yaml").write_text("name: gemma4\nruntime: python\n", "utf-8")
    (root / f"Pulumi.{name}.yaml").write_text("config:\n" + textwrap.indent("\n".join(lines) + "\n", "  "), "utf-8")
