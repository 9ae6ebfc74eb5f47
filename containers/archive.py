"""What the node's metadata carry of this folder: the startup script, and the supervisor as one executable archive."""

from __future__ import annotations

import ast
import base64
import io
import tokenize
import zipfile
from pathlib import Path

TPU = Path(__file__).parent / "tpu"
PACKAGE = "gemma4_supervisor"
UNIT = "gemma4-supervisor.service"
START = f"import sys\n\nfrom {PACKAGE}.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


def startup_script() -> str:
    """Value of the attribute `startup-script`."""
    return _text(TPU / "bootstrap.sh")


def supervisor() -> str:
    """Value of the attribute `gemma4-supervisor`: the archive in base64."""
    return encoded(archive())


def encoded(data: bytes) -> str:
    """An archive as the attribute carries it."""
    return base64.b64encode(data).decode()


def archive(first_lines: str = "") -> bytes:
    """The supervisor as Python executes it; `first_lines` come before its first, to make another version of it.

    The same bytes on every machine, or each would see a change: nothing is compressed (zlib's output differs between
    versions), line ends are normalised, and times are fixed. And the same bytes whatever the comments say: a change of
    words is no new version for machines that serve.
    """
    files = {"__main__.py": first_lines + START, f"{PACKAGE}/{UNIT}": _text(TPU / UNIT)}
    files |= {f"{PACKAGE}/{path.name}": bare(_text(path)) for path in sorted((TPU / PACKAGE).glob("*.py"))}
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_STORED) as target:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # as on Unix, wherever this runs
            target.writestr(entry, text)
    return memory.getvalue()


def bare(code: str) -> str:
    """A module without comments, texts that stand by themselves, and empty lines; every other line is as it was."""
    lines = code.split("\n")
    kept_whole: set[int] = set()
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            kept_whole |= {*range(node.lineno, node.end_lineno or node.lineno)}
        body = getattr(node, "body", None)
        texts = [each for each in body if _is_text(each)] if isinstance(body, list) else []
        for text in texts:
            left_out |= {*range(text.lineno - 1, text.end_lineno or text.lineno)}
        if texts and body == texts and not isinstance(node, ast.Module):  # something has to stand there
            lines[texts[0].lineno - 1] = " " * texts[0].col_offset + "pass"
            left_out.remove(texts[0].lineno - 1)
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start[0] - 1, token.start[1]
            lines[row] = lines[row][:column].rstrip()
    rows = (row for row, line in enumerate(lines) if row not in left_out and (line.strip() or row in kept_whole))
    return "\n".join([*(lines[row] for row in rows), ""])


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")
