"""The names by which the state of a deployed stack knows its dynamic resources. THEY MUST NEVER CHANGE.

The state of every stack holds, for each dynamic resource, its type and its provider pickled as a reference to module and
class. A renamed type is another resource to Pulumi: the next `pulumi up` deletes the one and creates the other, which gives
a TPU slice back and queues for a new one. A provider whose module or class is gone cannot be loaded: `pulumi up`, `refresh`
and `destroy` fail on every such stack. A property that is renamed looks changed, and what is compared (`replaces`) may
replace a slice.

A row may be added. A row may be changed only together with code that still loads the old name.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pulumi
import pytest

from infra import providers
from infra.providers.base import DynamicResource, Provider

FROZEN = {
    "infra.providers.compute_machine.ComputeMachine": (
        "pulumi-python:dynamic/gemma4:ComputeMachine",
        "address behind generation group instance machine metadata project region state timeout_s urn zone",
    ),
    "infra.providers.grant_propagation.GrantPropagation": (
        "pulumi-python:dynamic/gemma4:GrantPropagation",
        "after settle_s urn",
    ),
    "infra.providers.member_records.MemberRecords": (
        "pulumi-python:dynamic/gemma4:MemberRecords",
        "domain hosts missing project urn zone",
    ),
    "infra.providers.revision_retry.RevisionRetry": (
        "pulumi-python:dynamic/gemma4:RevisionRetry",
        "failed_revision project region service urn",
    ),
    "infra.providers.revision_watch.RevisionWatch": (
        "pulumi-python:dynamic/gemma4:RevisionWatch",
        "mark project region revision service timeout_s urn",
    ),
    "infra.providers.serving_check.ServingCheck": (
        "pulumi-python:dynamic/gemma4:ServingCheck",
        "expected generation invoker log path predicted_kv_tokens ready_timeout_s result skipped url urn",
    ),
    "infra.providers.serving_spec.ServingSpec": (
        "pulumi-python:dynamic/gemma4:ServingSpec",
        "applied group instance metadata node_id previous product project urn zone",
    ),
    "infra.providers.subnet_cleanup.SubnetCleanup": (
        "pulumi-python:dynamic/gemma4:SubnetCleanup",
        "cidr name places project region service urn",
    ),
    "infra.providers.tpu_node.TpuNode": (
        "pulumi-python:dynamic/gemma4:TpuNode",
        "accelerator_type address behind dns_zone domain instance known_zones labels max_run_duration_s member metadata "
        "network node_id project provisioning queued_id runtime_version service_account state subnetwork tags ticket timeout_s "
        "urn valid_until_duration_s zone",
    ),
    "infra.providers.tpu_queued_resource.TpuQueuedResource": (
        "pulumi-python:dynamic/gemma4:TpuQueuedResource",
        "accelerator_type labels max_run_duration_s network project provisioning queued_id runtime_version service_account "
        "subnetwork ticket urn zone",
    ),
    "infra.providers.weights_copy.WeightsCopy": (
        "pulumi-python:dynamic/gemma4:WeightsCopy",
        "arguments bucket bytes commit files job prefix program_hash project region repository revision urn",
    ),
}
"""Module and class of each resource: the type in the state, and the properties. Its provider is the class `NAMEProvider`."""


def loaded(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def subclasses(base: type, suffix: str = "") -> set[str]:
    for module in pkgutil.iter_modules(providers.__path__):
        importlib.import_module(f"{providers.__name__}.{module.name}")
    found: list[type] = base.__subclasses__()
    return {
        f"{cls.__module__}.{cls.__name__.removesuffix(suffix)}" for cls in found if cls.__module__.startswith("infra.")
    }


def test_the_table_names_every_resource_and_every_provider() -> None:
    assert subclasses(DynamicResource) == set(FROZEN)
    assert subclasses(Provider, "Provider") == set(FROZEN)


@pytest.mark.parametrize("name", FROZEN)
def test_a_resource_keeps_its_type_its_properties_and_its_provider(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registered: dict[str, Any] = {}

    def register(_self: object, type_: str, _name: str, props: dict[str, Any], _opts: object) -> None:
        registered.update(type=type_, props=props)

    monkeypatch.setattr(pulumi.CustomResource, "__init__", register)
    fields = loaded(f"{name}Args").__dataclass_fields__
    loaded(name)("one", loaded(f"{name}Args")(**dict.fromkeys(fields, "")), pulumi.ResourceOptions())
    type_, properties = FROZEN[name]
    assert registered["type"] == type_
    assert " ".join(sorted(registered["props"].keys() - {"__provider"})) == properties
    assert f"{name}Provider" == f"{loaded(f'{name}Provider').__module__}.{loaded(f'{name}Provider').__qualname__}"
