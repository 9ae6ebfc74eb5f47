"""Whether the caller is let in, and whether the project exists, is active, is paid for and has its APIs."""

from __future__ import annotations

from infra.errors import GoogleError
from infra.google.project import billing_account, enabled_services, project_record
from infra.preflight.preflight_check import PreflightResult, failed, ok
from infra.preflight.subject import Subject

_BY_HAND = ("cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com")
"""APIs without which `up` can enable no other."""
_SERVICE = "gcp:projects/service:Service"


def check_project(subject: Subject) -> PreflightResult:
    """Return whether the credentials are accepted and the project can be used."""
    project = subject.project
    who = subject.caller.partition(":")[2] or "these credentials"
    try:
        record = project_record(subject.session)
    except GoogleError as error:
        if error.status == 401:
            return failed(str(error), "Nothing could be created.", "gcloud auth application-default login")
        if error.reason in ("SERVICE_DISABLED", "BILLING_DISABLED") or error.status not in (403, 404):
            raise
        return failed(
            f"{who} cannot see a project {project}: it does not exist, or grants nothing here",
            "Nothing could be created.",
            f"gcloud projects list; then: pulumi config set gcp:project PROJECT -s {subject.plan.stack}",
        )
    if record.state != "ACTIVE":
        return failed(
            f"{project} is {record.state}, not ACTIVE",
            "Google refuses every new resource in it.",
            f"gcloud projects undelete {project}",
        )
    return ok(f"{who}, project {project} ({record.number}) is active")


def check_billing(subject: Subject) -> PreflightResult:
    """Return whether somebody pays for the project."""
    project = subject.project
    if account := billing_account(subject.session):
        return ok(f"{account.rpartition('/')[2]} pays")
    return failed(
        f"{project} has no active billing account",
        "Google enables neither Cloud Run nor TPUs in it.",
        f"gcloud billing projects link {project} --billing-account ACCOUNT",
    )


def check_apis(subject: Subject) -> PreflightResult:
    """Return whether the APIs are enabled that `up` cannot enable itself; the others it enables first."""
    project = subject.project
    needed = {str(row.inputs.get("service", "")) for row in subject.resources if row.type == _SERVICE} - {""}
    try:
        enabled = enabled_services(subject.session)
    except GoogleError as error:
        if error.reason == "SERVICE_DISABLED":
            return _by_hand(project, list(_BY_HAND))
        raise
    if missing := [name for name in _BY_HAND if name not in enabled]:
        return _by_hand(project, missing)
    later = sorted(needed - enabled)
    if not later:
        return ok(f"all {len(needed)} are enabled")
    names = ", ".join(name.removesuffix(".googleapis.com") for name in later)
    return ok(f"{len(needed) - len(later)} of {len(needed)} are enabled; up enables {names}")


def _by_hand(project: str, missing: list[str]) -> PreflightResult:
    return failed(
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not enabled",
        "`up` could enable no other API without that.",
        f"gcloud services enable {' '.join(missing)} --project {project}",
    )


def check_plan(subject: Subject) -> PreflightResult:
    """Return whether the plan itself can work; warnings of it stand beside the plan."""
    plan = subject.plan
    if plan.refusals:
        first, more = plan.refusals[0], len(plan.refusals) - 1
        said = f"{first.key}: {first.fact}" + (f" And {more} more." if more else "")
        return failed(said, first.consequence, first.fix or f"gemma4 plan {plan.stack}")
    if not plan.accelerator.deployable:
        fact = f"{plan.accelerator.title} can be planned but not deployed yet"
        return failed(fact, "`up` refuses it.", "gemma4 machines")
    return ok(f"{plan.model.title} on {plan.accelerator.title}, in {plan.place.location}")
