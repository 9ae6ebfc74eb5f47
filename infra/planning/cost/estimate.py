"""What a plan costs: an hour of running, a month of doing nothing, a million output tokens, a whole slice.

List prices of the catalog, without discounts, taxes, Cloud Run's free tier and network egress. A month is 730 hours,
a GB 10^9 bytes. Amounts are US dollars; every line carries the price row that it comes from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from infra.catalog import Catalog
from infra.planning.cost.price_lines import LineItem, price_line
from infra.planning.performance.speed import Rate
from infra.planning.units import Band

_GB = 1e9


class Rental(ABC):
    """What is rented to serve, in replicas: what each platform deploys answers these questions with its own prices."""

    @property
    @abstractmethod
    def replicas(self) -> int:
        """The most that run at once."""

    @abstractmethod
    def hour(self, facts: Catalog) -> Iterable[LineItem]:
        """Return the price lines for an hour of one replica."""

    def idle_month(self, facts: Catalog) -> Iterable[LineItem]:
        """Return the price lines for a month of what runs even while no request comes."""
        return ()

    @property
    def together(self) -> int:
        """Replicas that come and go together, because one machine runs them."""
        return 1

    @property
    def kept_replicas(self) -> int:
        """Replicas that `idle_month` prices: they run whether requests come or not."""
        return 0

    @property
    def always_running(self) -> int:
        """The fewest replicas that are paid for around the clock."""
        return self.replicas if self.ends_after_s is None else 0

    @property
    def ends_after_s(self) -> int | None:
        """Seconds after which a replica ends by itself; None where nothing ends."""
        return None

    def price_notes(self, facts: Catalog) -> Iterable[str]:
        """Return what to know before renting."""
        return ()


LOADS = (1, 10, 40)
"""Numbers of requests running at one server for which the price of a token is given: with drafts it depends on the load most
of all, since many requests leave a GPU no time to spare for checking them."""


@dataclass(frozen=True)
class PricedLoad:
    """The price of a million output tokens with so many requests running at one server, all prompts cached."""

    requests: int
    usd_per_million: Band


@dataclass(frozen=True)
class CostEstimate:
    """Dollars. A replica is one instance, slice or machine; tokens are priced on one that is busy all the time."""

    replica_hour: tuple[LineItem, ...]
    idle_month: tuple[LineItem, ...]
    """Storage, kept instances, the gateway: paid while no request comes. A TPU slice that exists is never idle."""
    staging: tuple[LineItem, ...]
    staging_spread: Band
    """How long the copy may take, over how long it is likely to."""
    replicas: int
    """The most that the stack runs at once."""
    together: int
    """Of these, as many come and go together as one machine runs."""
    planned_requests: int
    usd_per_million_alone: Band
    usd_per_million_planned: Band
    """Output tokens, decoding only: prompts come from the prefix cache, as in published figures."""
    usd_per_million_new_prompts: Band
    """As planned, when every prompt has to be computed."""
    at_loads: tuple[PricedLoad, ...]
    """At those of LOADS that one server runs at once."""
    run_hours: float | None
    """Hours after which a slice ends by itself; None where nothing ends."""
    notes: tuple[str, ...]

    @property
    def usd_per_hour(self) -> float:
        """Dollars an hour while one replica runs."""
        return _sum(self.replica_hour)

    @property
    def usd_per_hour_together(self) -> float:
        """Dollars an hour while the fewest run that can be rented: one replica, or those of one machine."""
        return self.usd_per_hour * self.together

    @property
    def usd_per_hour_at_most(self) -> float:
        """Dollars an hour while all replicas run."""
        return self.usd_per_hour * self.replicas

    @property
    def usd_per_month_idle(self) -> float:
        """Dollars for a month without requests."""
        return _sum(self.idle_month)

    @property
    def usd_per_run(self) -> float | None:
        """Dollars for all slices over their whole maxRunDuration; None if what is rented has no end."""
        return None if self.run_hours is None else self.usd_per_hour_at_most * self.run_hours

    @property
    def usd_staging(self) -> float:
        """Dollars for the one-time copy of the weights into the bucket, if it takes as long as is likely."""
        return _sum(self.staging)

    @property
    def usd_staging_band(self) -> Band:
        """Dollars for that copy, by how long it may take."""
        return self.staging_spread.times(self.usd_staging)


@dataclass(frozen=True)
class Kept:
    """What the stack stores, month by month."""

    region: str
    bucket_bytes: int = 0
    """Checkpoints in the stack's own bucket."""
    image_bytes: float = 0.0
    """Images in the stack's Artifact Registry repository."""
    secret_versions: int = 0


