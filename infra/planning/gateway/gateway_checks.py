"""Settings of the gateway that would change nothing, or harm, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from infra.errors import Fault
from infra.planning.settings.declarations import MOST_CONCURRENCY, Settings
from infra.planning.settings.resolve import WRITTEN, Origin

_IGNORED = "It would be ignored."


def check_gateway(
    settings: Settings,
    origins: Mapping[str, Origin],
    *,
    names_setting: str,
    servers: int,
    requests_each: int,
    max_num_seqs: int,
) -> Iterator[Fault]:
    """Yield a warning for each setting without use before so many `servers`, whose machines `names_setting` names, and each of
    which holds `requests_each` requests and runs `max_num_seqs` of them at once."""
    yield from _affinity(settings, servers, names_setting)
    yield from _per_caller(settings, servers, min(servers * requests_each, MOST_CONCURRENCY), max_num_seqs)
    yield from _per_server(settings, requests_each, max_num_seqs)
    if settings.gateway.per_server is not None:
        return
    fact = (
        f"each server is sent up to {requests_each} requests and queues them itself, in the order in which they come."
    )
    fix = f"Write gateway.perServer: {max_num_seqs}, as many as a server runs at once, or take it out."
    for key in ("gateway.priority", "gateway.queueTimeout"):
        if origins.get(key) in WRITTEN and (key != "gateway.priority" or settings.gateway.priority):
            yield Fault(key, f"has no effect: {fact}", _IGNORED, fix)


def _affinity(settings: Settings, servers: int, names_setting: str) -> Iterator[Fault]:
    key, affinity = "gateway.affinity", settings.gateway.affinity
    if affinity == "none":
        return
    if servers == 1:
        fact, consequence = (
            f"{affinity} has no effect: there is one server.",
            "Every request would go to it all the same.",
        )
        yield Fault(key, fact, consequence, f"Write none, or name a second one: {names_setting}: [blue, green].")
    elif not settings.serving.prefix_caching:
        fact = f"{affinity} has no use: with serving.prefixCaching: false no server remembers a beginning."
        fix = "Write none, or serving.prefixCaching: true."
        yield Fault(key, fact, "Requests would be spread less evenly, for nothing.", fix)


def _per_caller(settings: Settings, servers: int, in_flight_limit: int, max_num_seqs: int) -> Iterator[Fault]:
    most = settings.gateway.per_caller
    if most is None:
        return
    if servers * max_num_seqs > MOST_CONCURRENCY:
        fact = f"the gateway stays at one instance, which Cloud Run sends {MOST_CONCURRENCY} requests."
        consequence = f"{servers} servers run {servers * max_num_seqs} at once, so the batches can never fill."
        yield Fault("gateway.perCaller", fact, consequence, "Take it out, or use fewer servers.")
    if most >= in_flight_limit:
        fact = f"{most} is no less than the {in_flight_limit} requests that the gateway lets in at all."
        fix = f"Write less than {in_flight_limit}, such as a quarter of it, or take it out."
        yield Fault("gateway.perCaller", fact, "One caller could take them all.", fix)


def _per_server(settings: Settings, requests_each: int, max_num_seqs: int) -> Iterator[Fault]:
    key, most = "gateway.perServer", settings.gateway.per_server
    if most is None:
        return
    if most < max_num_seqs:
        fact = f"{most} is less than serving.maxNumSeqs {max_num_seqs}."
        yield Fault(key, fact, "The batch can never fill.", f"Write {max_num_seqs}.")
    elif most >= requests_each:
        fact = f"{most} is no less than the {requests_each} requests that the gateway lets in for a server."
        fix = f"Write {max_num_seqs}, as many as a server runs at once, or raise scaling.concurrency."
        yield Fault(key, fact, "None would wait at the gateway, and nothing could go first there.", fix)
