"""The points of a benchmark: concurrency × input × output lengths, or the three workloads of vLLM's recipe by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from infra.benchmark.stored_run import Shape
from infra.errors import Fault, SettingsError
from infra.suggestions import similar


class Lengths(NamedTuple):
    """Tokens of a prompt and of its answer."""

    input_tokens: int
    output_tokens: int


WORKLOADS = {
    "prompt-heavy": Lengths(8000, 1000),
    "decode-heavy": Lengths(1000, 8000),
    "balanced": Lengths(1000, 1000),
}
"""By the name that vLLM's recipe for Gemma 4 gives them (recipes.vllm.ai, section "Benchmarking", read 2026-11-22)."""

USED_CONTEXT = 0.98
"""The share of max_model_len that a scaled workload fills: prompts of random words are a percent longer or shorter."""
SHORT_ANSWER = 128
"""An answer with fewer tokens measures the start of requests more than decoding."""
_STEP = 4


def numbers(option: str, text: str) -> list[int]:
    """Return the whole numbers, at least 1, of a text such as 1,8,32, each once. Raises SettingsError."""
    found: list[int] = []
    for part in text.split(","):
        word = part.strip().replace("_", "")
        if not word.isdecimal() or not word.isascii() or int(word) < 1:
            raise SettingsError.of(
                option,
                f"{part.strip()!r} is not a whole number of at least 1.",
                fix=f"Write for example {option} 1,8,32.",
            )
        if int(word) not in found:
            found.append(int(word))
    return found


def usual_concurrencies(max_num_seqs: int) -> list[int]:
    """Return 1, 4, 16, … below the most requests that run at once, and that number itself: more would only wait."""
    return [
        *itertools.takewhile(lambda count: count < max_num_seqs, (_STEP**power for power in itertools.count())),
        max_num_seqs,
    ]


def named(names: Sequence[str]) -> list[str]:
    """Return names of the recipe's workloads as they were given, each once. Raises SettingsError with every unknown one."""
    faults = []
    for name in names:
        if name not in WORKLOADS:
            near = similar(name, WORKLOADS, most=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(WORKLOADS)}."
            faults.append(Fault("--workload", f"the recipe has no workload {name!r}.", fix=hint))
    if faults:
        raise SettingsError(faults)
    return list(dict.fromkeys(names))


def scaled(lengths: Lengths, max_model_len: int | None) -> Lengths:
    """Return a workload's lengths, or where they exceed max_model_len the largest in the same proportion that fit."""
    total = sum(lengths)
    if max_model_len is None or total <= max_model_len:
        return lengths
    factor = USED_CONTEXT * max_model_len / total
    return Lengths(*(max(1, int(length * factor)) for length in lengths))


def grid(concurrencies: Sequence[int], lengths: Sequence[tuple[Lengths, str]]) -> Iterator[Shape]:
    """Yield a point for each pair of lengths, with the name of its workload, and each concurrency, the smallest first: a fault
    shows before much was paid for."""
    for pair, name in lengths:
        for concurrency in sorted(concurrencies):
            yield Shape(
                concurrency=concurrency, input_tokens=pair.input_tokens, output_tokens=pair.output_tokens, workload=name
            )


def scaling_note(shape: Shape, max_model_len: int | None) -> str:
    """Return what to say of a workload whose lengths were scaled, empty of any other point."""
    recipe = WORKLOADS.get(shape.workload)
    if recipe is None or recipe == (shape.input_tokens, shape.output_tokens) or max_model_len is None:
        return ""
    return (
        f"the recipe's {recipe.input_tokens:,}/{recipe.output_tokens:,} tokens were scaled to {shape.input_tokens:,}/"
        f"{shape.output_tokens:,}: max_model_len is {max_model_len:,}"
    )
