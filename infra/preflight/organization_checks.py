"""Whether rules of the organization refuse what the plan makes: where it may be, who may reach it, whether accounts may be
made, and who may be granted anything.

Constraints and their values are those of Google's list of organization policy constraints. Few callers may read the policies,
so a check that cannot be asked says nothing against the stack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from infra.google.project import effective_policy
from infra.preflight.preflight_check import PreflightResult, failed, ok, unknown
from infra.preflight.subject import Subject

_ACCOUNT = "gcp:serviceaccount/account:Account"
_CONTINENTS = {"us": "us-", "asia": "asia-", "eu": "europe-", "europe": "europe-"}
"""Groups of locations that a policy may name as in:us-locations, with the start of their regions' names. Not every region of a
group is told apart by its name, so these only allow."""


def check_locations(subject: Subject) -> PreflightResult:
    """Return whether the organization allows resources where the plan has them."""
    regions = sorted({subject.plan.region, _region(subject.plan.place.location)})
    rules = effective_policy(subject.session, "gcp.resourceLocations")
    for region in regions:
        allowed = _allows_place(rules, region)
        if allowed is None:
            return unknown(
                f"gcp.resourceLocations is set, and whether it allows {region} cannot be told: {_listed(rules)}"
            )
        if not allowed:
            return failed(
                f"the organization allows no resources in {region}: {_listed(rules)}",
                "The bucket would be the first thing to be refused.",
                subject.config("region", "REGION"),
            )
    return ok(f"resources may be in {', '.join(regions)}")


def check_ingress(subject: Subject) -> PreflightResult:
    """Return whether the organization allows the service's ingress."""
    wanted = subject.plan.settings.access.ingress
    rules = effective_policy(subject.session, "run.allowedIngress")
    if _allows_value(rules, wanted):
        return ok(f"ingress {wanted} is allowed")
    return failed(
        f"run.allowedIngress does not allow ingress {wanted}: {_listed(rules)}",
        "Cloud Run refuses the service.",
        subject.config("access.ingress", "internal" if wanted == "all" else "all"),
    )


def check_account_creation(subject: Subject) -> PreflightResult:
    """Return whether the organization lets service accounts be made."""
    wanted = sum(row.type == _ACCOUNT for row in subject.resources)
    rules = effective_policy(subject.session, "iam.disableServiceAccountCreation")
    if not any(rule.get("enforce") for rule in rules):
        return ok(f"{wanted} accounts may be made")
    return failed(
        f"iam.disableServiceAccountCreation is enforced, and the stack makes {wanted} accounts",
        "`up` would stop at the first account.",
        f"gcloud resource-manager org-policies disable-enforce iam.disableServiceAccountCreation --project {subject.project}",
    )


def check_members(subject: Subject) -> PreflightResult:
    """Return whether the organization lets the members of the stack file be granted anything."""
    access = subject.plan.settings.access
    members = list(dict.fromkeys((*access.invokers, *access.deployers)))
    rules = effective_policy(subject.session, "iam.allowedPolicyMemberDomains")
    if not members:
        return ok("nobody outside the stack is granted anything")
    if any(rule.get("allowAll") for rule in rules) or not rules:
        return ok(f"{', '.join(members)} may be granted")
    return unknown(
        f"only members of {_listed(rules)} may be granted; of which customer {', '.join(members)} are, no API tells here",
        "gcloud organizations list shows DIRECTORY_CUSTOMER_ID",
    )


def _allows_value(rules: Sequence[Mapping[str, Any]], value: str) -> bool:
    """Return whether rules of a list constraint allow a value; no rules allow everything."""
    if any(rule.get("denyAll") for rule in rules):
        return False
    allowed, denied = _values(rules, "allowedValues"), _values(rules, "deniedValues")
    return value not in denied and (not allowed or value in allowed or any(rule.get("allowAll") for rule in rules))


def _allows_place(rules: Sequence[Mapping[str, Any]], region: str) -> bool | None:
    """Return whether rules allow a region, None where they name groups of places that are not known here."""
    if any(rule.get("denyAll") for rule in rules):
        return False
    allowed, denied = _values(rules, "allowedValues"), _values(rules, "deniedValues")
    if any(_covers(value, region) for value in denied):
        return False
    if not allowed or any(rule.get("allowAll") for rule in rules) or any(_covers(value, region) for value in allowed):
        return None if any(_covers(value, region) is None for value in denied) else True
    return None if any(_covers(value, region) is None for value in allowed) else False


def _covers(value: str, region: str) -> bool | None:
    """Return whether a value of gcp.resourceLocations holds a region, None for a group that is not known here."""
    group = value.removeprefix("in:").removesuffix("-locations")
    if group == region or _region(group) == region:
        return True
    if start := _CONTINENTS.get(group):
        return region.startswith(start) or None
    return False if re.fullmatch(r"[a-z]+-[a-z]+\d+(-[a-z])?", group) else None


def _values(rules: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """Return the values of a kind, without the `is:` before a single one."""
    return [str(value).removeprefix("is:") for rule in rules for value in (rule.get("values") or {}).get(kind, ())]


def _listed(rules: Sequence[Mapping[str, Any]]) -> str:
    named = [*_values(rules, "allowedValues"), *(f"not {one}" for one in _values(rules, "deniedValues"))]
    return ", ".join(named[:6]) or "nothing is allowed"


def _region(place: str) -> str:
    """Return the region of a zone or region."""
    return re.sub(r"-[a-z]$", "", place)
