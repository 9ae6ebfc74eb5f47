"""From the command line of a server to what a check expects of it: for a server that was planned before, not now."""

from __future__ import annotations

import json
from collections.abc import Sequence

from infra.serving.expectation import CheckExpectation


def command_expectation(words: Sequence[str], *, ready_timeout_s: float) -> CheckExpectation:
    """Return what `vllm serve` with these words must show: its names, its longest context, and what its flags turn on.

    The last of several served names is the specification's hash, as this program writes them. What no flag says is not asked.
    """
    names = _after(words, "--served-model-name") or _after(words, "serve")
    length = _after(words, "--max-model-len")
    return CheckExpectation(
        model=names[0] if names else "",
        spec_hash=names[-1] if len(names) > 1 else "",
        max_model_len=int(length[0]) if length and length[0].isdecimal() else 0,
        tools="--enable-auto-tool-choice" in words,
        reasoning=bool(_after(words, "--reasoning-parser")),
        image=_images(words),
        ready_timeout_s=ready_timeout_s,
    )


def _after(words: Sequence[str], word: str) -> list[str]:
    """Return the words behind `word` up to the next flag; empty without it."""
    found: list[str] = []
    for value in words[words.index(word) + 1 :] if word in words else ():
        if value.startswith("--"):
            break
        found.append(value)
    return found


def _images(words: Sequence[str]) -> bool:
    """Return whether a limit for images is named and is not 0; a server without limits is not asked for an image."""
    try:
        limits = json.loads("".join(_after(words, "--limit-mm-per-prompt")[:1]) or "{}")
    except ValueError:
        return False
    return isinstance(limits, dict) and bool(limits.get("image"))
