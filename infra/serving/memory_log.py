"""What a server's log says of its memory: lines that vLLM 0.32 writes at its start, on GPU and CPU.

Each worker rounds to a hundredth of a GiB. Of several workers the largest counts, since the fullest device limits all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

LINES = r"Model loading took [0-9.]+ GiB|Available KV cache memory: -?[0-9.]+ GiB|Graph capturing finished|kv cache group sizes"
"""Which lines to look for in a long log, as a pattern that Cloud Logging (RE2) takes too."""

_GIB = {
    "weights_gib": re.compile(r"Model loading took ([\d.]+) GiB"),
    "kv_gib": re.compile(r"Available KV cache memory: (-?[\d.]+) GiB"),
    "graphs_gib": re.compile(r"Graph capturing finished in .*? took (-?[\d.]+) GiB"),
}
_GROUPS = re.compile(r"kv cache group sizes \(([\d, ]+)\)")
_START = re.compile(r"Model loading took")


@dataclass(frozen=True)
class LoggedMemory:
    """GiB of one device; None is what the log does not say."""

    weights_gib: float | None = None
    kv_gib: float | None = None
    """Left for the KV cache."""
    graphs_gib: float | None = None
    """Taken by CUDA graphs."""
    group_block_sizes: tuple[int, ...] = ()
    """Tokens of a block in each group of layers."""

    @property
    def empty(self) -> bool:
        return not any(getattr(self, one.name) for one in fields(self))


def logged_memory(lines: Sequence[str]) -> LoggedMemory:
    """Return what the newest start in the lines says; they are in the order of their writing."""
    found: dict[str, float] = {}
    groups: tuple[int, ...] = ()
    over = False
    for line in lines:
        if _START.search(line) and over:  # the server started again
            found, groups, over = {}, (), False
        for name, pattern in _GIB.items():
            if match := pattern.search(line):
                found[name] = max(found.get(name, float("-inf")), float(match[1]))
                over = over or name != "weights_gib"
        if match := _GROUPS.search(line):
            groups = tuple(int(size) for size in match[1].split(",") if size.strip())
            over = True
    return LoggedMemory(group_block_sizes=groups, **found)
