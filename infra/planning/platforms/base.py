"""What every platform must answer, and what it may leave at a default."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from infra.catalog import Accelerator, Catalog, Quota
from infra.errors import Fault, Findings
from infra.planning.artifacts import ImageRef
from infra.planning.cost.estimate import Rental
from infra.planning.gateway.service_limits import HttpProbe
from infra.planning.names import Names
from infra.planning.performance.startup import (
    Stage,
    StartupEstimate,
    WeightPath,
    path_notes,
    start_remedies,
    weight_path,
    weights_stage,
)
from infra.planning.platforms.renewal import RenewalLead
from infra.planning.server.hosting import Hosting
from infra.planning.server.server import Server
from infra.planning.settings.declarations import MOST_SEQS, Settings
from infra.planning.settings.resolve import Origin
from infra.planning.units import Band

QUOTAS_PAGE = "https://console.cloud.google.com/iam-admin/quotas"
"""Where a project's quotas are shown, and more is asked for."""


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
        """The amount in the quota's own unit: the number to ask Google for."""
        return round(self.amount * self.quota.per_unit)

    def with_one_more(self, machines: int) -> QuotaNeed:
        """Return the need of a stack of so many machines while one is renewed: then there is one machine more."""
        return replace(self, amount=self.amount * (machines + 1) / machines)

    def beyond_default(self, times: int = 1) -> bool:
        """Return True if `times` the amount is more than a project usually has; False where that is not known."""
        return self.quota.default is not None and times * self.amount > self.quota.default


class Deployment(Rental):
    """What one stack deploys to serve, and what follows from it. One frozen subclass a platform."""

    @property
    def machines(self) -> int:
        """How many machines there are when the stack runs."""
        return self.replicas

    @property
    def requests_each(self) -> int:
        """The most requests that one server is sent at once."""
        return MOST_SEQS

    @property
    def most_in_flight(self) -> int | None:
        """The most requests that all servers together are sent at once; None where each takes as many as it alone does."""
        return None

    def member_paths(self) -> Mapping[str, str]:
        """Return, by the name of each server, the path that selects it at the stack's address; both empty of the only one."""
        return {"": ""}

    def hosts(self, member: str) -> tuple[str, ...]:
        """Return what the machine of the server of that name may be called: one that another follows has turns."""
        return (member,)

    def log_place(self, names: Names, member: str) -> Mapping[str, str]:
        """Return where the server of that name, or the machine of that host, logs: its kind (service or machine), name and
        location; empty: nowhere yet."""
        return {}

    def services(self, names: Names) -> Mapping[str, tuple[str, str]]:
        """Return the Cloud Run services of the stack, name and region, by what each is: `service` or `gateway`."""
        return {}

    @property
    def startup_probe(self) -> HttpProbe | None:
        """The probe that ends a start which takes too long; None if the platform has none."""
        return None

    def deploy_timeout_s(self, startup: StartupEstimate, ready_timeout_s: int) -> int:
        """Return Pulumi's time-out, in seconds, for what waits for the model to load."""
        return ready_timeout_s

    def renewal(self, startup: StartupEstimate) -> RenewalLead | None:
        """Return how early a machine that Google ends must be renewed; None where nothing ends."""
        return None

    def quotas(self, facts: Catalog) -> Iterable[QuotaNeed]:
        """Return what the whole stack is counted against, the devices first; nothing where that is not on file."""
        return ()

    def summary(self, usd_per_run: float | None) -> Iterable[tuple[str, str]]:
        """Return the same as `rows` in one line a subject; `usd_per_run` is the price until everything ends by itself."""
        return ()

    def rows(self, settings: Settings, startup: StartupEstimate) -> Iterable[tuple[str, list[str]]]:
        """Return the rows of a report that only this platform has: a subject and its lines."""
        return ()

    def as_json(self) -> Mapping[str, Any]:
        """Return the keys of a plan's JSON that only this platform has."""
        return {}

    @property
    def terms(self) -> str:
        """On which terms an hour is bought, as the end of a sentence about the machine."""
        return "on demand, is paid for while it exists and runs until it is deleted"

    @property
    def settings_without_end(self) -> Mapping[str, Any]:
        """What to write, by setting, so that a machine that ends by itself stays; empty where it stays anyway."""
        return {}

    def settings_of(self, replicas: int, requests_each: int) -> Mapping[str, Any]:
        """Return what to write, by setting, for `replicas` of this server with `requests_each` requests at once."""
        return {}


@dataclass(frozen=True)
class Draft:
    """What is decided and predicted of a stack when its platform is asked what is wrong with it."""

    settings: Settings
    origins: Mapping[str, Origin]
    accelerator: Accelerator
    place: Place
    server: Server
    startup: StartupEstimate
    images: Mapping[str, ImageRef]
    quotas: Sequence[QuotaNeed]
    longest_answer_s: Band
    """Of a typical request at the planned load."""


DeploymentT = TypeVar("DeploymentT", bound=Deployment)


