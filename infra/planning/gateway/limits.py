"""The gateway before machines without an address of their own, as a Cloud Run service: how much it lets in, what it runs on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.planning.gateway.chosen_routing import choose_routing
from infra.planning.gateway.container import environment, launch_script
from infra.planning.gateway.haproxy import PORT, READY_PATH, render_haproxy
from infra.planning.gateway.members import GatewayMember
from infra.planning.gateway.routing import Routing
from infra.planning.gateway.service_limits import REQUEST_TIMEOUT_MAX_S, HttpProbe
from infra.planning.names import Names
from infra.planning.settings.declarations import MOST_CONCURRENCY, GatewaySettings

HELD_EACH = 512
"""Requests in flight for one member, running and waiting, where scaling.concurrency does not say. Not derived from
maxNumSeqs: a changed flag must leave the gateway alone."""
MOST_INSTANCES = 4
"""Of the gateway, however many members there are: a further one must leave it alone, too."""
MOST_IN_FLIGHT = MOST_INSTANCES * MOST_CONCURRENCY
"""Requests at once, of all members together: what Cloud Run sends to so many instances."""

_PROBE = HttpProbe(initial_delay_s=0, period_s=5, timeout_s=5, failure_threshold=48, path=READY_PATH)


def most_requests_each(servers: int) -> int:
    """Return how many requests one of so many servers may be sent at once through a gateway."""
    return min(MOST_CONCURRENCY, MOST_IN_FLIGHT // servers)


@dataclass(frozen=True)
class GatewayPlan:
    """The Cloud Run service of the gateway. Each instance checks the members and counts requests by itself."""

    members: tuple[GatewayMember, ...]
    """Every server that there may be."""
    requests_each: int
    """In flight for one member, running and waiting. One request more than the members that are ready may hold in all is
    told to come back."""
    routing: Routing
    cpu: int = 1
    memory_mib: int = 512
    min_instances: int = 1
    """Direct VPC egress of a fresh instance passes nothing for 20 to 80 s, so one is kept."""
    max_instances: int = MOST_INSTANCES
    concurrency: int = MOST_CONCURRENCY
    """Requests that Cloud Run sends to one instance."""
    request_timeout_s: int = REQUEST_TIMEOUT_MAX_S
    """Of a whole request, and of the silence before an answer."""
    port: int = PORT
    probe: HttpProbe = _PROBE
    """Four minutes for the VPC to come up: the longest window that every version of the API takes."""

    @property
    def command(self) -> tuple[str, ...]:
        """Return what the container runs instead of the image's entry point."""
        return ("sh", "-c", launch_script())

    def environment(self, names: Names) -> dict[str, str]:
        """Return the environment variables of the container."""
        return environment(self.configuration(names))

    def configuration(self, names: Names) -> str:
        """Return HAProxy's configuration for the stack of these names."""
        return render_haproxy(
            project=names.project,
            domain=names.domain,
            members=self.members,
            requests_each=self.requests_each,
            request_timeout_s=self.request_timeout_s,
            routing=self.routing,
        )


def plan_gateway(
    members: Iterable[GatewayMember],
    *,
    requests_each: int | None = None,
    request_timeout_s: int = REQUEST_TIMEOUT_MAX_S,
    settings: GatewaySettings | None = None,
) -> GatewayPlan:
    """Return the gateway of these members, each of which may hold `requests_each` requests, running and waiting.

    Where the requests of each caller are counted, it stays at one instance, since each instance would count its own.
    """
    settings = settings or GatewaySettings()
    return GatewayPlan(
        tuple(members),
        requests_each or HELD_EACH,
        choose_routing(settings),
        max_instances=1 if settings.per_caller is not None else MOST_INSTANCES,
        request_timeout_s=request_timeout_s,
    )
