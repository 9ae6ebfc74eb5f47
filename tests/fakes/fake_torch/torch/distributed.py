"""Sums over processes that meet in a folder. FAKE_SUMS makes them `wrong`, or `hang`; `lossy` is for copies."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class _Group:
    folder = Path()
    rank, size, calls = 0, 0, 0


def init_process_group(backend: str, *, init_method: str, rank: int, world_size: int, timeout: object) -> None:
    _Group.folder = Path(init_method.removeprefix("file://")).parent
    _Group.rank, _Group.size = rank, world_size


def all_reduce(numbers: Any) -> None:
    _Group.calls += 1
    mine = _Group.folder / f"sum-{_Group.calls}-{_Group.rank}"
    mine.with_suffix(".new").write_text(json.dumps(numbers.values))
    mine.with_suffix(".new").rename(mine)
    if os.environ.get("FAKE_SUMS") == "hang" and _Group.calls > 1:
        time.sleep(60)
    parts = [_Group.folder / f"sum-{_Group.calls}-{rank}" for rank in range(_Group.size)]
    while not all(part.exists() for part in parts):
        time.sleep(0.005)
    rows = [json.loads(part.read_text()) for part in parts]
    numbers.values = [sum(row) for row in zip(*rows, strict=True)]
    if os.environ.get("FAKE_SUMS") == "wrong" and _Group.rank == 1:
        numbers.values[-1] += 1


def destroy_process_group() -> None:
    """There is nothing to destroy."""
