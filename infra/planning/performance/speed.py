"""Predicted speed: tokens a second alone and at a number of running requests, and the choice of `maxNumSeqs`.

`decode.py` gives the time of a step and `prompts.py` that of a prompt; this module adds speculation, the error bands of
decoding, and the choice of `maxNumSeqs`. Not modelled: the network, images and audio, and queueing. `Rate.total` is
decoding alone, as published figures with cached prompts are; `Rate.with_new_prompts` also pays for the prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from infra.catalog import BF16_BYTES, Device, Profile, catalog
from infra.planning.performance import prompts
from infra.planning.performance.decode import (
    FREE_SAMPLED_ROWS,
    Bound,
    Step,
    bandwidth_share,
    flop_seconds,
    is_int4,
    step_of,
)
from infra.planning.server.server import Server
from infra.planning.units import Band

DRAFT_S = 0.0003
"""Seconds of one MTP draft step beside reading the drafter: launches and choosing the token (fitted: H100, RTX PRO 6000)."""
SHARED_DRAFT_S = 0.0008
"""Seconds more for each of several devices that share the model: all-reduces and gathered logits over PCIe, where vLLM's own
all-reduce works between two GPUs at most (fitted: 31B bf16 on 2 x RTX PRO 6000, 31B QAT on 2 and 4 x RTX 3090)."""
FIRST_ACCEPTANCE: tuple[float, float] = (0.82, 0.62)
"""Chance that the first draft token is accepted, of a target in bf16 or fp8 and of one in int4, whose drafter was trained for
the bf16 one (fitted: 3.1 to 3.3 tokens a step at four drafts of 31B, 1.8 to 2.3 at two or three of QAT targets)."""
ACCEPTANCE_DECAY = 0.95
"""By which factor the chance falls from one position to the next, given that all before it were accepted (fitted: eight drafts
on H100 bring about 3.6 tokens a step, where four of equal chances would bring 4)."""
VERIFY_FLOPS_SHARE = 0.28
"""Share of peak at which draft tokens are checked, on top of the step. Fitted to MTP's published gain at 1, 10 and 100
requests (2.48, 1.92 and 1.09), within 6 %."""
STREAM_RULES = {"latency": (0.80, 60.0), "balanced": (0.65, 30.0)}
"""What a stream must keep by profile: this share of its speed alone, or this many tokens/s, whichever is less."""
DOUBLING_GAIN = 1.10
"""Throughput goes on adding requests while twice as many bring at least this factor."""
GAIN_MEASURED_ON = Device.GPU
"""The kind of device on which somebody measured what MTP brings, of dense models."""


class DecodeFit(NamedTuple):
    """How well decoding is known on up to `most_devices` devices that share a model: the relative error of 80 % of runs."""

    most_devices: float
    error: float
    note: str = ""
    """What a reader should know of these predictions; `{devices}` stands for their number."""


_NO_MIXTURE = "No run of this mixture of experts on such devices was found: its speed is extrapolated."
_RANDOM_EXPERTS = "Experts are counted as if each token drew its own at random; real routing is less spread."
DECODE_FITS: Mapping[tuple[Device, bool], tuple[DecodeFit, ...]] = {
    (Device.GPU, False): (DecodeFit(1, 0.10), DecodeFit(math.inf, 0.20)),
    (Device.GPU, True): (DecodeFit(2, 0.30, _RANDOM_EXPERTS), DecodeFit(math.inf, 0.40, _NO_MIXTURE)),
    (Device.TPU, False): (DecodeFit(1, 0.12), DecodeFit(math.inf, 0.35)),
    (Device.TPU, True): (DecodeFit(4, 0.35, _RANDOM_EXPERTS), DecodeFit(math.inf, 0.40, _NO_MIXTURE)),
}
"""By kind of device and whether the model is a mixture of experts. With all constants of `decode.COSTS` fitted to other
machines, other models or other sources, four in five of 27 runs on GPUs are off by at most 8 to 9 %, and of 44 on TPU by 22 to
25 %, most of that by sampling, which the band counts apart; several devices and mixtures are judgements from few runs."""

OFFLOAD_ERROR = 0.30
"""Relative error of decoding with CPU offload where the host link was measured: one practitioner, two settings, in
sample. His third figure, 1.6 tok/s at 14 GiB, was of two running requests and agrees."""

UNMEASURED_ERROR = 0.18
"""Relative error of decoding on machines that nobody timed, from runs on such machines with their kind's constants."""

SAMPLING_ERROR = 0.35
"""Relative error of the time that choosing tokens takes."""

_SOURCES = (
    "decode: bytes read, fixed costs and sampling, fitted to public runs of vLLM 0.19 to 0.30 (read 2026-11-22)",
    prompts.SOURCE,
)
_MTP_SOURCE = (
    "MTP: 31B bf16 on 2 x RTX PRO 6000, ShareGPT, at 1, 10 and 100 requests; 26B and 31B on H100 with eight drafts; 31B QAT on "
    "2 and 4 x RTX 3090 (read 2026-11-22)"
)

