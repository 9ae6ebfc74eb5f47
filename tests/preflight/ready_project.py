"""A project of the fake Google in which nothing is in the way of a stack, for tests to put obstacles into."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from infra.image_names import parse_image_name
from infra.ops.commands.plan import list_resources
from infra.ops.plan_inputs import Planned, plan_stack
from infra.planning.settings.stackfile import read_stack
from infra.preflight.all_checks import FIRST, all_checks
from infra.preflight.preflight_check import PreflightResult
from infra.preflight.run_checks import run_checks
from infra.preflight.subject import PulumiState, Subject
from tests.fakes.checkpoints import FakeCheckpoint
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.hub_headers import HubOfHeaders
from tests.fakes.registry import FakeRegistry
from tests.projects import ROOT

DIGEST = "sha256:" + "0a" * 32
CALLER = "user:me@example.com"
ENABLED_BY_HAND = ("cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com")
MUTATING = ("PUT", "PATCH", "DELETE")
ONLY_ASKS = (":testIamPermissions",)
"""Ends of POSTs that change nothing."""


@dataclass
class ReadyProject:
    """`settings` are laid over the shipped stack's file; `prepare` makes everything ready for them."""

    folder: Path
    stack: str
    google: FakeGoogle
    hub: HubOfHeaders
    registry: FakeRegistry
    settings: dict[str, Any] = field(default_factory=dict)
    pulumi: PulumiState = field(default_factory=lambda: PulumiState("3.259.0", plugins=()))
    caller: str = CALLER
    hub_token: str = ""
    google_settings: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        """Write the stack's file."""
        shipped = dict(read_stack(ROOT, self.stack).settings)
        written = {"access": {"deployers": [CALLER]}, **shipped, **self.settings}
        config: dict[str, Any] = {f"gcp:{key}": value for key, value in self.google.settings().items()}
        config |= {f"gemma4:{key}": value for key, value in written.items() if value is not None}
        (self.folder / "Pulumi.yaml").write_text("name: gemma4\nruntime: python\n")
        (self.folder / f"Pulumi.{self.stack}.yaml").write_text(yaml.safe_dump({"config": config}))

    def planned(self) -> Planned:
        self.write()
        return plan_stack(self.stack, root=self.folder)

    def prepare(self) -> None:
        """Enable the APIs, give quotas, and let images and models exist, for the stack as its settings are now."""
        plan = self.planned().plan
        self.google.serviceusage.enabled |= {*ENABLED_BY_HAND}
        for need in plan.quotas:
            needed = (
                need if plan.deployment.renewal(plan.startup) is None else need.with_one_more(plan.deployment.machines)
            )
            self.google.cloudquotas.set_quota(need.quota.service, need.quota.id, need.place, needed.value)
        for image in plan.images.values():
            name = parse_image_name(image.upstream)
            self.registry.images[f"{name.path}:{name.digest or name.tag}"] = DIGEST
        for one in plan.weights:
            self.hub.checkpoints[one.hub_id] = FakeCheckpoint({"config.json": (b"{}", 2)})
        self.google.tpu.configure(pace=None)

    def subject(self) -> Subject:
        planned = self.planned()
        return Subject(
            plan=planned.plan,
            connect=lambda: session(self.google, **self.google_settings),
            resources=list_resources(planned).rows,
            pulumi=self.pulumi,
            caller=self.caller,
            hub_token=self.hub_token,
            hub=self.hub.url,
            registry=self.registry.url,
        )

    def results(self) -> dict[str, PreflightResult]:
        """What every check says."""
        subject = self.subject()
        return run_checks(all_checks(subject.plan), subject, first=FIRST)

    def changes(self) -> list[str]:
        """The requests that could have changed something."""
        return [
            f"{one.method} {one.path}"
            for one in self.google.requests
            if one.method in MUTATING or (one.method == "POST" and not one.path.endswith(ONLY_ASKS))
        ]