class Platform(ABC, Generic[DeploymentT]):
    """A product of Google Cloud that runs servers: what holds for every stack on it, and what is wrong with one."""

    id: ClassVar[str]
    """As the catalog's machines name it."""
    where: ClassVar[str]
    """In a sentence: on Cloud Run."""
    location_setting: ClassVar[str] = "region"
    """The setting that chooses where the devices are."""
    run_duration_setting: ClassVar[str] = ""
    """The setting that says when a machine ends, where it does."""
    names_setting: ClassVar[str] = ""
    """The setting that names the machines, where machines have names: an empty list there pauses a stack."""
    without_effect: ClassVar[Mapping[str, str]] = {}
    """Settings that change nothing here, by key or group of keys, and why."""
    start_source: ClassVar[str]
    """Which starts the estimate of a start was fitted to."""
    start_notes: ClassVar[tuple[str, ...]] = ()
    """What to know of every start here."""
    waits_for_capacity: ClassVar[bool] = True
    """Whether a start is counted from when capacity is granted."""
    fills_machine: ClassVar[bool] = False
    """Whether devices that one server leaves are given to further servers on the same machine."""
    scales_to_zero: ClassVar[bool] = False
    """True if no machine is paid for while there are no requests."""
    without_metrics: ClassVar[str] = ""
    """What else follows on this platform if the server's metrics are off, as the end of a sentence."""
    most_replicas: ClassVar[int] = 1
    """The most replicas that a recommendation looks at."""
    images: ClassVar[tuple[str, ...]] = ()
    """Roles of the images that a stack needs here beside serving and staging."""
    part_suffixes: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of accounts, subnets and tags that a stack has only here: no stack may be called so."""
    apis: ClassVar[tuple[str, ...]] = ()
    """Google APIs that a stack needs here beside those of every stack."""
    components: ClassVar[str] = ""
    """The module whose `deploy` builds a plan's resources; blank where nothing does yet."""
    diagnosis: ClassVar[str] = ""
    """The module whose `look_at` finds what can fail on this platform alone; blank where nothing can."""
    operations: ClassVar[str] = ""
    """The module whose `OPERATIONS` asks what runs of a stack; blank where nothing does yet."""
    preflight: ClassVar[str] = ""
    """The module with the preflight checks that only this platform needs; blank where there are none."""
    rollback: ClassVar[str] = ""
    """The module that finds what a stack served before, and goes back to it; blank where none can."""

    @abstractmethod
    def place(self, settings: Settings, accelerator: Accelerator) -> Place:
        """Return where a stack with these settings is."""

    @abstractmethod
    def deployment(
        self, settings: Settings, accelerator: Accelerator, place: Place, *, max_num_seqs: int, startup: StartupEstimate
    ) -> DeploymentT:
        """Return what is deployed for servers that run `max_num_seqs` requests at once and start as predicted."""

    @abstractmethod
    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        """Return what a server finds where it runs."""

    @abstractmethod
    def start_stages(self, settings: Settings, server: Server, weights: Stage) -> Iterable[Stage]:
        """Return the stages of a start in their order, `weights` among them."""

    def startup(self, settings: Settings, server: Server, weight_bytes: int) -> StartupEstimate:
        """Return how long `server` needs from nothing to its first answer; it reads `weight_bytes` of checkpoints."""
        return self.startup_by(weight_path(settings, server), settings, server, weight_bytes)

    def startup_by(self, path: WeightPath, settings: Settings, server: Server, weight_bytes: int) -> StartupEstimate:
        """Return the same as `startup`, whatever the settings say of the path by which the weights come."""
        return StartupEstimate(
            stages=tuple(self.start_stages(settings, server, weights_stage(weight_bytes, path))),
            path=path,
            remedies=tuple(start_remedies(server, weight_bytes, path)),
            notes=(*path_notes(path), *self.start_notes),
            source=self.start_source,
        )

    def bad_settings(self, settings: Settings) -> Iterable[Fault]:
        """Return what is wrong in itself with this platform's own settings, whichever platform a stack is on."""
        return ()

    def paused(self, settings: Settings) -> bool:
        """Return whether nothing is kept running or asked for, while all else of the stack stays."""
        return settings.paused

    def image_puller(self, names: Names) -> str:
        """Return whose account pulls the serving image."""
        return f"the stack's runtime account ({names.email(names.prefix)})"

    def most_requests_each(self, replicas: int) -> int:
        """Return how many requests one of `replicas` servers may run at once: what it is let run, and what reaches it."""
        return MOST_SEQS

    def findings(self, draft: Draft, deployment: DeploymentT) -> Findings:
        """Return what is known not to work, or to be wasted, with what is deployed."""
        return Findings()

    def notes(self, draft: Draft, deployment: DeploymentT) -> Iterable[str]:
        """Return what a reader should know beside the numbers."""
        return ()

    def check_place(self, settings: Settings, accelerator: Accelerator, place: Place) -> Findings:
        """Return a refusal for a place that does not offer the machine, a warning for one that does so by invitation."""
        offered, where = accelerator.locations, place.location
        if where in accelerator.invited_locations:
            fact = f"{where} offers {accelerator.title} by invitation only."
            fix = f"Safer: {', '.join(offered)}."
            return Findings(
                warnings=(Fault(self.location_setting, fact, "Without one the deployment is refused.", fix),)
            )
        if where in offered:
            return Findings()
        fact = f"{where} is not known to offer {accelerator.title}."
        consequence = "The deployment would be refused after images and weights are in place."
        fix = f"Write one of: {', '.join(self.offered_places(settings, accelerator))}."
        return Findings((Fault(self.location_setting, fact, consequence, fix),))

    def offered_places(self, settings: Settings, accelerator: Accelerator) -> Sequence[str]:
        """Return the places to choose from, on the terms that the settings ask for."""
        return accelerator.locations

    def chosen_settings(self, settings: Settings) -> Iterable[str]:
        """Return the paths of settings without a value for which `deployment` chooses one."""
        return ()