Limit = Literal["kv-cache", "stream-speed", "gain", "ceiling"]


@dataclass(frozen=True)
class Rate:
    """Decoding with `requests` running: output tokens a second."""

    requests: int
    total: Band
    per_stream: Band
    step_s: float
    """One pass of the target model; with MTP it yields several tokens."""
    bound: Bound
    with_new_prompts: Band
    """`total` when every request brings a prompt that is not in the prefix cache."""

    def of_servers(self, count: int) -> Rate:
        """Return the rate of so many such servers together, each with as many requests."""
        together = self.total.times(count), self.with_new_prompts.times(count)
        return replace(self, requests=count * self.requests, total=together[0], with_new_prompts=together[1])


@dataclass(frozen=True)
class SpeedEstimate:
    """What a configuration is predicted to do for a workload, alone and with `planned.requests` running."""

    prompt_tokens: int
    output_tokens: int
    alone: Rate
    planned: Rate
    ttft_s: Band
    """Time to the first token of one uncached prompt on an idle server, seconds; network and images excluded."""
    speculation_gain: Band
    """Factor on a lone stream's speed; exactly 1 where no gain is claimed."""
    notes: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Knee:
    """The recommended `maxNumSeqs`, what it is predicted to bring, and what keeps it from being larger."""

    max_num_seqs: int
    rate: Rate
    limited_by: Limit


