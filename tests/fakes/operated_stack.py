"""A deployed stack without a cloud: its files, its state behind a Pulumi CLI that only exports, the fake Google, and a
server that answers.

`with operated_stack(folder, monkeypatch, "l4") as stack:` makes it; what runs of it, a test adds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.google.gcp_settings import Api
from infra.google.monitoring import BILLABLE_TIME, INSTANCE_COUNT, JOB, SERVICE
from infra.ops.plan_inputs import plan_stack
from infra.planning.plan import Plan
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.vllm import FakeVllm

MACHINES = {
    "l4": ("gemma-4-e4b-it", "l4"),
    "v6e4": ("gemma-4-26b-a4b-it", "v6e-4"),
    "g4x2": ("gemma-4-31b-it", "g4-2"),
    "g4x8": ("gemma-4-31b-it", "g4-8"),
}
"""Model and accelerator by the stack's name."""
UPDATED = "2026-11-20T10:11:12Z"
RESULT = {
    "vllm_version": "0.32.0",
    "ready_s": 3.0,
    "ttft_s": 0.31,
    "tokens_per_second": 20.0,
    "prompt_tokens": 1024,
    "output_tokens": 64,
    "kv_tokens": 50_000,
    "predicted_kv_tokens": 50_000,
    "duration_s": 40.0,
    "notes": [],
}
"""Of a serving check."""


@dataclass
class OperatedStack:
    """`settings` of the stack file may be written anew; the state says what was last deployed."""

    name: str
    folder: Path
    google: FakeGoogle
    server: FakeVllm
    updated_at: str = UPDATED
    outputs: dict[str, Any] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """What the files plan now."""
        return plan_stack(self.name, root=self.folder).plan

    def write(self, settings: Mapping[str, Any] | None = None) -> None:
        """Write the stack file."""
        model, accelerator = MACHINES[self.name]
        config = {f"gcp:{key}": value for key, value in self.google.settings().items()}
        config |= {"gemma4:model": model, "gemma4:accelerator": accelerator, "gemma4:region": None} | {
            f"gemma4:{key}": value for key, value in (settings or {}).items()
        }
        config = {key: value for key, value in config.items() if value is not None}
        (self.folder / f"Pulumi.{self.name}.yaml").write_text(yaml.safe_dump({"config": config}))

    def deploy(self, **outputs: Any) -> None:
        """Let the state say that what the files plan is deployed; `outputs` are laid over its outputs."""
        plan = self.plan
        self.outputs = {
            "url": self.server.url,
            "model": plan.model.hub_id,
            "invokerAccount": plan.names.email(plan.names.invoker),
            "plan": {"spec": plan.command.spec_hash, "accelerator": plan.accelerator.id},
            **outputs,
        }
        self.server.model, self.server.spec_hash = plan.model.hub_id, plan.command.spec_hash
        self.server.max_model_len = plan.server.max_model_len
        self.server.version = plan.server.image_version or "0.32.0"
        self.server.prefixes = ("", *(path for path in plan.deployment.member_paths().values() if path))
        self.save()

    def run_service(self, *, template: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Make the Cloud Run service, as the program would, or with fields of its template laid over it; return its record."""
        plan = self.plan
        kept, most = getattr(plan.deployment, "min_instances", 1), getattr(plan.deployment, "max_instances", 1)
        limits = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}
        own = {
            "containers": [{"image": "img", "args": list(plan.command.argv), "resources": {"limits": limits}}],
            "scaling": {"minInstanceCount": kept, "maxInstanceCount": most},
            "nodeSelector": {"accelerator": "nvidia-l4"},
        }
        own = own if self.name == "l4" else {"containers": [{"image": "haproxy"}], "scaling": {"minInstanceCount": 1}}
        parent = f"projects/{self.google.project}/locations/{plan.region}"
        name = f"{parent}/services/{plan.names.prefix}"
        body = {"template": {**own, **(template or {})}}
        if name in self.google.run.resources:
            session(self.google).patch(Api.CLOUD_RUN, name, body)
        else:
            session(self.google).post(Api.CLOUD_RUN, f"{parent}/services", body, serviceId=plan.names.prefix)
        return self.google.run.resources[name]

    def count_instances(self, active: int, idle: int = 0, *, ago_s: float = 60) -> None:
        """Let Cloud Monitoring count instances of the service."""
        labels = {"service_name": self.plan.names.prefix, "location": self.plan.region, "revision_name": "r"}
        for state, value in (("active", active), ("idle", idle)):
            self.google.time_series.record(
                INSTANCE_COUNT, SERVICE, labels, value, at=time.time() - ago_s, metric_labels={"state": state}
            )

    def bill(self, seconds: float, *, at: float, job: bool = False) -> None:
        """Let Cloud Monitoring have billable time of the service, or of the job that copies the weights."""
        names, region = self.plan.names, self.plan.region
        labels = {"job_name": names.stager} if job else {"service_name": names.prefix}
        self.google.time_series.record(
            BILLABLE_TIME, JOB if job else SERVICE, {**labels, "location": region}, seconds, at=at
        )

    def checked(self, *, spec: str = "", at: str = UPDATED, **result: Any) -> None:
        """Add a serving check to the state, of the planned specification or of another."""
        outputs = {
            "url": self.server.url,
            "path": "",
            "expected": {"spec_hash": spec or self.plan.command.spec_hash},
            "result": result if "skipped" in result else {**RESULT, **result},
        }
        urn = f"urn:pulumi:{self.name}::gemma4::a$b::serving-check"
        kind = "pulumi-python:dynamic/gemma4:ServingCheck"
        self.checks.append({"type": kind, "urn": urn, "modified": at, "outputs": outputs})
        self.save()

    def save(self) -> None:
        """Write the state that the Pulumi CLI exports."""
        stack = {"type": "pulumi:pulumi:Stack", "urn": "u", "outputs": self.outputs}
        deployment = {"manifest": {"time": self.updated_at}, "resources": [stack, *self.checks]}
        (self.folder / "state.json").write_text(json.dumps({"deployment": deployment}))


@contextmanager
def operated_stack(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: Mapping[str, Any] | None = None
) -> Iterator[OperatedStack]:
    """Make the stack's files, and a Pulumi CLI that exports its state. Nothing is deployed yet."""
    for variable in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_PROJECT", "GOOGLE_OAUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    cli = folder / "bin" / "pulumi"
    cli.parent.mkdir()
    cli.write_text(f"#!/bin/sh\nexec cat {folder}/state.json\n")
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cli.parent}:/usr/bin:/bin")
    monkeypatch.chdir(folder)
    (folder / "Pulumi.yaml").write_text("name: gemma4\nruntime: python\n")
    with FakeGoogle() as google, FakeVllm() as server:
        stack = OperatedStack(name, folder, google, server)
        stack.write(settings)
        stack.save()
        yield stack
