"""The readings of all servers as one answer, with what needs somebody and what to know of the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic.alias_generators import to_camel

from infra.google.times import moment
from infra.ops.answers.metrics_answers import LatencyData, LoadData, MemberLoad, MetricsAnswer
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.live_metrics.member_readings import MemberReadings, Reading
from infra.planning.units import counted, read_duration
from infra.serving.histogram import Histogram
from infra.serving.load import HIGH_KV_USAGE, LONG_WAIT_S, ServerLoad, Span


def read_all(members: Sequence[MemberReadings]) -> list[Reading]:
    """Return the next reading of every server, asked at the same time: one that says nothing keeps no other waiting."""
    if len(members) == 1:
        return [members[0].read()]
    with ThreadPoolExecutor(len(members)) as pool:
        return list(pool.map(MemberReadings.read, members))


def load_answer(endpoint: Endpoint, readings: Sequence[Reading], *, watching: bool, at: float) -> MetricsAnswer:
    """Return the answer for one round of readings. `at` is its moment, in seconds since 1970."""
    spans = [(reading, span) for reading in readings if (span := _span(reading, watching)) is not None]
    return MetricsAnswer(
        endpoint=endpoint.name,
        at=moment(at),
        over="interval" if watching else "since start",
        speeds_over_s=round(max((span.rate_s for _, span in spans), default=0.0), 2),
        members=[_member(reading, _span(reading, watching)) for reading in readings],
        together=_data(ServerLoad.of([span for _, span in spans])) if spans else None,
        warnings=[warning for reading, span in spans for warning in _warnings(reading, span)],
        notes=list(_notes(endpoint, readings)),
    )


def _span(reading: Reading, watching: bool) -> Span | None:
    return reading.since_before if watching else reading.since_start


def _member(reading: Reading, span: Span | None) -> MemberLoad:
    return MemberLoad(
        name=reading.name,
        error=reading.error,
        running_for_s=None if reading.running_for_s is None else round(reading.running_for_s),
        restarted=reading.restarted,
        load=None if span is None else _data(ServerLoad.of([span])),
    )


def _data(load: ServerLoad) -> LoadData:
    return LoadData(
        running=load.running,
        waiting=load.waiting,
        kv_usage=_rounded(load.kv_usage),
        kv_tokens=load.kv_tokens,
        prompt_tokens_per_second=_rounded(load.prompt_tokens_per_second),
        generation_tokens_per_second=_rounded(load.generation_tokens_per_second),
        ttft=_latency(load.ttft),
        inter_token=_latency(load.inter_token),
        prefix_hit_rate=_rounded(load.prefix_hit_rate),
        preemptions=load.preemptions,
        acceptance_rate=_rounded(load.acceptance_rate),
        accepted_length=_rounded(load.accepted_length),
        finished=None if load.finished is None else dict(load.finished),
        unknown=[to_camel(name) for name in load.unknown],
    )


def _latency(histogram: Histogram | None) -> LatencyData | None:
    if histogram is None:
        return None
    return LatencyData(
        count=round(histogram.count),
        mean_s=_rounded(histogram.mean),
        p50_s=_rounded(histogram.percentile(0.5)),
        p90_s=_rounded(histogram.percentile(0.9)),
    )


def _rounded(value: float | None) -> float | None:
    """Return a measured value to four figures: what lies behind them is the place in a bucket."""
    return None if value is None else float(f"{value:.4g}")


def _warnings(reading: Reading, span: Span) -> Iterator[str]:
    who = f"{reading.name}: " if reading.name else ""
    usage = ServerLoad.of([span]).kv_usage
    if usage is not None and usage > HIGH_KV_USAGE:
        yield (
            f"{who}{usage:.0%} of the KV cache is in use, more than {HIGH_KV_USAGE:.0%}: further requests will wait, or put "
            "others back in line. Lower serving.maxNumSeqs or serving.maxModelLen, or add replicas."
        )
    if reading.waiting_for_s > LONG_WAIT_S:
        yield (
            f"{who}requests have been waiting in line for {read_duration(reading.waiting_for_s)}, longer than "
            f"{LONG_WAIT_S:.0f} s: more arrive than this server can run. Add replicas, or send fewer at once."
        )


def _notes(endpoint: Endpoint, readings: Sequence[Reading]) -> Iterator[str]:
    for reading in readings:
        who = f"{reading.name} " if reading.name else "the server "
        if reading.restarted:
            yield f"{who}restarted since the reading before: what it had counted is gone"
    seen = max(reading.processes for reading in readings)
    replicas = endpoint.planned.plan.cost.replicas if endpoint.planned else 1
    if seen > 1:
        yield f"{counted(seen, 'instance')} answered in turn at one address: each reading is of one of them only"
    elif replicas > len(endpoint.members):
        yield f"up to {counted(replicas, 'instance')} share this address, and a reading is of the one that answered"
    elif endpoint.planned is None and endpoint.tokens is not None and endpoint.tokens.is_identity:
        yield "where the service has several instances, a reading is of the one that answered"
