"""What every platform must answer, and what it may leave at a default."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from infra.catalog import Accelerator, Catalog, Quota
from infra.errors import Fault
from infra.planning.cost.estimate import Rental
from infra.planning.gateway.service_limits import HttpProbe
from infra.planning.performance.startup import StartupEstimate
from infra.planning.settings.declarations import MOST_SEQS, Settings


@dataclass(frozen=True)
class Place:
    """Where a stack is."""

    region: str
    """Of everything regional: images, weights, services."""
    location: str
    """Where the devices are, as the catalog lists it for the machine: a region or a zone."""
    zone: str | None = None
    """The zone of the devices where a setting chooses it; None elsewhere."""


@dataclass(frozen=True)
class QuotaNeed:
    """How much of a quota the whole stack needs in `place`, a region or a zone."""

    quota: Quota
    place: str
    amount: float
    """In `quota.unit`."""

    @property
    def value(self) -> int:
        """The same in the quota's own unit: the number to ask Google for."""
        return round(self.amount * self.quota.per_unit)

    def beyond_default(self, times: int = 1) -> bool:
        """Whether `times` the amount is more than a project usually has; False where that is not known."""
        return self.quota.default is not None and times * self.amount > self.quota.default


class Deployment(Rental):
    """What one stack deploys to serve, and what follows from it. One frozen subclass a platform."""

    @property
    def requests_each(self) -> int:
        """The most requests that are let through to one server at once."""
        return MOST_SEQS

    @property
    def startup_probe(self) -> HttpProbe | None:
        """The probe that ends a start which takes too long; None where nothing does."""
        return None

    def deploy_timeout_s(self, startup: StartupEstimate, ready_timeout_s: int) -> int:
        """Return Pulumi's time-out, in seconds, for what waits for the model to load."""
        return ready_timeout_s

    def quotas(self, facts: Catalog) -> Iterable[QuotaNeed]:
        """Return what the whole stack is counted against, the devices first; nothing where that is not on file."""
        return ()

    def quota_warnings(self, needs: Sequence[QuotaNeed]) -> Iterable[Fault]:
        """Return a warning where a project with the usual quotas cannot hold the stack."""
        return ()

    def quota_notes(self, needs: Sequence[QuotaNeed]) -> Iterable[str]:
        """Return what a later change of the stack may need beside `needs`."""
        return ()


class Platform(ABC):
    """A product of Google Cloud that runs servers: what holds for every stack on it."""

    id: ClassVar[str]
    """As the catalog's machines name it."""
    where: ClassVar[str]
    """In a sentence: on Cloud Run."""
    location_setting: ClassVar[str] = "region"
    """The setting that chooses where the devices are."""
    without_effect: ClassVar[Mapping[str, str]] = {}
    """Settings that change nothing here, by key or group of keys, and why."""

    @abstractmethod
    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        """Return where a stack with these settings is."""

    @abstractmethod
    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> Deployment:
        """Return what is deployed for servers that run `max_num_seqs` requests at once and start as predicted."""

    def chosen_settings(self, settings: Settings) -> Iterable[str]:
        """Return the paths of settings without a value for which `deployment` chooses one."""
        return ()
