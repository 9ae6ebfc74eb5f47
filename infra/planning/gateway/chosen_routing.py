"""The lines of HAProxy's configuration that follow from the settings of the gateway: fairness first, which may refuse a
request before its body is read, then affinity, and how long a request waits for a server."""

from __future__ import annotations

from infra.planning.gateway.affinity import affinity_routing
from infra.planning.gateway.fairness import fairness_routing
from infra.planning.gateway.routing import Routing
from infra.planning.settings.declarations import GatewaySettings
from infra.planning.units import parse_duration


def choose_routing(gateway: GatewaySettings) -> Routing:
    """Return how the gateway of these settings chooses a member, and what it asks of a request before."""
    fair, near = fairness_routing(gateway), affinity_routing(gateway.affinity)
    most = [] if gateway.per_server is None else [f"maxconn {gateway.per_server}"]
    return Routing(
        global_lines=(*fair.global_lines, *near.global_lines),
        sections=(*fair.sections, *near.sections),
        frontend=(*fair.frontend, *near.frontend),
        balanced=(*near.balanced, f"timeout queue {parse_duration(gateway.queue_timeout)}s"),
        server=" ".join(filter(None, (near.server, *most))),
        log_fields=(*fair.log_fields, *near.log_fields),
    )
