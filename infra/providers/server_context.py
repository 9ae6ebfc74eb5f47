"""What stands around a server that fails its check: its last log lines, and its platform's own reason. `log` says where it
logs, as `Deployment.log_place` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from infra.errors import GoogleError
from infra.google.cloud_run import CloudRun
from infra.google.logs import LogSource, last_lines
from infra.google.session import GoogleSession
from infra.google.times import moment
from infra.serving.server_errors import sentence

_LOG_LINES = 15
_RECENT_S = 3600
"""How old an error of the supervisor may be to be shown: older ones are about an earlier server."""


def log_tail(session: GoogleSession, log: Mapping[str, str]) -> Sequence[str]:
    on_machine = log["kind"] == "machine"
    source = (LogSource.machine if on_machine else LogSource.service)(log["name"], log["location"])
    lines = last_lines(session, source, limit=_LOG_LINES) or ("(it has logged nothing yet)",)
    return (
        (*_supervisor_errors(session, source), *lines, f"(more: {source.command(session.project)})")
        if on_machine
        else lines
    )


def _supervisor_errors(session: GoogleSession, source: LogSource) -> Sequence[str]:
    """Return the last errors that a machine's supervisor reported, with the last log lines of a server that ended.

    The supervisor starts the server again, and the hundreds of lines of that start would hide why the last one ended.
    """
    since = moment(session.clock() - _RECENT_S)
    errors = last_lines(session, replace(source, payload={"event": "trouble"}), limit=2, since=since)
    return [line for text in errors for line in text.splitlines()]


def platform_reason(session: GoogleSession, log: Mapping[str, str]) -> str:
    """Return why Cloud Run does not serve what was planned; empty for a machine, and where Cloud Run reports no problem."""
    if log["kind"] != "service":
        return ""
    name, region = log["name"], log["location"]
    try:
        service = CloudRun(session, region).service(name)
    except GoogleError:
        return ""
    if service.failed_revision:
        return (
            f"Cloud Run has given up on the newest revision: {sentence(service.problem)} The next `pulumi up` tries again with "
            "a new one."
        )
    if not service.ready:
        return f"Cloud Run is still starting it: {sentence(service.problem)} Run `pulumi up` again to go on waiting."
    if service.pinned_to:
        return (
            f"Somebody moved the traffic to {', '.join(service.pinned_to)}, and `pulumi up` does not change that: run "
            f"`gcloud run services update-traffic {name} --to-latest --region {region} --project {session.project}`."
        )
    return ""
