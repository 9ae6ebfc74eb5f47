"""What the node's metadata carry of this folder: the startup script, and the supervisor as one executable archive."""

from __future__ import annotations

import base64
import io
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "gemma4_supervisor"
UNIT = "gemma4-supervisor.service"
START = f"import sys\n\nfrom {PACKAGE}.cli import main\n\nsys.exit(main(sys.argv[1:]))\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


def startup_script() -> str:
    """Value of the attribute `startup-script`."""
    return _text(HERE / "bootstrap.sh")


def supervisor() -> str:
    """Value of the attribute `gemma4-supervisor`: the archive in base64."""
    return encoded(archive())


def encoded(data: bytes) -> str:
    """An archive as the attribute carries it."""
    return base64.b64encode(data).decode()


def archive(first_lines: str = "") -> bytes:
    """The supervisor as Python executes it; `first_lines` come before its first, to make another version of it.

    The same bytes on every machine, or each would see a change: nothing is compressed (zlib's output differs between
    versions), line ends are normalised, and times are fixed.
    """
    files = {"__main__.py": first_lines + START, f"{PACKAGE}/{UNIT}": _text(HERE / UNIT)}
    files |= {f"{PACKAGE}/{path.name}": _text(path) for path in sorted((HERE / PACKAGE).glob("*.py"))}
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_STORED) as target:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # as on Unix, wherever this runs
            target.writestr(entry, text)
    return memory.getvalue()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")
