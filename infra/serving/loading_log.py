"""Tells from the log of a starting server what it is doing, by a table of vLLM's own lines.

Lines that are not in the table are ignored: the log of another version is followed less closely, not wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DOING = (
    (r"Application startup complete", "serving"),
    (r"Starting vLLM (?:API )?server|init engine .*took|Graph capturing finished", "engine ready, opening its port"),
    (r"Capturing CUDA graphs.*?(\d+)%", "capturing CUDA graphs, {} %"),
    (r"Capturing CUDA graphs", "capturing CUDA graphs"),
    (r"KV cache size: |Available KV cache memory", "weights loaded, KV cache allocated"),
    (r"torch\.compile took|Compiling a graph|Dynamo bytecode transform|Directly load", "compiling"),
    (r"Model loading took|Loading weights took", "weights loaded, compiling"),
    (r"[Ll]oading .*?(\d+)% Completed", "loading weights, {} %"),
    (r"Starting to load model", "loading weights"),
    (r"Initializing a V1 LLM engine|core engine proc\(s\)|vLLM server version", "engine starting"),
    (r"Starting new instance", "container starting"),
)
"""Lines of vLLM 0.32 and of Cloud Run (the last row), each with its meaning."""


def current_activity(lines: Sequence[str]) -> str:
    """Return what the newest known line means, empty where none is known. `lines` are in the order of their writing.

    Progress bars overwrite themselves, so one entry may hold several states: the last one counts.
    """
    for line in reversed([line for entry in lines for line in re.split(r"[\r\n]+", entry)]):
        for pattern, meaning in _DOING:
            if found := re.findall(pattern, line):
                return meaning.format(found[-1])
    return ""
