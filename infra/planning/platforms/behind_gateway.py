"""What holds for every deployment of machines behind a gateway, whoever rents them out: TPU slices, and machines with GPUs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from infra.catalog import Catalog
from infra.planning.cost.price_lines import MONTH_H, LineItem, price_line
from infra.planning.gateway.limits import GatewayPlan, plan_gateway
from infra.planning.gateway.members import MEMBER_NAMES, GatewayMember
from infra.planning.names import Names
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.base import Deployment
from infra.planning.platforms.renewal import RenewalLead
from infra.planning.settings.declarations import MachineSettings, Provisioning, Settings, TpuSettings
from infra.planning.units import counted, parse_duration

GATEWAY = "-gate"
"""End of the name of the gateway's account."""
SHORTEST_QUEUE_S = 60
"""A request for capacity that stands for less is never granted."""

CapacitySettings = TpuSettings | MachineSettings
"""Groups of settings that say on which terms machines are asked for."""


@dataclass(frozen=True)
class BehindGateway(Deployment):
    """Machines that are all alike but for their names, which are part of their identity; and the gateway before them, whose
    instance is kept and billed by request."""

    names_setting: ClassVar[str]
    """The setting that names them."""
    machine_noun: ClassVar[str]
    """As messages call one of them: slice."""
    server_noun: ClassVar[str]
    """As messages call one of the servers on them."""
    api: ClassVar[str]
    """Who takes the request for one, at the beginning of a sentence."""
    lasting: ClassVar[str | None]
    """Provisioning with an end that can be had in place of one without; None where there is none."""

    names: tuple[str, ...]
    """Never empty: a stack that is paused without names is planned with one machine."""
    paused: bool
    """Whether none of them is asked for, while all else of the stack stays."""
    provisioning: Provisioning
    valid_until_duration_s: int | None
    """How long the request may stand in the queue; None where it waits in none."""
    max_run_duration_s: int | None
    """None: until it is deleted or, for spot, taken away."""
    wait_for_capacity_s: int
    """How long one `pulumi up` waits."""
    subnet_cidr: str
    """Range of the machines, beside the gateway's: the gateway can be let in, and no other."""
    gateway: GatewayPlan
    gateway_region: str

    @property
    @abstractmethod
    def region(self) -> str:
        """Of the machines, wherever the gateway is."""

    @property
    def group(self) -> str:
        """The group of settings that says what is asked for."""
        return self.names_setting.partition(".")[0]

    @property
    def machines(self) -> int:
        return len(self.names)

    @property
    def replicas(self) -> int:
        return self.machines * self.together

    @property
    def requests_each(self) -> int:
        return self.gateway.requests_each

    @property
    def most_in_flight(self) -> int:
        return self.gateway.max_instances * self.gateway.concurrency

    def member_paths(self) -> Mapping[str, str]:
        return {name: f"/members/{name}" for name in self.names}

    def services(self, names: Names) -> dict[str, tuple[str, str]]:
        return {"gateway": (names.prefix, self.gateway_region)}

    @property
    def unattended_s(self) -> int:
        """How long a request still stands in the queue after the `pulumi up` that made it has stopped waiting."""
        return max(0, (self.valid_until_duration_s or 0) - max(self.wait_for_capacity_s, SHORTEST_QUEUE_S))

    @property
    def always_running(self) -> int:
        return 0 if self.paused else super().always_running

    @property
    def ends_after_s(self) -> int | None:
        return self.max_run_duration_s

    def renewal(self, startup: StartupEstimate) -> RenewalLead | None:
        if self.max_run_duration_s is None:
            return None
        return RenewalLead(max(self.valid_until_duration_s or 0, self.wait_for_capacity_s), startup.extremes.high)

    def idle_month(self, facts: Catalog) -> Iterator[LineItem]:
        hours, gateway = MONTH_H * self.gateway.min_instances, self.gateway
        yield price_line(facts, "gateway vCPU", gateway.cpu * hours, "cloud-run-idle-vcpu", self.gateway_region)
        memory = gateway.memory_mib / 1024 * hours
        yield price_line(facts, "gateway memory", memory, "cloud-run-idle-memory", self.gateway_region)

    def price_notes(self, facts: Catalog) -> Iterator[str]:
        yield "The gateway is priced between requests; while it forwards some, its CPU costs about ten times as much."

    @property
    def settings_without_end(self) -> dict[str, Any]:
        return {} if self.max_run_duration_s is None else {f"{self.group}.provisioning": "on-demand"}

    def settings_of(self, replicas: int, requests_each: int) -> dict[str, Any]:
        written: dict[str, Any] = {}
        if self.gateway.requests_each < requests_each:
            written["scaling.concurrency"] = requests_each
        machines = -(-replicas // self.together)
        return written | ({self.names_setting: list(MEMBER_NAMES[:machines])} if machines > 1 else {})

    def gateway_lines(self, settings: Settings) -> Iterator[str]:
        """Yield the lines of a report on where the machines are, and what the gateway lets in."""
        yield f"machines in {self.subnet_cidr}, the range beside the gateway's {settings.network.subnet_cidr}"
        held = counted(self.gateway.requests_each, "request")
        yield f"the gateway admits {held} at once for each {self.server_noun} that is ready, and answers 429 to the next"

    def capacity_data(self) -> dict[str, Any]:
        """Return the keys that the JSON of every such deployment has."""
        return {
            "names": list(self.names),
            "provisioning": self.provisioning,
            "validUntilDurationS": self.valid_until_duration_s,
            "maxRunDurationS": self.max_run_duration_s,
            "waitForCapacityS": self.wait_for_capacity_s,
            "subnetCidr": self.subnet_cidr,
            "gatewayRequestsEach": self.gateway.requests_each,
        }


def is_paused(settings: Settings, names: Sequence[str]) -> bool:
    """Return whether no machine is asked for: by `paused`, or because none is named."""
    return settings.paused or not names


def queue_s(asked: CapacitySettings) -> int:
    """Return how long a request may stand in the queue: as long as one `pulumi up` waits, where nothing else is written."""
    if asked.valid_until_duration is not None:
        return parse_duration(asked.valid_until_duration)
    return max(parse_duration(asked.wait_for_capacity), SHORTEST_QUEUE_S)


def run_s(asked: CapacitySettings) -> int | None:
    """Return the seconds after which a machine ends by itself; None on terms that have no end."""
    return parse_duration(asked.max_run_duration) if asked.provisioning == "flex-start" else None


def gateway_before(members: Iterable[GatewayMember], settings: Settings) -> GatewayPlan:
    """Return the gateway that the settings ask for before these servers."""
    return plan_gateway(
        members,
        requests_each=settings.scaling.concurrency,
        request_timeout_s=parse_duration(settings.scaling.request_timeout),
        settings=settings.gateway,
    )
