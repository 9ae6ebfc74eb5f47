"""Runs the blocks of docs/tasks/call-the-model.md as a reader would: against the fake vLLM in tests/repository, against a
real one in tests/lab."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from infra.serving.samples import png
from tests.projects import ROOT

PAGE = ROOT / "docs" / "tasks" / "call-the-model.md"
STACK = "l4"
"""The stack that the page speaks of. No test deploys one, so its commands get --url and the address of a server."""
BEGIN = "Begin"

_BLOCK = re.compile(
    r"(?:^`(?P<file>[\w.-]+)`:\n\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A block of code, under its heading. One that is a file to write has its name."""

    heading: str
    language: str
    code: str
    file: str
    number: int

    @property
    def way(self) -> str:
        """With what the model is asked: openai, curl or gemma4; the words of a file: file."""
        if self.file:
            return "file"
        return "openai" if self.language == "python" else self.code.split(maxsplit=1)[0].rstrip('"$(')

    @property
    def id(self) -> str:
        return f"{self.number}-{self.heading.lower().replace(' ', '-')}-{self.way}"


def blocks() -> list[Block]:
    """Every block of the page, in its order."""
    text = PAGE.read_text("utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    found = [
        (heading, match)
        for heading, part in zip(parts[1::2], parts[2::2], strict=True)
        for match in _BLOCK.finditer(part)
    ]
    assert len(found) * 2 == len(re.findall("^```", text, re.MULTILINE)), "a block that is not found is not run"
    return [
        Block(heading, match["language"], match["code"], match["file"] or "", number)
        for number, (heading, match) in enumerate(found, 1)
    ]


def write_files(folder: Path) -> None:
    """Write what the examples read: the files that the page shows, and an image."""
    for block in blocks():
        if block.file:
            (folder / block.file).write_text(block.code, "utf-8")
    (folder / "sign.png").write_bytes(png(96, 0.5))


def run_block(block: Block, url: str, folder: Path) -> str:
    """Run a block in the folder, with a server in the place of the stack. Returns what it prints."""
    variables = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "unused"}
    if block.language == "python":
        return _run_python(block, variables, folder)
    return _run_shell(block, url, {} if block.heading == BEGIN else variables, folder)


def _run_python(block: Block, variables: dict[str, str], folder: Path) -> str:
    code = "".join(one.code for one in blocks() if one.heading == BEGIN and one.language == "python")
    printed = io.StringIO()
    names: dict[str, object] = {}
    with mock.patch.dict("os.environ", variables), contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        try:
            exec(compile(code + ("" if block.heading == BEGIN else block.code), block.id, "exec"), names)
        finally:
            names["client"].close()  # type: ignore[attr-defined]
    return printed.getvalue()


def _run_shell(block: Block, url: str, variables: dict[str, str], folder: Path) -> str:
    command = folder / "gemma4"
    start = "import sys; from infra.ops.cli import run; sys.exit(run([word for given in sys.argv[1:] for word in "
    command.write_text(f"#!{sys.executable}\n{start}({['--url', url]!r} if given == {STACK!r} else [given])]))\n")
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=folder,
        env={"PATH": f"{folder}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def headings() -> list[str]:
    """The headings under which the model is asked."""
    return [heading for heading in dict.fromkeys(block.heading for block in blocks()) if heading != BEGIN]
