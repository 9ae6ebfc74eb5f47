"""Looks at what Cloud Run says of a stack's service or gateway: whether its newest revision came up, and why not."""

from __future__ import annotations

from infra.errors import GoogleError
from infra.google.cloud_run import CloudRun, Service
from infra.google.session import GoogleSession
from infra.ops.diagnosing.findings import Diagnosis, Finding, Line, Look, findings_in, quoted
from infra.planning.plan import Plan

_CONDITION_FAILED = "CONDITION_FAILED"


def look_at_services(diagnosis: Diagnosis, session: GoogleSession, plan: Plan) -> None:
    """Look at each Cloud Run service of the stack."""
    for what, (name, region) in plan.deployment.services(plan.names).items():
        _look_at_service(diagnosis, f"{what} {name}", CloudRun(session, region), name)


def _look_at_service(diagnosis: Diagnosis, where: str, run: CloudRun, name: str) -> None:
    try:
        service = run.service(name)
        lines = _conditions(run, name, service)
    except GoogleError as error:
        missing = error.status == 404
        why = (
            "it does not exist: nothing is deployed, or it failed to be made; see pulumi up" if missing else str(error)
        )
        diagnosis.looks.append(Look(where, trouble=why))
        return
    if service.failed:
        diagnosis.looks.append(Look(where, f"the newest revision failed: {service.failed_revision}"))
        diagnosis.findings += findings_in(lines, where, "condition") or [_unknown(where, service.problem)]
    elif not service.ready:
        diagnosis.looks.append(Look(where, f"not ready: {service.problem}"))
        diagnosis.findings += findings_in(lines, where, "condition")
    else:
        diagnosis.looks.append(Look(where, f"ready, serves {service.ready_revision}"))
    if service.pinned_to:
        elsewhere = Line(f"traffic goes to {', '.join(service.pinned_to)}, not to the newest revision")
        diagnosis.findings += findings_in([elsewhere], where, "condition")


def _conditions(run: CloudRun, name: str, service: Service) -> list[Line]:
    """Return what the service and its newest revision say is wrong."""
    said = [service.problem] if service.problem else []
    if service.created_revision and not service.ready:
        revision = run.revision(name, service.created_revision)
        said += [one.message for one in revision.conditions.values() if one.state == _CONDITION_FAILED and one.message]
    return [Line(text) for text in dict.fromkeys(said)]


def _unknown(where: str, problem: str) -> Finding:
    cause = "Cloud Run gave the newest revision up, for a reason that is not among those known here"
    fix = "Do what its words say, then run pulumi up, which makes a new revision."
    return Finding("revision-failed", where, cause, fix, "vague", quoted(problem))
