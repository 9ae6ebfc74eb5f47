"""One project of Google Cloud: its record, billing, APIs, what the caller may do in it, and its organization's rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession

MOST_PERMISSIONS = 100
"""Permissions that one request asks about. No limit is documented; public clients send up to 100."""
_UNTESTABLE = re.compile(r"[Pp]ermission '?([a-zA-Z]+\.[\w.]+?)'? is not valid")
"""How Google refuses a whole request for one permission that it cannot test on a project (seen in several projects)."""
_MOST_UNTESTABLE = 10


@dataclass(frozen=True)
class ProjectRecord:
    """`state` is ACTIVE for a project that can be used, DELETE_REQUESTED for one that is being deleted."""

    number: str
    state: str


@dataclass(frozen=True)
class Permissions:
    """What the caller lacks of the permissions that were asked about, and what cannot be asked on a project."""

    missing: tuple[str, ...]
    untestable: tuple[str, ...]


def project_record(session: GoogleSession) -> ProjectRecord:
    """Return the session's project. Raises GoogleError: 403 for a project that does not exist or is somebody else's."""
    found = session.get(Api.RESOURCE_MANAGER, f"projects/{session.project}")
    return ProjectRecord(str(found.get("projectNumber", "")), str(found.get("lifecycleState", "")))


def billing_account(session: GoogleSession) -> str:
    """Return the billing account that pays for the project; empty where none does, or where it is closed."""
    info = session.get(Api.CLOUD_BILLING, f"projects/{session.project}/billingInfo")
    return str(info.get("billingAccountName", "")) if info.get("billingEnabled") else ""


def enabled_services(session: GoogleSession) -> frozenset[str]:
    """Return the APIs that are enabled in the project: run.googleapis.com …"""
    pages = session.pages(
        Api.SERVICE_USAGE, f"projects/{session.project}/services", filter="state:ENABLED", pageSize="200"
    )
    return frozenset(
        str((one.get("config") or {}).get("name") or one.get("name", "").rsplit("/", 1)[-1])
        for page in pages
        for one in page.get("services", ())
        if one.get("state", "ENABLED") == "ENABLED"
    )


def lacking(session: GoogleSession, permissions: Iterable[str]) -> Permissions:
    """Return which of the permissions the caller does not have on the project. It asks and changes nothing."""
    wanted, missing, untestable = sorted(set(permissions)), list[str](), list[str]()
    for start in range(0, len(wanted), MOST_PERMISSIONS):
        left = wanted[start : start + MOST_PERMISSIONS]
        held, refused = _held(session, left)
        untestable += refused
        missing += [one for one in left if one not in held and one not in refused]
    return Permissions(tuple(missing), tuple(untestable))


def effective_policy(session: GoogleSession, constraint: str) -> Sequence[Mapping[str, Any]]:
    """Return the rules of an organization policy as they count for the project, those of its folders included."""
    path = f"projects/{session.project}/policies/{constraint}:getEffectivePolicy"
    rules: Sequence[Mapping[str, Any]] = (session.get(Api.ORG_POLICY, path).get("spec") or {}).get("rules") or ()
    return rules


def _held(session: GoogleSession, asked: Sequence[str]) -> tuple[frozenset[str], list[str]]:
    """Return what the caller has of `asked`, and what Google cannot test: that is left out, and the rest asked again."""
    path, refused = f"projects/{session.project}:testIamPermissions", list[str]()
    while True:
        body = {"permissions": [one for one in asked if one not in refused]}
        try:
            answer = session.post(Api.RESOURCE_MANAGER, path, body, repeatable=True)
        except GoogleError as error:
            named = _UNTESTABLE.search(str(error)) if error.status == 400 else None
            if named is None or named[1] not in body["permissions"] or len(refused) == _MOST_UNTESTABLE:
                raise
            refused.append(named[1])
        else:
            return frozenset(answer.get("permissions", ())), refused
