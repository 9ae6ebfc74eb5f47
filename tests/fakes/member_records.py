"""A stack's private zone in the fake Cloud DNS, and records in it as supervisors write them."""

from __future__ import annotations

from infra.google.gcp_settings import Api
from infra.planning.gateway.members import PLACEHOLDER
from infra.planning.names import Names
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session


def make_member_zone(google: FakeGoogle, names: Names) -> None:
    """Make the stack's zone, without records."""
    body = {"name": names.prefix, "dnsName": f"{names.domain}.", "visibility": "private"}
    session(google).post(Api.DNS, f"projects/{google.project}/managedZones", body)


def write_member_record(google: FakeGoogle, names: Names, host: str, address: str = PLACEHOLDER) -> None:
    """Write a record: with the placeholder, or with an address."""
    google.dns.write(names.prefix, f"{host}.{names.domain}.", address)


def route_to_machine(google: FakeGoogle, names: Names, host: str) -> None:
    """Write the address of a TPU machine into its record, as its supervisor does."""
    (node,) = (one for name, one in google.tpu.nodes.items() if name.endswith(f"/nodes/{names.member(host)}"))
    write_member_record(google, names, host, node["networkEndpoints"][0]["ipAddress"])