@dataclass(frozen=True)
class SpeedModel:
    """A server under a workload of equal requests, each half way through its answer on average."""

    server: Server
    prompt_tokens: int
    output_tokens: int

    def estimate(self, requests: int) -> SpeedEstimate:
        """Return everything that is predicted with `requests` (at least 1) running as the planned load."""
        mtp = self.server.speculation == "mtp"
        return SpeedEstimate(
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            alone=self.tokens_per_second_at(1),
            planned=self.tokens_per_second_at(requests),
            ttft_s=prompts.first_token(self.server, self.prompt_tokens),
            speculation_gain=Band.around(self._gain(1), _gain_error(self.server)) if mtp else Band.exactly(1.0),
            notes=tuple(_notes(self)),
            sources=(*_SOURCES, _MTP_SOURCE) if mtp else _SOURCES,
        )

    def tokens_per_second_at(self, requests: int) -> Rate:
        """Return the rate with `requests` running, whether or not the KV cache holds them."""
        if requests < 1:
            raise ValueError(f"a rate needs at least one running request, not {requests}")
        step = step_of(self.server, requests, self._context)
        stream = self._gain(requests) / step.seconds
        down, up = self._error(step)
        total = Band.around(stream * requests, down, error_up=up)
        return Rate(
            requests=requests,
            total=total,
            per_stream=Band.around(stream, down, error_up=up),
            step_s=step.seconds,
            bound=step.bound,
            with_new_prompts=prompts.rate_with_new_prompts(
                self.server, requests, self.prompt_tokens, self.output_tokens, decoding=total
            ),
        )

    def recommend_max_num_seqs(self, profile: Profile, *, kv_requests: float) -> Knee:
        """Return the largest useful `maxNumSeqs`: its requests fit the KV cache and no stream becomes too slow.

        `kv_requests` is how many requests of the workload (prompt + output) the KV cache holds at once. A lone user
        loses no speed to a large value, which only binds when that many requests are there. STREAM_RULES and
        DOUBLING_GAIN say where each profile stops, the implementation where all do.
        """
        best = alone = self.tokens_per_second_at(1)
        ceiling = self.server.implementation.most_useful_seqs
        for requests in _batch_sizes():
            if requests > min(ceiling, kv_requests):
                return Knee(best.requests, best, "ceiling" if requests > ceiling else "kv-cache")
            rate = self.tokens_per_second_at(requests)
            if profile == "throughput":
                if rate.total.mid < DOUBLING_GAIN * self.tokens_per_second_at(requests // 2).total.mid:
                    return Knee(best.requests, best, "gain")
            else:
                share, enough = STREAM_RULES[profile]
                if rate.per_stream.mid < min(share * alone.per_stream.mid, enough):
                    return Knee(best.requests, best, "stream-speed")
            best = rate
        raise AssertionError("batch sizes have no end")

    @property
    def _context(self) -> float:
        return self.prompt_tokens + self.output_tokens / 2

    def _error(self, step: Step) -> tuple[float, float]:
        """Return the relative error of a rate down and up: upwards also that of requests that need no sampling."""
        error = _decode_error(self.server)
        if self.server.speculation == "mtp":
            error = math.hypot(error, _gain_error(self.server))
        greedy_gain = step.seconds / (step.seconds - step.sampling_s) - 1
        down = math.hypot(error, SAMPLING_ERROR * step.sampling_s / step.seconds)
        if self.server.enforce_eager:
            down = max(down, 0.40)
        up = math.hypot(error, greedy_gain)
        if self.server.cpu_offload_gib and self.server.accelerator.pcie_bandwidth is None:
            up = max(up, 3.0)
        return down, up

    def _gain(self, requests: int) -> float:
        """Return tokens/s with MTP over those without: drafting reads the drafter, checking costs arithmetic.

        Only MTP changes the number; what ngram brings depends on how much of the prompt an answer repeats.
        """
        drafts = self.server.speculative_tokens
        if self.server.speculation != "mtp" or drafts < 1:
            return 1.0
        plain = step_of(self.server, requests, self._context)
        checking = step_of(self.server, requests, self._context, tokens=requests * (drafts + 1))
        flop = 2 * self.server.architecture.active_parameters * requests * drafts
        seconds = (
            checking.seconds + drafts * draft_seconds(self.server) + flop_seconds(self.server, flop, VERIFY_FLOPS_SHARE)
        )
        return plain.seconds * tokens_a_step(self.server, drafts) / seconds


def draft_seconds(server: Server) -> float:
    """Return the seconds of one MTP draft step: the drafter is read once, its output embedding included, and is launch-bound.

    The drafters of E2B and E4B score only the tokens of the likeliest centroids; so small a table is counted as read whole.
    """
    assistant = catalog().assistants.get(server.model.assistant or "")
    read = BF16_BYTES * assistant.parameters if assistant else 0.0
    rate = bandwidth_share(server) * server.accelerator.bandwidth * server.tensor_parallel
    shared_s = SHARED_DRAFT_S * server.tensor_parallel if server.tensor_parallel > 1 else 0.0
    return read / rate + DRAFT_S + shared_s


def tokens_a_step(server: Server, drafts: int) -> float:
    """Return how many tokens a step with `drafts` draft tokens yields on average: one, and those drafts that are accepted."""
    chance, reached, tokens = FIRST_ACCEPTANCE[is_int4(server)], 1.0, 1.0
    for _ in range(drafts):
        reached *= chance
        tokens += reached
        chance *= ACCEPTANCE_DECAY
    return tokens


def _batch_sizes() -> Iterator[int]:
    """Yield small numbers, then the multiples that vLLM captures CUDA graphs for."""
    yield from (2, 4)
    size = 8
    while True:
        yield size
        size += 8 if size < 256 else 16


def _decode_fit(server: Server) -> DecodeFit:
    fits = DECODE_FITS[server.accelerator.device, server.mixture]
    return next(one for one in fits if server.tensor_parallel <= one.most_devices)


def _decode_error(server: Server) -> float:
    """Return the relative error that holds 80 % of runs, wider where nobody timed such a machine."""
    error = _decode_fit(server).error
    if "decode" not in server.accelerator.measured:
        error = max(error, UNMEASURED_ERROR)
    return max(error, OFFLOAD_ERROR) if server.cpu_offload_gib else error


def _gain_error(server: Server) -> float:
    return 0.17 if _gain_measured(server) else 0.25


def _gain_measured(server: Server) -> bool:
    return server.accelerator.device is GAIN_MEASURED_ON and not server.mixture


def _notes(model: SpeedModel) -> Iterator[str]:
    server = model.server
    if "decode" not in server.accelerator.measured:
        yield "No run on this machine was found: its speed is that of a model fitted to other devices."
    if note := _decode_fit(server).note:
        yield note.format(devices=server.tensor_parallel)
    if server.accelerator.device is Device.TPU:
        yield (
            f"With more than {FREE_SAMPLED_ROWS[Device.TPU]} running, choosing tokens is counted as in runs of vLLM 0.26: "
            "the sampler of 0.32 is another, which nobody has timed, and requests with temperature 0 need none. The upper end "
            "of the band holds them."
        )
    if server.cpu_offload_gib:
        yield (
            "CPU offload: the host link is fitted to one practitioner's 2.0 tok/s at 5 GiB and 0.8 at 14 GiB (31B QAT, "
            "L4)."
        )
        if server.accelerator.pcie_bandwidth is None:
            yield "No host link of this accelerator was measured: the L4's stands in, and a faster one is likely."
    if server.enforce_eager:
        yield "Eager mode launches each kernel by itself; no measurement says how much slower it decodes."
    if model.server.speculation == "ngram":
        yield "ngram speculation: no gain is claimed, it depends on how much of the prompt an answer repeats."
    if model.server.speculation == "mtp":
        yield (
            "MTP raises the time to the first token, and at high load the slowest streams get slower: "
            "measure it with your own prompts."
        )
        if not _gain_measured(server):
            yield "No run of MTP on such a device or model was found: its gain is that of a dense model on GPUs."
