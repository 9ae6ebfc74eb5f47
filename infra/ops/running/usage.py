"""For how long something ran that is paid by its running time, and what that costs at the list prices of the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from infra.catalog import catalog
from infra.errors import GoogleError
from infra.google.monitoring import Monitoring
from infra.google.session import GoogleSession
from infra.planning.cost.price_lines import price_line
from infra.planning.plan import Plan


@dataclass(frozen=True)
class Usage:
    """A part of a stack and its running time: of all its instances together. `usd` is the least and the most that it may
    have cost, the same where that is known. None where nobody knows."""

    what: str
    seconds: float | None
    usd: tuple[float, float] | None
    note: str = ""
    """How it was counted where that is not plain, or why it is not known."""

    @classmethod
    def unknown(cls, what: str, why: str) -> Usage:
        return cls(what, None, None, why)

    @classmethod
    def at(cls, what: str, seconds: float, usd_per_hour: float, note: str = "") -> Usage:
        """Return the usage of something with one price."""
        usd = seconds / 3600 * usd_per_hour
        return cls(what, seconds, (usd, usd), note)


COPY = "weights copy"
"""The job that fills the bucket: it runs once."""
NO_RECORD = "Cloud Monitoring has no record of it: it did not run, or its metrics are not kept any more"


def service_usage(session: GoogleSession, plan: Plan, *, since: float, until: float) -> Usage:
    """Return the usage of a GPU service: billable time of its instances, each at the price of an hour."""
    what = "server"
    return _asked(
        what,
        lambda: Monitoring(session).service_seconds(plan.names.prefix, plan.region, since=since, until=until),
        lambda seconds: Usage.at(what, seconds, plan.cost.usd_per_hour),
    )


def copy_usage(session: GoogleSession, plan: Plan, *, since: float, until: float) -> Usage | None:
    """Return the usage of the job that copies the weights; None where the stack has none."""
    job = plan.staging
    if job is None:
        return None
    facts, what = catalog(), COPY
    usd_per_hour = sum(
        price_line(facts, what, quantity, sku, plan.region).usd
        for quantity, sku in ((job.cpu, "cloud-run-vcpu"), (job.memory_gib, "cloud-run-memory"))
    )
    return _asked(
        what,
        lambda: Monitoring(session).job_seconds(plan.names.stager, plan.region, since=since, until=until),
        lambda seconds: Usage.at(what, seconds, usd_per_hour),
    )


def _asked(what: str, ask: Callable[[], float | None], usage: Callable[[float], Usage]) -> Usage:
    try:
        seconds = ask()
    except GoogleError as error:
        return Usage.unknown(what, str(error))
    return Usage.unknown(what, NO_RECORD) if seconds is None else usage(seconds)
