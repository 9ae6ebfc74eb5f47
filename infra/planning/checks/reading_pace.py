"""Whether a stream is slower than a person reads, and what would be faster: such a server fits, and feels as if it hung."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from infra.catalog import GIB
from infra.errors import Fault
from infra.planning.memory.alternatives import Neighbour, on_other_accelerators, with_other_models
from infra.planning.memory.footprint import offloadable_bytes
from infra.planning.memory.verdict import Alternative, Verdict, judge
from infra.planning.performance.speed import Rate, SpeedModel
from infra.planning.server.server import Server
from infra.planning.units import counted, read_duration, read_minutes, read_predicted, read_tokens_per_second

READING_SPEED = 5.0
"""Tokens a second at which people read: 238 English words a minute (Brysbaert 2019, over 190 studies) at about 1.3
tokens a word."""


def check_pace(model: SpeedModel, planned: Rate, server: Server) -> Iterator[Fault]:
    """Yield a warning where a stream is slower than reading, alone or with the planned number running, and what to choose."""
    alone = model.tokens_per_second_at(1)
    slowest = planned.per_stream.mid
    if slowest >= READING_SPEED:
        return
    wait = read_predicted(planned.per_stream.dividing(model.output_tokens), read_duration, ends=read_minutes)
    consequence = f"An answer of {counted(model.output_tokens, 'token')} takes {wait}, and callers take it for a hang."
    stream = read_predicted(planned.per_stream, read_tokens_per_second)
    if alone.per_stream.mid >= READING_SPEED:
        fact = f"with {planned.requests} running each stream gets {stream}, slower than people read."
        bearable = planned.requests
        while bearable > 1 and model.tokens_per_second_at(bearable).per_stream.mid < READING_SPEED:
            bearable //= 2
        yield Fault("serving.maxNumSeqs", fact, consequence, f"Write serving.maxNumSeqs: {bearable}.")
        return
    offloaded = min(server.cpu_offload_gib, offloadable_bytes(server) / GIB)
    why = f": {offloaded:.3g} GiB of weights cross the host link for every token" if offloaded else ""
    fact = f"{stream} a stream is slower than people read{why}."
    instead = "; ".join(_faster(model, server)) or "fewer tokens of context, or a larger machine"
    yield Fault(
        "serving.cpuOffloadGb" if offloaded else "accelerator", fact, consequence, f"What is faster: {instead}."
    )


def _faster(model: SpeedModel, server: Server) -> Iterator[str]:
    """Yield the same server without offload, the nearest other model and machine, where they fit and keep up with reading.

    Each without speculation: its drafter may be another, or none.
    """
    without_offload: list[Neighbour] = []
    if server.cpu_offload_gib:
        without_offload.append(({"serving.cpuOffloadGb": 0}, replace(server, cpu_offload_gib=0.0)))
    for neighbours in (without_offload, with_other_models(server), on_other_accelerators(server)):
        for settings, changed in neighbours:
            drafting_none = replace(changed, speculation="none", speculative_tokens=0)
            rate = replace(model, server=drafting_none).tokens_per_second_at(1).total
            if rate.mid >= READING_SPEED and judge(changed).verdict is Verdict.FITS:
                alone = read_predicted(rate, read_tokens_per_second, " alone")
                yield f"{Alternative(settings, Verdict.FITS)}, {alone}"
                break
