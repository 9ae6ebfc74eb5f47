"""Machines of Compute Engine under the smallest engine: each a group, its member, the machine as it runs, what that serves.

Group and member stand in for the gcp provider's: what they ask Google for is the same, and a member that exists ignores other
attributes, as the program says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulumi.dynamic import CreateResult, DiffResult, ReadResult, ResourceProvider

from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession, Retry
from infra.planning.gateway.members import MEMBER, member_attribute
from infra.providers.compute_machine import ComputeMachineProvider
from infra.providers.serving_spec import COMPUTE, ServingSpecProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.managed_group import GROUPS, REGION, ZONE, add_member, make_group
from tests.fakes.mini_engine import Declared, Outputs
from tests.fakes.slice_stack import Clock

PREFIX = "gemma4-g4x2"


class GroupProvider(ResourceProvider):
    """A managed group: other zones are another group, and its name is taken until it is gone."""

    def __init__(self, google: GoogleSession) -> None:
        self.google = google

    def create(self, props: dict[str, Any]) -> CreateResult:
        make_group(self.google, None, name=props["name"], zones=tuple(props["zones"]))
        made = self.google.get(Api.COMPUTE, f"{GROUPS}/{props['name']}")
        return CreateResult(props["name"], {**props, "generation": made["id"]})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        moved = [key for key in ("name", "zones") if olds[key] != news[key]]
        return DiffResult(changes=bool(moved), replaces=moved, delete_before_replace=True)

    def delete(self, id_: str, _props: dict[str, Any]) -> None:
        self.google.delete(Api.COMPUTE, f"{GROUPS}/{id_}")


class GroupMemberProvider(ResourceProvider):
    """The configuration of a group's member, which the group makes as soon as it can."""

    def __init__(self, google: GoogleSession) -> None:
        self.google = google

    def create(self, props: dict[str, Any]) -> CreateResult:
        add_member(self.google, props["metadata"], name=props["name"])
        return CreateResult(props["name"], props)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        return ReadResult(id_, props)

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        moved = [key for key in ("name", "group") if olds[key] != news[key]]
        return DiffResult(changes=bool(moved), replaces=moved, delete_before_replace=True)

    def delete(self, id_: str, _props: dict[str, Any]) -> None:
        self.google.post(Api.COMPUTE, f"{GROUPS}/{id_}/deleteInstances", {"instances": [f"instances/{id_}"]})


class MachineStack:
    """`names`, `zones` and `spec` are the settings; `program` is what they make, in the order of the real one."""

    def __init__(self, fake: FakeGoogle, clock: Clock) -> None:
        fake.world.clock = clock.clock
        google = session(fake, clock, retry=Retry(attempts=3, first_s=0.5, cap_s=1))
        self.names, self.zones, self.spec = ["blue"], [ZONE], "one"
        self.paused = False
        self.machine, self.served = ComputeMachineProvider(), ServingSpecProvider()
        for provider in (self.machine, self.served):
            provider.session = lambda: google  # type: ignore[method-assign]
        self.group, self.member = GroupProvider(google), GroupMemberProvider(google)

    def program(self) -> list[Declared]:
        """Machines first, then what they serve, one after the other."""
        names = [] if self.paused else self.names
        groups = [Declared(f"{name}-group", self.group, self._group(name)) for name in self.names]
        made = [one for name in names for one in self._machine(name)]
        return [*groups, *made, *(Declared(f"{name}-spec", self.served, self._spec(name)) for name in names)]

    def metadata(self, name: str) -> dict[str, str]:
        zone, domain = PREFIX, f"{PREFIX}.internal"
        member = member_attribute(name, project="demo-project", zone=zone, host=name, domain=domain)
        return {"gemma4-spec": self.spec, MEMBER: member}

    def _group(self, name: str) -> Callable[[Outputs], Mapping[str, Any]]:
        return lambda _outputs: {"name": f"{PREFIX}-{name}", "zones": self.zones}

    def _machine(self, name: str) -> list[Declared]:
        full, first = f"{PREFIX}-{name}", f"{PREFIX}-{self.names[0]}"

        def member(outputs: Outputs) -> dict[str, Any]:
            return {"name": full, "group": outputs(f"{name}-group", "generation"), "metadata": self.metadata(name)}

        def machine(outputs: Outputs) -> dict[str, Any]:
            return {
                "project": "demo-project",
                "region": REGION,
                "group": outputs(f"{name}-group", "name"),
                "machine": outputs(f"{name}-member", "name"),
                "generation": outputs(f"{name}-group", "generation"),
                "metadata": self.metadata(name),
                "timeout_s": 600,
                "behind": "" if full == first else first,
            }

        return [
            Declared(f"{name}-member", self.member, member),
            Declared(f"{name}-machine", self.machine, machine),
        ]

    def _spec(self, name: str) -> Callable[[Outputs], Mapping[str, Any]]:
        def inputs(outputs: Outputs) -> dict[str, Any]:
            machine = f"{name}-machine"
            seen = {"zone": outputs(machine, "zone"), "instance": outputs(machine, "instance")}
            own = {"project": "demo-project", "node_id": f"{PREFIX}-{name}", "group": f"{PREFIX}-{name}"}
            return {**own, **seen, "metadata": self.metadata(name), "product": COMPUTE}

        return inputs
