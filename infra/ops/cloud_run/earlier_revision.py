"""The way back on Cloud Run: an earlier revision gets the requests. Nothing is built, so it takes one start at most."""

from __future__ import annotations

from collections.abc import Iterator

from infra.errors import Gemma4Error, GoogleError, SettingsError
from infra.google.cloud_run import CloudRun, Revision, Service
from infra.google.session import GoogleSession
from infra.google.times import read_moment
from infra.ops.changing.way_back import WayBack
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.terminal.progress import waiting
from infra.planning.plan import Plan
from infra.planning.units import read_duration, read_minutes, read_predicted
from infra.serving.command_expectation import command_expectation

_POLLS, _POLL_S = 60, 2.0


def ways_back(
    endpoint: Endpoint, plan: Plan, session: GoogleSession, *, to: str | None, newest: bool
) -> Iterator[WayBack]:
    """Yield the change of traffic: to the revision `to`, to the newest, or to the one before that which serves now.

    Raises SettingsError for a revision that is not there or did not start, and Gemma4Error where there is none to go to.
    """
    cloud, name = CloudRun(session, plan.region), plan.names.prefix
    service, revisions = cloud.service(name), cloud.revisions(name)
    now = _serving(service)
    chosen = _newest(service, revisions) if newest else _named(revisions, to) if to else _before(now, revisions)
    if chosen.name == now and not (newest and service.pinned_to):
        raise Gemma4Error(f"{name} serves {now} already, so there is nothing to go back to.")
    start = read_predicted(plan.startup.from_zero, read_duration, ends=read_minutes)
    yield WayBack(
        member=endpoint.members[0],
        now=now,
        to=chosen.name,
        effect=f"{chosen.name} of {read_moment(chosen.created)} gets all requests; its first instance has to "
        f"start, {start} as planned now. `pulumi up` leaves that choice alone.",
        expected=command_expectation(chosen.words, ready_timeout_s=plan.ready_timeout_s),
        then=f"pulumi up -s {plan.stack} && gemma4 rollback {plan.stack} --newest",
        go=lambda: _go(session, cloud, name, None if newest else chosen.name),
    )


def _serving(service: Service) -> str:
    return max(service.traffic, key=lambda name: service.traffic[name], default=service.ready_revision)


def _before(now: str, revisions: tuple[Revision, ...]) -> Revision:
    names = [one.name for one in revisions]
    older = revisions[names.index(now) + 1 :] if now in names else ()
    if found := next((one for one in older if one.ready), None):
        return found
    raise Gemma4Error(f"there is no revision before {now} that has ever started, so there is nothing to go back to.")


def _named(revisions: tuple[Revision, ...], name: str) -> Revision:
    found = next((one for one in revisions if one.name == name), None)
    ready = ", ".join(one.name for one in revisions if one.ready)
    fix = f"Name one of: {ready}." if ready else "Deploy anew instead."
    if found is None:
        raise SettingsError.of("--to", f"there is no revision {name!r}.", "Nothing was changed.", fix)
    if not found.ready:
        raise SettingsError.of("--to", f"{name} never started: {found.problem}", "It would answer nothing.", fix)
    return found


def _newest(service: Service, revisions: tuple[Revision, ...]) -> Revision:
    found = next((one for one in revisions if one.name == service.ready_revision), None)
    if found is None:
        raise Gemma4Error("no revision has ever started, so there is nothing to give the requests to.")
    return found


def _go(session: GoogleSession, cloud: CloudRun, name: str, revision: str | None) -> None:
    """Send the traffic there and wait until the service shows it. Raises GoogleError where it does not within two minutes."""
    to = revision or "the newest revision"
    cloud.send_traffic(name, revision)
    with waiting(f"giving the requests to {to}"):
        for _ in range(_POLLS):
            service = cloud.service(name)
            if service.pinned_to == ((revision,) if revision else ()):
                return
            session.sleep(_POLL_S)
    raise GoogleError(f"Cloud Run took the change, but {name} does not give its requests to {to} yet; look again soon.")
