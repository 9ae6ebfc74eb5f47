"""How rules of an organization are read: only what they surely refuse is red."""

from __future__ import annotations

from typing import Any

import pytest

from tests.preflight.conftest import Made


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ({"allowAll": True}, "ok"),
        ({"values": {"allowedValues": ["in:us-locations"]}}, "ok"),
        ({"values": {"allowedValues": ["in:us-east4-locations"]}}, "ok"),
        ({"values": {"allowedValues": ["is:us-east4"]}}, "ok"),
        ({"values": {"allowedValues": ["us-east4-a", "europe-west1"]}}, "ok"),
        ({"values": {"allowedValues": ["europe-west1", "in:europe-west4-locations"]}}, "failed"),
        ({"values": {"allowedValues": ["in:low-carbon-locations"]}}, "unknown"),
        ({"values": {"deniedValues": ["us-east4"]}}, "failed"),
        ({"values": {"deniedValues": ["in:us-locations"]}}, "failed"),
        ({"values": {"deniedValues": ["in:europe-west4-locations"]}}, "ok"),
        ({"values": {"deniedValues": ["in:low-carbon-locations"]}}, "unknown"),
        ({"denyAll": True}, "failed"),
    ],
)
def test_places(made: Made, rule: dict[str, Any], state: str) -> None:
    project = made("l4")
    project.google.orgpolicy.restrict("gcp.resourceLocations", **rule)
    assert project.results()["org-locations"].state == state


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ({"values": {"allowedValues": ["is:all"]}}, "ok"),
        ({"values": {"allowedValues": ["internal-and-cloud-load-balancing"]}}, "failed"),
        ({"values": {"deniedValues": ["all"]}}, "failed"),
        ({"denyAll": True}, "failed"),
    ],
)
def test_ingress(made: Made, rule: dict[str, Any], state: str) -> None:
    project = made("l4")
    project.google.orgpolicy.restrict("run.allowedIngress", **rule)
    assert project.results()["org-ingress"].state == state


def test_members_of_which_no_api_tells_the_customer_are_unknown_and_none_are_not(made: Made) -> None:
    project = made("l4")
    project.google.orgpolicy.restrict("iam.allowedPolicyMemberDomains", values={"allowedValues": ["C012abc"]})
    assert project.results()["org-members"].state == "unknown"
    project.settings["access"] = {}
    assert project.results()["org-members"].state == "ok"
