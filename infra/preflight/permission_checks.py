"""Whether the caller may create what the plan lists, and take the token with which the serving check asks at the end."""

from __future__ import annotations

import shutil

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.identity_tokens import CREATOR_ROLE
from infra.google.project import lacking
from infra.preflight.preflight_check import PreflightResult, failed, not_needed, ok, unknown
from infra.preflight.required_permissions import permissions_for, role_for, unlisted_types
from infra.preflight.subject import Subject

_TOKEN = "iam.serviceAccounts.getOpenIdToken"  # noqa: S105 the name of a permission
_CHECKED = "pulumi-python:dynamic/gemma4:ServingCheck"
_NAMED = 3


def check_permissions(subject: Subject) -> PreflightResult:
    """Return whether the caller holds on the project every permission that the plan's resources need."""
    if not subject.resources:
        return not_needed("the plan leads to no resources")
    needs = permissions_for(subject.resources)
    if strange := unlisted_types(subject.resources):
        return unknown(f"which permissions {', '.join(strange)} needs is not on file")
    found = lacking(subject.session, needs)
    asked = len(needs) - len(found.untestable)
    if not found.missing:
        rest = f"; {', '.join(found.untestable)} cannot be asked on a project" if found.untestable else ""
        return ok(f"all {asked} for {len(subject.resources)} resources are granted{rest}")
    named = [f"{one} ({', '.join(needs[one]) or 'every stack'})" for one in found.missing[:_NAMED]]
    more = f" and {len(found.missing) - _NAMED} more" if len(found.missing) > _NAMED else ""
    roles = dict.fromkeys(role_for(one) for one in found.missing)
    grants = [
        f"gcloud projects add-iam-policy-binding {subject.project} --member={subject.member} --role={role}"
        for role in roles
    ]
    return failed(
        f"{len(found.missing)} of {asked} permissions are missing: {', '.join(named)}{more}",
        "`up` would stop at the first resource that needs one, and leave the rest half made.",
        "\n".join(grants),
    )


def check_invoker(subject: Subject) -> PreflightResult:
    """Return whether the caller will get an identity token for the serving check, which is what ends `up`."""
    plan = subject.plan
    access = plan.settings.access
    if access.ingress == "internal" or not any(row.type == _CHECKED for row in subject.resources):
        return not_needed("nothing is asked of the endpoint at the end")
    deployers, caller = access.deployers, subject.caller.lower()
    if caller and caller in {member.lower() for member in deployers}:
        return ok(f"{subject.caller} is in access.deployers")
    if caller and caller in {member.lower() for member in access.invokers}:
        return ok(f"{subject.caller} is in access.invokers")
    if not lacking(subject.session, [_TOKEN]).missing:
        return ok(f"{CREATOR_ROLE.removeprefix('roles/')} is granted on the project")
    if _may_act(subject):
        return ok("is granted on the stack's invoker account")
    command = subject.config("access.deployers[0]", subject.member)
    groups = [member for member in deployers if not member.startswith(("user:", "serviceAccount:"))]
    if deployers and (not subject.caller or groups):
        return ok(f"up lets {', '.join(deployers)} take it: be one of them")
    if not caller and access.invokers and shutil.which("gcloud"):
        return ok(f"gcloud makes it, if it is signed in as one of access.invokers: {', '.join(access.invokers)}")
    said = "nobody is in access.deployers"
    if subject.caller and deployers:
        said = f"{subject.caller} is not among access.deployers"
    return failed(
        f"{said}, and {_TOKEN} is not granted on the project",
        "`up` would create everything, pay for it, and fail at the serving check, which could not call the endpoint.",
        command,
    )


def _may_act(subject: Subject) -> bool:
    """Return whether the invoker account exists already and lets the caller take tokens."""
    names = subject.plan.names
    email = f"{names.invoker}@{subject.project}.iam.gserviceaccount.com"
    path = f"projects/{subject.project}/serviceAccounts/{email}:testIamPermissions"
    try:
        answer = subject.session.post(Api.IAM, path, {"permissions": [_TOKEN]}, repeatable=True)
    except GoogleError as error:
        if error.status in (403, 404):
            return False
        raise
    return _TOKEN in answer.get("permissions", ())
