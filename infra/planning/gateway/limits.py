"""The gateway before the TPU slices, as a Cloud Run service: how much it lets in, and what it runs on."""

from __future__ import annotations

from dataclasses import dataclass

from infra.planning.gateway.nginx import ENV_NAME, PORT, READY_PATH, launch_script
from infra.planning.gateway.service_limits import REQUEST_TIMEOUT_MAX_S, HttpProbe
from infra.planning.settings.declarations import MOST_CONCURRENCY

_HELD_PER_SLICE = 512
"""Requests in flight for one slice, running and waiting, where scaling.concurrency does not say. Not derived from
maxNumSeqs: a changed flag must leave the gateway alone."""
_HEADROOM = 100
"""Requests beside the balanced ones that must still get in: refusals, single slices, probes."""
MOST_IN_FLIGHT = MOST_CONCURRENCY - _HEADROOM
"""Balanced requests at once, of all slices together."""

_PROBE = HttpProbe(initial_delay_s=0, period_s=5, timeout_s=5, failure_threshold=48, path=READY_PATH)


@dataclass(frozen=True)
class GatewayPlan:
    """The Cloud Run service of the gateway. One instance: nginx counts requests and failures by itself."""

    in_flight_limit: int
    """Balanced requests at once; the next one is told to come back."""
    concurrency: int
    """Requests that Cloud Run sends to the instance; above the limit, so that nginx does the refusing."""
    cpu: int = 1
    memory_mib: int = 512
    min_instances: int = 1
    """Direct VPC egress of a fresh instance passes nothing for 20 to 80 s, so one is kept."""
    max_instances: int = 1
    request_timeout_s: int = REQUEST_TIMEOUT_MAX_S
    """Of a whole request, and of the silence before an answer."""
    port: int = PORT
    env_name: str = ENV_NAME
    """Environment variable that carries the configuration."""
    probe: HttpProbe = _PROBE
    """Four minutes for the VPC to come up: the longest window that every version of the API takes."""

    @property
    def command(self) -> tuple[str, ...]:
        """Return what the container runs instead of the image's entry point."""
        return ("sh", "-c", launch_script())


def plan_gateway(
    slices: int, held_per_slice: int | None = None, request_timeout_s: int = REQUEST_TIMEOUT_MAX_S
) -> GatewayPlan:
    """Return the gateway of so many slices, each of which may hold `held_per_slice` requests, running and waiting."""
    limit = min(slices * (held_per_slice or _HELD_PER_SLICE), MOST_IN_FLIGHT)
    return GatewayPlan(limit, concurrency=limit + _HEADROOM, request_timeout_s=request_timeout_s)
