"""The weights copy as the job gets it: one file."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from containers import archive


@functools.cache
def packed_stage() -> Path:
    """Return the path of the archive, made once for each run of the tests."""
    folder = tempfile.mkdtemp(prefix="gemma4-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "stage.pyz")
    path.write_bytes(archive.stage())
    return path
