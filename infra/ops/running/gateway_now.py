"""The gateway before a stack's machines: whether it lets requests through, and what its kept instance has cost."""

from __future__ import annotations

from infra.catalog import catalog
from infra.errors import GoogleError
from infra.google.monitoring import Monitoring
from infra.google.session import GoogleSession
from infra.google.times import timestamp_s
from infra.ops.answers.status_answers import ServiceRow
from infra.ops.running.service_now import read_service
from infra.ops.running.usage import Usage
from infra.planning.cost.price_lines import price_line
from infra.planning.gateway.limits import GatewayPlan
from infra.planning.plan import Plan

_ACTIVE_ONLY = 0.95
"""Billable time below this share of the time for which an instance was kept cannot hold its idle time."""


def look_at_gateway(
    session: GoogleSession, plan: Plan, gaps: list[str]
) -> tuple[ServiceRow | None, tuple[str, str] | None]:
    """Return the gateway, and why it does not let requests through with what to type: None where it does, or where it could not
    be asked, which is added to `gaps`."""
    try:
        gateway = read_service(session, plan.names.prefix, plan.region, gaps)
    except GoogleError as error:
        gaps.append(f"the gateway: {error}")
        return None, None
    return gateway, _fault(gateway, plan)


def _fault(gateway: ServiceRow | None, plan: Plan) -> tuple[str, str] | None:
    if gateway is None:
        return "has no gateway, so nobody can ask it", f"pulumi up -s {plan.stack}"
    if gateway.ready and not gateway.failed_revision:
        return None
    return "has a gateway whose newest revision is not ready", f"gemma4 diagnose {plan.stack}"


def gateway_usage(session: GoogleSession, plan: Plan, gateway: GatewayPlan, *, since: float, until: float) -> Usage:
    """Return the usage of the gateway's kept instance: at the price of idle time, and dearer while it forwards requests.

    Whether billable time holds the idle time of a kept instance is not documented. Less of it than the instance was kept
    cannot, so it is then the busy time; else the busy time lies between none and all of it.
    """
    facts, what = catalog(), "gateway"
    try:
        row = read_service(session, plan.names.prefix, plan.region, [])
        busy_s = Monitoring(session).service_seconds(plan.names.prefix, plan.region, since=since, until=until)
    except GoogleError as error:
        return Usage.unknown(what, str(error))
    created = None if row is None else timestamp_s(row.created)
    if row is None or created is None:
        return Usage.unknown(what, "it is not deployed")
    kept_s = max(0.0, until - max(since, created)) * row.min_instances
    price = {
        name: price_line(facts, what, quantity, sku, plan.region).usd
        for name, quantity, sku in (
            ("idle", gateway.cpu, "cloud-run-idle-vcpu"),
            ("memory", gateway.memory_mib / 1024, "cloud-run-idle-memory"),
            ("busy", gateway.cpu, "cloud-run-busy-vcpu"),
        )
    }
    base = kept_s / 3600 * (price["idle"] + price["memory"])
    dearer = price["busy"] - price["idle"]
    if busy_s is None:
        return Usage(what, kept_s, (base, base + kept_s / 3600 * dearer), "how much of it was busy is not known")
    extra = min(busy_s, max(kept_s, 0.0) or busy_s) / 3600 * dearer
    if busy_s < _ACTIVE_ONLY * kept_s:
        return Usage(what, kept_s, (base + extra, base + extra))
    return Usage(what, kept_s, (base, base + extra), "billable time may hold idle time: how much was busy is not known")
