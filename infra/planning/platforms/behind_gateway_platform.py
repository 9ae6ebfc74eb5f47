"""What holds for every platform whose machines stand behind a gateway: what a server finds there, and what is wrong."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from infra.catalog import Accelerator
from infra.errors import Findings
from infra.planning.gateway.limits import most_requests_each
from infra.planning.gateway.members import MEMBER_NAMES
from infra.planning.names import Names
from infra.planning.platforms.base import Draft, Platform
from infra.planning.platforms.behind_gateway import BehindGateway, CapacitySettings
from infra.planning.platforms.behind_gateway_checks import check_behind_gateway
from infra.planning.server.hosting import IN_MEMORY, SHUTDOWN_S, VPC_ADDRESS, Hosting
from infra.planning.settings.declarations import Settings

BehindGatewayT = TypeVar("BehindGatewayT", bound=BehindGateway)


def without_effect(names_setting: str, devices: str) -> dict[str, str]:
    """Return the settings that change nothing on machines with such devices, which `names_setting` names, and why."""
    named, machine = f"{names_setting} says how many there are", f"the machine belongs to the {devices}"
    return {
        "scaling.minInstances": named,
        "scaling.maxInstances": named,
        "scaling.cpu": machine,
        "scaling.memoryGib": machine,
        "probes": "the supervisor on the machine probes",
        "weights.access": "the weights are copied into memory",
    }


class BehindGatewayPlatform(Platform[BehindGatewayT], Generic[BehindGatewayT]):
    """A product that rents out machines without an address on the internet."""

    most_replicas = len(MEMBER_NAMES)
    images = ("gateway",)
    rollback = "infra.ops.changing.earlier_spec"

    @abstractmethod
    def capacity_settings(self, settings: Settings) -> CapacitySettings:
        """Return the settings that say on which terms the machines are asked for."""

    @abstractmethod
    def own_findings(self, draft: Draft, deployment: BehindGatewayT) -> Findings:
        """Return what is known not to work, or to be wasted, beside what holds behind every gateway."""

    def hosting(self, settings: Settings, accelerator: Accelerator, names: Names) -> Hosting:
        return Hosting(
            weights_folder=IN_MEMORY,
            staged_in_memory=True,
            listens_on=VPC_ADDRESS,
            shutdown_s=SHUTDOWN_S,
            memory_gib=accelerator.host_memory_gib,
        )

    def findings(self, draft: Draft, deployment: BehindGatewayT) -> Findings:
        asked = self.capacity_settings(draft.settings)
        return self.own_findings(draft, deployment) + check_behind_gateway(draft, deployment, asked)

    def most_requests_each(self, replicas: int) -> int:
        return most_requests_each(replicas)
