"""A stack's managed group of one machine on the fake Google, made by the requests of the gcp provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession
from tests.fakes.google import FakeGoogle

REGION, ZONE, OTHER_ZONE = "us-central1", "us-central1-b", "us-central1-c"
MACHINE = "gemma4-g4x2-blue"
ADDRESS = "10.8.0.70"
"""Reserved for the member of each group."""
REGIONAL = f"projects/demo-project/regions/{REGION}"
GROUPS = f"{REGIONAL}/instanceGroupManagers"


def make_group(
    session: GoogleSession,
    metadata: Mapping[str, str] | None,
    *,
    name: str = MACHINE,
    zones: tuple[str, ...] = (ZONE,),
    labels: Mapping[str, str] | None = None,
) -> None:
    """Create a template, an address, the group and its only member, which is made at once where a zone has stock.

    With None as `metadata` the group has no member; what it needs is made once.
    """
    template: dict[str, Any] = {
        "name": f"{name}-template",
        "properties": {
            "machineType": "g4-standard-96",
            "networkInterfaces": [{"subnetwork": f"{REGIONAL}/subnetworks/gemma4-g4x2-gpu"}],
            "scheduling": {"provisioningModel": "STANDARD"},
            "labels": dict(labels or {"app": "gemma4", "stack": "g4x2"}),
            "metadata": {"items": [{"key": "enable-guest-attributes", "value": "TRUE"}]},
        },
    }
    group = {
        "name": name,
        "baseInstanceName": name,
        "versions": [{"instanceTemplate": f"{REGIONAL}/instanceTemplates/{name}-template"}],
        "distributionPolicy": {"zones": [{"zone": f"projects/demo-project/zones/{zone}"} for zone in zones]},
        "updatePolicy": {"type": "OPPORTUNISTIC", "instanceRedistributionType": "NONE"},
    }
    address = {"name": name, "addressType": "INTERNAL", "address": ADDRESS}
    for collection, body in (("instanceTemplates", template), ("addresses", address)):
        try:
            session.post(Api.COMPUTE, f"{REGIONAL}/{collection}", body)
        except GoogleError as error:
            if error.status != 409:
                raise
    session.post(Api.COMPUTE, GROUPS, group)
    if metadata is not None:
        add_member(session, metadata, name=name)


def add_member(session: GoogleSession, metadata: Mapping[str, str], *, name: str = MACHINE) -> None:
    """Let a group have its only member, as the gcp provider asks for it."""
    ips = {"nic0": {"autoDelete": "NEVER", "ipAddress": {"address": f"{REGIONAL}/addresses/{name}"}}}
    member = {"name": name, "preservedState": {"metadata": dict(metadata), "internalIPs": ips}}
    session.post(Api.COMPUTE, f"{GROUPS}/{name}/createInstances", {"instances": [member]})


def attributes_of(fake: FakeGoogle, zone: str = ZONE, name: str = MACHINE) -> dict[str, str]:
    """Return the metadata on a machine."""
    instance = fake.compute.resources[f"projects/demo-project/zones/{zone}/instances/{name}"]
    return {one["key"]: one["value"] for one in instance["metadata"]["items"]}
