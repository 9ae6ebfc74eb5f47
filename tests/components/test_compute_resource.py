"""Compute resources by their tokens send what the generated classes would: same type, inputs of the same names."""

from __future__ import annotations

import inspect
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
}
NESTED = {"allows": pulumi_gcp.compute.FirewallAllowArgs, "subnetworks": pulumi_gcp.compute.RouterNatSubnetworkArgs}


@pytest.fixture(scope="module")
def registered() -> list[Registration]:
    """Every Compute resource of a TPU stack that downloads from Hugging Face: it has all five kinds."""
    file = plan_stack("v6e4", root=ROOT).file
    config = {f"gemma4:{key}": value for key, value in file.settings.items()}
    run = run_program(ROOT, "v6e4", {**config, "gemma4:weights": {"source": "huggingface"}})
    return [resource for resource in run.resources if resource.type.startswith("gcp:compute/")]


def test_all_kinds_are_there(registered: list[Registration]) -> None:
    assert {resource.type for resource in registered} == set(GENERATED)


def test_every_token_is_the_generated_class_s() -> None:
    assert {generated.pulumi_type for generated in GENERATED.values()} == set(GENERATED)


def test_every_input_exists_under_that_name(registered: list[Registration]) -> None:
    for resource in registered:
        assert set(resource.inputs) <= names(GENERATED[resource.type]._internal_init), resource.name
        for key, cls in NESTED.items():
            for item in resource.inputs.get(key, []):
                assert set(item) <= names(cls), f"{resource.name}: {key}"


def names(function: Any) -> set[str]:
    """Parameters in the spelling that the engine sees."""
    parameters = [name for name in inspect.signature(function).parameters if not name.startswith("_")]
    return {
        "".join([first, *(word.capitalize() for word in rest)]) for first, *rest in (n.split("_") for n in parameters)
    }
