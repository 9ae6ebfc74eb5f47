"""One slice's four dynamic resources under the smallest possible engine: what Pulumi does with them, without Pulumi.

It keeps a resource only if its `create` returned, drops inputs without a value, refreshes before every `up`, and replaces
what `diff` says, deleting first where that is asked for: the rules that decide whether a paid slice can get lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.google.session import Retry
from infra.providers.base import Provider
from infra.providers.serving_spec import ServingSpecProvider
from infra.providers.slice_cleanup import SliceCleanupProvider
from infra.providers.tpu_node import TpuNodeProvider
from infra.providers.tpu_queued_resource import TpuQueuedResourceProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session

ZONE = "us-east5-a"
NAME = "gemma4-v6e4-blue"
NETWORK = "projects/demo-project/global/networks/gemma4-v6e4"
SUBNETWORK = "projects/demo-project/regions/us-east5/subnetworks/gemma4-v6e4"


class Clock(FakeTime):
    """A clock on which things happen: `at` calls a function once, when so many seconds have gone by."""

    def __init__(self) -> None:
        super().__init__()
        self._due: list[tuple[float, Callable[[], object]]] = []

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        self._due.append((self.now + seconds, act))

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        due = [act for when, act in self._due if when <= self.now]
        self._due = [(when, act) for when, act in self._due if when > self.now]
        for act in due:
            act()


@dataclass
class Kept:
    """What the engine's state holds of one resource."""

    id: str
    outputs: dict[str, Any]


class SliceStack:
    """`up`, `refresh` and `destroy` raise what a provider raises; `done` lists the steps of the last run."""

    def __init__(self, fake: FakeGoogle, clock: Clock, slice_name: str = "blue", **changes: Any) -> None:
        self.fake, self.clock = fake, clock
        fake.world.clock = clock.clock  # what Google writes down it reads off the clock by which the providers wait
        name = f"gemma4-v6e4-{slice_name}"
        self.inputs: dict[str, Any] = {
            "project": "demo-project",
            "zone": ZONE,
            "queued_id": name,
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
            "known_zones": [ZONE, "us-east5-b"],
            "behind": "" if slice_name == "blue" else NAME,
            "places": [],
            "urn": None,
        } | changes
        self.wait_s = 1200
        self.behind = self.inputs["behind"]
        self.state: dict[str, Kept] = {}
        self.done: list[str] = []
        self._replaced: list[tuple[str, Kept]] = []
        self.providers: dict[str, Provider] = {
            "cleanup": SliceCleanupProvider(),
            "queue": TpuQueuedResourceProvider(),
            "node": TpuNodeProvider(),
            "spec": ServingSpecProvider(),
        }
        for provider in self.providers.values():
            provider.session = lambda: session(  # type: ignore[method-assign]
                self.fake, self.clock, retry=Retry(attempts=3, first_s=0.5, cap_s=1)
            )

    def output(self, resource: str, key: str) -> Any:
        return self.state[resource].outputs[key]

    def refresh(self) -> None:
        for resource in list(self.state):
            kept = self.state[resource]
            result = self.providers[resource].read(kept.id, dict(kept.outputs))
            if not result.id:
                del self.state[resource]
            else:
                self.state[resource] = Kept(result.id, dict(result.outs or {}))

    def up(self) -> None:
        self.done = []
        self.refresh()
        self._apply_cleanup()
        self._apply("queue", self._queue_inputs())
        self._apply("node", self.node_inputs())
        self._apply("spec", self.spec_inputs())
        self._delete_replaced()

    def up_killed(self) -> None:
        """The process dies after Google has taken the request and before the state is written."""
        self.refresh()
        self._apply_cleanup()
        if "queue" not in self.state:
            self.providers["queue"].create(_given(self._queue_inputs()))

    def destroy(self) -> None:
        self._delete_replaced()
        for resource in ("spec", "node", "queue", "cleanup"):
            if resource in self.state:
                kept = self.state[resource]
                self.providers[resource].delete(kept.id, kept.outputs)
                del self.state[resource]

    def _apply_cleanup(self) -> None:
        inputs = {key: self.inputs[key] for key in ("project", "zone", "queued_id", "labels", "urn")}
        self._apply("cleanup", {**inputs, "places": None})

    def _queue_inputs(self) -> dict[str, Any]:
        return {**self.inputs, "places": self.output("cleanup", "places"), "created": None, "state": None}

    def node_inputs(self) -> dict[str, Any]:
        keys = ("project", "zone", "queued_id", "accelerator_type", "known_zones", "urn")
        same = {key: self.inputs[key] for key in keys}
        generation = self.output("queue", "created")
        own = {"state": None, "address": None, "instance": None}
        return same | {"generation": generation, "timeout_s": self.wait_s, "behind": self.behind} | own

    def spec_inputs(self) -> dict[str, Any]:
        same = {key: self.inputs[key] for key in ("project", "zone", "metadata", "urn")}
        return same | {
            "node_id": self.inputs["queued_id"],
            "instance": self.output("node", "instance"),
            "applied": None,
        }

    def _did(self, what: str, resource: str) -> None:
        if resource != "cleanup":  # which is nothing to anybody before the end
            self.done.append(f"{what} {resource}")

    def _delete_replaced(self) -> None:
        """At the end of an `up` that came so far, else at the next chance."""
        while self._replaced:
            resource, kept = self._replaced[-1]
            self.providers[resource].delete(kept.id, kept.outputs)
            self._replaced.pop()

    def allow_replacement(self) -> None:
        """Set `tpu.replaceActive`."""
        queue = self.providers["queue"]
        assert isinstance(queue, TpuQueuedResourceProvider)
        queue.replace_active = True

    def _apply(self, resource: str, news: dict[str, Any]) -> None:
        news = _given(news)
        provider, kept = self.providers[resource], self.state.get(resource)
        if kept is not None:
            difference = provider.diff(kept.id, kept.outputs, news)
            if not difference.changes:
                return
            if not difference.replaces:
                self._did("update", resource)
                kept.outputs = dict(provider.update(kept.id, kept.outputs, news).outs or {})
                return
            self._did("replace", resource)
            if difference.delete_before_replace:
                provider.delete(kept.id, kept.outputs)
                del self.state[resource]
            else:
                self._replaced.append((resource, kept))
        else:
            self._did("create", resource)
        created = provider.create(news)
        self.state[resource] = Kept(created.id, dict(created.outs or {}))


def _given(inputs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in inputs.items() if value is not None}
