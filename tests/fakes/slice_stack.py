"""One slice's dynamic resources under the smallest engine: its terms with their ticket, its machine, what that serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from infra.errors import GoogleError
from infra.google.session import Retry
from infra.google.tpu_zone import TpuZone
from infra.providers import tpu_queued_resource
from infra.providers.base import Provider
from infra.providers.serving_spec import ServingSpecProvider
from infra.providers.slice_submission import submit
from infra.providers.tpu_node import TpuNodeProvider
from infra.providers.tpu_queued_resource import TpuQueuedResourceProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session
from tests.fakes.mini_engine import Declared, Kept, MiniEngine, Outputs

ZONE = "us-east5-a"
SLICE = "gemma4-v6e4-blue"
NAME = f"{SLICE}-a"
"""Of its machine in the first turn, and of the queued resource of that."""
NETWORK = "projects/demo-project/global/networks/gemma4-v6e4"
SUBNETWORK = "projects/demo-project/regions/us-east5/subnetworks/gemma4-v6e4"

_TERMS = (
    *tpu_queued_resource._FIXED,
    "labels",
    "urn",
)
_ASKED = (
    "valid_until_duration_s",
    "metadata",
    "tags",
    "dns_zone",
    "domain",
    "known_zones",
)


class Clock(FakeTime):
    """A clock on which things happen: `at` calls a function once, when so many seconds have gone by; `always` are called at
    every pause."""

    def __init__(self) -> None:
        super().__init__()
        self._due: list[tuple[float, Callable[[], object]]] = []
        self.always: list[Callable[[], object]] = []

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        self._due.append((self.now + seconds, act))

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        due = [act for when, act in self._due if when <= self.now]
        self._due = [(when, act) for when, act in self._due if when > self.now]
        for act in [*due, *self.always]:
            act()


class SliceStack:
    """`up`, `refresh` and `destroy` raise what a provider raises; `done` lists the steps of the last run."""

    def __init__(self, fake: FakeGoogle, clock: Clock, slice_name: str = "blue", **changes: Any) -> None:
        self.fake, self.clock = fake, clock
        fake.world.clock = clock.clock  # what Google writes down it reads off the clock by which the providers wait
        self.inputs: dict[str, Any] = {
            "project": "demo-project",
            "zone": ZONE,
            "queued_id": f"gemma4-v6e4-{slice_name}",
            "accelerator_type": "v6e-4",
            "runtime_version": "v2-alpha-tpuv6e",
            "network": NETWORK,
            "subnetwork": SUBNETWORK,
            "service_account": "gemma4-v6e4@demo-project.iam.gserviceaccount.com",
            "provisioning": "flex-start",
            "valid_until_duration_s": 14400,
            "max_run_duration_s": 86400,
            "metadata": {"startup-script": "#!/bin/sh", "gemma4-spec": "{}", "gemma4-supervisor": "x"},
            "labels": {"app": "gemma4", "stack": "v6e4", "managed-by": "pulumi", "slice": slice_name},
            "tags": ["gemma4-v6e4"],
            "dns_zone": "gemma4-v6e4",
            "domain": "gemma4-v6e4.internal",
            "known_zones": [ZONE, "us-east5-b"],
            "urn": None,
        } | changes
        self.wait_s = 1200
        self.behind = "" if slice_name == "blue" else SLICE
        self.engine = MiniEngine()
        self.providers: dict[str, Provider] = {
            "queue": TpuQueuedResourceProvider(),
            "node": TpuNodeProvider(),
            "spec": ServingSpecProvider(),
        }
        for provider in self.providers.values():
            provider.session = lambda: session(  # type: ignore[method-assign]
                self.fake, self.clock, retry=Retry(attempts=3, first_s=0.5, cap_s=1)
            )

    @property
    def state(self) -> dict[str, Kept]:
        return self.engine.state

    @property
    def done(self) -> list[str]:
        """Without the deletions, in which every replacement ends."""
        return [step for step in self.engine.done if not step.startswith("delete")]

    def output(self, resource: str, key: str) -> Any:
        return self.engine.output(resource, key)

    def refresh(self) -> None:
        self.engine.refresh()

    def up(self, replace: tuple[str, ...] = ()) -> None:
        self.engine.up(self.program(), replace)

    def up_killed(self) -> None:
        """The process dies after Google has taken the request and before the machine is in the state."""
        self.engine.up(self.program()[:1])
        if "node" not in self.state:
            place = {"project": self.inputs["project"], "zone": self.inputs["zone"]}
            zone = TpuZone.at(self.providers["node"].session(), place)
            with suppress(GoogleError):
                submit(zone, _given(self.node_inputs(self.output)), serving="", progress=_quiet, warn=_quiet)

    def destroy(self) -> None:
        """In a process of its own, as Pulumi does."""
        tpu_queued_resource._IN_PROGRAM.clear()
        self.engine.destroy()

    def program(self) -> list[Declared]:
        inputs: dict[str, Callable[[Outputs], Mapping[str, Any]]] = {
            "queue": lambda _outputs: {**self._own(_TERMS), "ticket": None},
            "node": self.node_inputs,
            "spec": self.spec_inputs,
        }
        return [Declared(name, self.providers[name], make) for name, make in inputs.items()]

    def node_inputs(self, outputs: Outputs) -> dict[str, Any]:
        own = dict.fromkeys(("state", "node_id", "member", "address", "instance"))
        waits = {"timeout_s": self.wait_s, "behind": self.behind, "ticket": outputs("queue", "ticket")}
        return {**self._own((*_TERMS, *_ASKED)), **waits, **own}

    def spec_inputs(self, outputs: Outputs) -> dict[str, Any]:
        machine = {"node_id": outputs("node", "node_id"), "instance": outputs("node", "instance")}
        own = {"product": "tpu", "group": "", "applied": None, "previous": None}
        return {**self._own(("project", "zone", "metadata", "urn")), **machine, **own}

    def _own(self, keys: tuple[str, ...]) -> dict[str, Any]:
        return {key: self.inputs[key] for key in keys}


def _given(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in inputs.items() if value is not None}


def _quiet(_message: str) -> None:
    """Say nothing."""
