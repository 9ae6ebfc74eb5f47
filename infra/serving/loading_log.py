"""What a server that starts is busy with, read from its log: vLLM's own lines, by a small table.

A line that the table does not know changes nothing: the log of another version is watched less closely, not wrongly.
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
"""Lines of vLLM 0.32 and of Cloud Run (the last one), each with what they mean."""


def doing(lines: Sequence[str]) -> str:
    """What the newest line that says so is about; `lines` stand in the order they were written. Empty when none does.

    Progress bars overwrite themselves, so one entry may hold several states: the last one counts.
    """
    for line in reversed([line for entry in lines for line in re.split(r"[\r\n]+", entry)]):
        for pattern, meaning in _DOING:
            if found := re.findall(pattern, line):
                return meaning.format(found[-1])
    return ""
