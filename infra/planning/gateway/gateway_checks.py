"""Settings of the gateway that would change nothing, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

from infra.errors import Fault
from infra.planning.settings.declarations import Settings


def check_gateway(settings: Settings, *, servers: int, in_flight_limit: int) -> Iterator[Fault]:
    """Yield a warning for each setting without effect before so many `servers`, which together are sent `in_flight_limit`
    requests at once."""
    gateway = settings.gateway
    if gateway.affinity != "none":
        key, ignored, fix = "gateway.affinity", "It would be ignored.", "Take it out."
        if servers == 1:
            yield Fault(key, f"{gateway.affinity} has no effect: there is one server.", ignored, fix)
        elif not settings.serving.prefix_caching:
            fact = f"{gateway.affinity} has no use: with serving.prefixCaching: false no server remembers a beginning."
            yield Fault(key, fact, "Requests would be spread less evenly, for nothing.", fix)
    if gateway.per_caller is not None and gateway.per_caller >= in_flight_limit:
        fact = f"{gateway.per_caller} is no less than the {in_flight_limit} requests that the gateway lets in at all."
        fix = f"Write less than {in_flight_limit}, such as a quarter of it, or take it out."
        yield Fault("gateway.perCaller", fact, "One caller could take them all.", fix)
