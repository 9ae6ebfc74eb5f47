"""Packs each program of this folder into one file that Python executes, as a slice's metadata and the bucket carry it.

An archive has the paths of this folder and runs as `python3 FILE`. It is the same byte for byte on every machine, or each
would see a change: nothing is compressed (zlib's output differs between versions), line ends are normalised, times are
fixed. It has no comments and no docstrings: a change of words is not a new version for machines that serve.
"""

from __future__ import annotations

import ast
import base64
import io
import tokenize
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SUPERVISOR, STAGE = "supervisor/gemma4_supervisor", "weights/gemma4_stage"
UNIT = "supervisor/gemma4-supervisor.service"
STARTUP_SCRIPTS = {"tpu": "bootstrap.sh", "gpu": "bootstrap_cos.sh"}
"""By what the machine has: the image of a TPU machine is Ubuntu, that of one with GPUs Container-Optimized OS. Each follows on
`bootstrap_common.sh`."""
EPOCH = (1980, 1, 1, 0, 0, 0)


def startup_script(accelerator: str = "tpu") -> str:
    """Return the value of the attribute `startup-script` of a machine with TPU chips ("tpu") or GPUs ("gpu")."""
    return "\n".join(
        _text(HERE / "supervisor" / name) for name in ("bootstrap_common.sh", STARTUP_SCRIPTS[accelerator])
    )


def supervisor(first_lines: str = "") -> bytes:
    """Return the supervisor's archive; `first_lines` of code run before its own, which makes it another version."""
    return _archive(SUPERVISOR, (UNIT,), first_lines)


def stage() -> bytes:
    """Return the archive of the weights copy."""
    return _archive(STAGE)


def in_base64(archive: bytes) -> str:
    """Return an archive as text: the form of the attribute `gemma4-supervisor`."""
    return base64.b64encode(archive).decode()


def _archive(package: str, others: tuple[str, ...] = (), first_lines: str = "") -> bytes:
    module = f"containers.{package.replace('/', '.')}.__main__"
    files = {"__main__.py": f"{first_lines}from {module} import start\n\nstart()\n"}
    doors = [HERE / "__init__.py", (HERE / package).parent / "__init__.py"]
    modules = sorted([*doors, *(HERE / "shared").glob("*.py"), *(HERE / package).glob("*.py")])
    files |= {f"containers/{path.relative_to(HERE).as_posix()}": bare(_text(path)) for path in modules}
    files |= {f"containers/{name}": _text(HERE / name) for name in others}
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_STORED) as target:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # as on Unix, wherever this runs
            target.writestr(entry, text)
    return memory.getvalue()


def bare(code: str) -> str:
    """Return a module without comments, docstrings, other texts that stand by themselves, empty lines and wide indents."""
    lines = code.split("\n")
    kept_whole: set[int] = set()
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            kept_whole |= {*range(node.lineno, node.end_lineno or node.lineno)}
        body = getattr(node, "body", None)
        texts = [each for each in body if _is_lone_text(each)] if isinstance(body, list) else []
        for text in texts:
            left_out |= {*range(text.lineno - 1, text.end_lineno or text.lineno)}
        if texts and body == texts and not isinstance(node, ast.Module):  # something has to stand there
            lines[texts[0].lineno - 1] = " " * texts[0].col_offset + "pass"
            left_out.remove(texts[0].lineno - 1)
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start[0] - 1, token.start[1]
            lines[row] = lines[row][:column].rstrip()
    rows = [row for row, line in enumerate(lines) if row not in left_out and (line.strip() or row in kept_whole)]
    return "\n".join([*(lines[row] if row in kept_whole else _narrow(lines[row]) for row in rows), ""])


def _narrow(line: str) -> str:
    """Return a line that is indented by one blank for each four: they were a fifth of an archive that is not compressed."""
    text = line.lstrip(" ")
    return " " * ((len(line) - len(text)) // 4) + text


def _is_lone_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")
