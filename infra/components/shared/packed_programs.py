"""The programs that machines and jobs run, as containers/archive.py packs them.

Packing reads and parses each module of a program, so that it is done once in a process, which may list the resources of many
plans.
"""

from __future__ import annotations

import functools
import runpy
from pathlib import Path
from typing import Any

ARCHIVE = Path("containers/archive.py")
"""From the project's folder, in which the program runs. Run rather than imported: containers/ is not part of this package."""


def packed(function: str, *arguments: str | bytes) -> Any:
    """Return what a function of containers/archive.py returns, text or bytes."""
    return _packed(ARCHIVE.resolve(), function, *arguments)


@functools.cache
def _packed(archive: Path, function: str, *arguments: str | bytes) -> Any:
    return runpy.run_path(str(archive))[function](*arguments)