@dataclass(frozen=True)
class StagingJob:
    """The one-time copy of the weights into the bucket: a Cloud Run job, how long and on what."""

    region: str
    seconds: Band
    cpu: float
    memory_gib: float


def estimate_cost(
    catalog: Catalog,
    rental: Rental,
    *,
    kept: Kept,
    alone: Rate,
    planned: Rate,
    loads: Iterable[Rate] = (),
    staging: StagingJob | None = None,
) -> CostEstimate:
    """Price a plan. Raises CatalogError where the catalog has no price at all for something that is rented."""
    replica = tuple(rental.hour(catalog))
    idle = (*_stored(catalog, kept), *rental.idle_month(catalog))
    staged = tuple(_staged(catalog, staging)) if staging else ()
    usd_per_million_seconds = 1e6 * _sum(replica) / 3600
    return CostEstimate(
        replica_hour=replica,
        idle_month=idle,
        staging=staged,
        staging_spread=staging.seconds.times(1 / staging.seconds.mid) if staging else Band.exactly(1.0),
        replicas=rental.replicas,
        together=rental.together,
        planned_requests=planned.requests,
        usd_per_million_alone=alone.total.dividing(usd_per_million_seconds),
        usd_per_million_planned=planned.total.dividing(usd_per_million_seconds),
        usd_per_million_new_prompts=planned.with_new_prompts.dividing(usd_per_million_seconds),
        at_loads=tuple(PricedLoad(rate.requests, rate.total.dividing(usd_per_million_seconds)) for rate in loads),
        run_hours=None if rental.ends_after_s is None else rental.ends_after_s / 3600,
        notes=(*_stand_ins((*replica, *idle, *staged)), *rental.price_notes(catalog)),
    )


def _stored(catalog: Catalog, kept: Kept) -> Iterator[LineItem]:
    if kept.bucket_bytes:
        yield price_line(catalog, "bucket", kept.bucket_bytes / _GB, "storage-standard", kept.region)
    if kept.image_bytes:
        yield price_line(catalog, "image repository", kept.image_bytes / _GB, "artifact-registry", kept.region)
    if kept.secret_versions:
        yield price_line(catalog, "secrets", kept.secret_versions, "secret-version", kept.region)


def _staged(catalog: Catalog, job: StagingJob) -> Iterator[LineItem]:
    hours = job.seconds.mid / 3600
    yield price_line(catalog, "staging vCPU", job.cpu * hours, "cloud-run-vcpu", job.region)
    yield price_line(catalog, "staging memory", job.memory_gib * hours, "cloud-run-memory", job.region)


def _stand_ins(items: Iterable[LineItem]) -> Iterator[str]:
    """One sentence for all prices that are not the region's own."""
    borrowed: dict[str, dict[str, None]] = {}
    for item in items:
        if item.price.region is None:
            borrowed.setdefault(item.region, {})[item.label] = None
    if borrowed:
        where = "; ".join(f"{region}: {', '.join(labels)}" for region, labels in borrowed.items())
        yield f"Tier-1 prices stand in, none on file for {where}."


def _sum(items: Iterable[LineItem]) -> float:
    return sum(item.usd for item in items)
