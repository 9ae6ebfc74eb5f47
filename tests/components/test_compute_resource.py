"""Compute resources by their tokens send what the generated classes would: same type, inputs of the same names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import pulumi_gcp
import pytest

from infra.ops.plan_inputs import plan_stack
from infra.ops.program import Registration, run_program
from tests.projects import ROOT

GENERATED: dict[str, Any] = {
    "gcp:compute/network:Network": pulumi_gcp.compute.Network,
    "gcp:compute/subnetwork:Subnetwork": pulumi_gcp.compute.Subnetwork,
    "gcp:compute/firewall:Firewall": pulumi_gcp.compute.Firewall,
    "gcp:compute/router:Router": pulumi_gcp.compute.Router,
    "gcp:compute/routerNat:RouterNat": pulumi_gcp.compute.RouterNat,
    "gcp:compute/address:Address": pulumi_gcp.compute.Address,
    "gcp:compute/healthCheck:HealthCheck": pulumi_gcp.compute.HealthCheck,
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": pulumi_gcp.compute.RegionInstanceGroupManager,
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": pulumi_gcp.compute.RegionInstanceTemplate,
    "gcp:compute/regionPerInstanceConfig:RegionPerInstanceConfig": pulumi_gcp.compute.RegionPerInstanceConfig,
}


@pytest.fixture(scope="module", params=["on-demand", "spot"])
def registered(request: pytest.FixtureRequest) -> list[Registration]:
    """Every Compute resource of a stack of machines that downloads from Hugging Face: it has all kinds."""
    file = plan_stack("g4x2", root=ROOT).file
    config = {f"gemma4:{key}": value for key, value in file.settings.items()}
    machine = {"provisioning": request.param, "shapes": ["g4-standard-96", "g4-standard-192"], "iapSsh": True}
    more = {"gemma4:weights": {"source": "huggingface"}, "gemma4:machine": machine}
    run = run_program(ROOT, "g4x2", {**config, **more})
    assert run.exit_code == 0, run.messages
    return [resource for resource in run.resources if resource.type.startswith("gcp:compute/")]


def test_all_kinds_are_there(registered: list[Registration]) -> None:
    assert {resource.type for resource in registered} == set(GENERATED)


def test_every_token_is_the_generated_class_s() -> None:
    assert {generated.pulumi_type for generated in GENERATED.values()} == set(GENERATED)


def test_every_input_exists_under_that_name(registered: list[Registration]) -> None:
    for resource in registered:
        check(GENERATED[resource.type]._internal_init, resource.inputs, resource.name)


def check(generated: Any, inputs: Mapping[str, Any], at: str) -> None:
    """Compare names with those of a generated class, and of those that it takes, as deep as there are any."""
    own = parameters(generated)
    assert set(inputs) <= set(own), at
    for key, value in inputs.items():
        named = re.search(r"'(\w+Args)'", str(own[key]))
        if named is None:
            continue
        for item in value if isinstance(value, list) else [value]:
            check(getattr(pulumi_gcp.compute, named[1]).__init__, item, f"{at}: {key}")


def parameters(function: Any) -> dict[str, Any]:
    """What each parameter takes, by its name in the spelling that the engine sees."""
    found = {name: one.annotation for name, one in inspect.signature(function).parameters.items()}
    return {
        "".join([first, *(word.capitalize() for word in rest)]): annotation
        for name, annotation in found.items()
        if not name.startswith("_") and name != "self"
        for first, *rest in [name.split("_")]
    }
