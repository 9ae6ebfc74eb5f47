"""What runs of a stack's TPU slices and of the gateway before them, whether they serve as planned, and for how long they
have run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from infra.catalog import catalog
from infra.errors import GoogleError
from infra.google.monitoring import Monitoring
from infra.google.session import GoogleSession
from infra.google.times import timestamp_s
from infra.google.tpu_types import QueueState
from infra.ops.answers.slice_answers import OrphanRow
from infra.ops.answers.status_answers import SliceNowRow
from infra.ops.running.gateway_now import gateway_usage, look_at_gateway
from infra.ops.running.machine_term import MachineTerm, Phase
from infra.ops.running.member_addresses import member_addresses
from infra.ops.running.platform_operations import PlatformOperations
from infra.ops.running.running_now import RunningNow
from infra.ops.running.service_now import service_lines
from infra.ops.running.supervised_machine import machine_line
from infra.ops.running.usage import NO_RECORD, Usage, copy_usage
from infra.ops.tpu.orphans import Orphans, find_orphans
from infra.ops.tpu.read_slices import slice_ids, slice_statuses
from infra.ops.tpu.slice_status import SliceStatus
from infra.ops.tpu.status_lines import orphan_lines
from infra.planning.gateway.members import TURNS
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.report.tables import labelled
from infra.planning.units import counted


class SliceOperations(PlatformOperations):
    """Questions about slices and their gateway."""

    def look(self, session: GoogleSession, plan: Plan, tickets: Set[str] | None = None) -> RunningNow:
        slices = _slices(plan)
        gaps: list[str] = []
        try:
            addresses = member_addresses(session, plan)
            statuses = slice_statuses(session, plan, slices, addresses, tickets)
        except GoogleError as error:
            return RunningNow(None, "is not known to serve: the TPU API cannot be asked", gaps=(str(error),))
        gateway, fault = look_at_gateway(session, plan, gaps)
        orphans = slice_orphans(session, plan, slices, tickets)
        summary, then = _paused(statuses, plan) or _judged(statuses, fault)
        gateway_lines = service_lines(gateway, session.clock()) if gateway else ()
        lines = [labelled([(f"  {one.host}", machine_line(one, _words(one)))], 11) for one in statuses]
        return RunningNow(
            not not_serving(statuses) and fault is None,
            summary,
            then,
            next((one.supervisor.running for one in statuses if one.supervisor.running), ""),
            gateway,
            tuple(_row(one) for one in statuses),
            tuple(OrphanRow(**vars(one)) for one in orphans.found),
            (*lines, *gateway_lines, *orphan_lines(Orphans(orphans.found, ()))),
            (*gaps, *filter(None, [addresses.gap]), *orphans.gaps),
            tuple(addresses.of_nobody({one.address for one in statuses})),
        )

    def usage(self, session: GoogleSession, plan: Plan, *, since: float, until: float) -> Iterator[Usage]:
        yield from _slice_usage(session, plan, since, until)
        yield gateway_usage(session, plan, _slices(plan).gateway, since=since, until=until)
        if copy := copy_usage(session, plan, since=since, until=until):
            yield copy

    def terms(self, session: GoogleSession, plan: Plan, tickets: Set[str] | None = None) -> Iterator[MachineTerm]:
        for one in slice_statuses(session, plan, _slices(plan), tickets=tickets):
            yield MachineTerm(one.name, one.host, _phase(one), timestamp_s(one.ends_at), one.orphan)


OPERATIONS = SliceOperations()


def slice_orphans(session: GoogleSession, plan: Plan, slices: SlicesPlan, tickets: Set[str] | None = None) -> Orphans:
    """Return the stack's orphans in every zone that is known to have TPUs; with `tickets` those that its state, which has
    these, does not know as well."""
    tpus = [one for one in catalog().accelerators.values() if one.tpu]
    return find_orphans(session, plan, slices, sorted({zone for one in tpus for zone in one.locations}), tickets)


def _phase(one: SliceStatus) -> Phase:
    """Return how far a slice is. One that is not this stack's is as good as missing: `pulumi up` says why it stays so."""
    if one.queue == "none" or not one.owned:
        return "missing"
    state = QueueState(one.queue)
    if state.over or one.expired:
        return "over"
    if state.waits or state is QueueState.PROVISIONING:
        return "waits"
    return "serves" if one.serving else "starts"


def _slices(plan: Plan) -> SlicesPlan:
    slices = plan.deployment
    assert isinstance(slices, SlicesPlan)  # noqa: S101 this platform's own
    return slices


def _paused(statuses: list[SliceStatus], plan: Plan) -> tuple[str, str] | None:
    """Return the end of the sentence about a stack that is paused, and what to do; None about any other."""
    left = [one.host for one in statuses if one.queue != "none"]
    if not plan.paused:
        return None
    if left:
        still = f"{left[0]} is still there and paid for" if len(left) == 1 else f"{', '.join(left)} are still paid for"
        return f"is paused, and {still}", f"pulumi up -s {plan.stack}"
    return "is paused: no slice is asked for, and the address answers 503", f"gemma4 resume {plan.stack}"


def _judged(statuses: list[SliceStatus], no_gateway: tuple[str, str] | None) -> tuple[str, str]:
    """Return the end of the sentence about the stack, and what to do."""
    names, missing = {one.name for one in statuses}, not_serving(statuses)
    if missing:
        share = f"{len(names) - len({one.name for one in missing})} of {counted(len(names), 'slice')}"
        return f"does not serve as planned: {share} does", f"{missing[0].host}: {missing[0].next}"
    if no_gateway:
        return no_gateway
    ahead = next((f"{one.host}: {one.next}" for one in statuses if not one.next.startswith("nothing")), "")
    return f"serves as planned with {counted(len(names), 'slice')}", ahead


def not_serving(statuses: Sequence[SliceStatus]) -> list[SliceStatus]:
    """Return the slices that do not serve, but for those of a name under which another one does."""
    served = {one.name for one in statuses if one.serving}
    return [one for one in statuses if one.name not in served]


def _words(one: SliceStatus) -> list[str]:
    return [one.queue, *([f"machine {one.node}"] if one.node else [])]


def _row(one: SliceStatus) -> SliceNowRow:
    return SliceNowRow(
        name=one.name,
        host=one.host,
        follows=one.follows,
        queue=one.queue,
        node=one.node,
        health=one.health,
        stage=one.supervisor.stage,
        running=one.supervisor.running,
        unrouted=one.unrouted,
        orphan=one.orphan,
        late=False,
        age_s=one.age_s,
        ends_at=one.ends_at,
        left_s=one.left_s,
        serving=one.serving,
        next=one.next,
    )


def _slice_usage(session: GoogleSession, plan: Plan, since: float, until: float) -> Iterator[Usage]:
    """Yield the usage of each slice by its name, of all its generations and of slices that are no more.

    Google's record of a slice says since when its present machine runs; what ran before is known to Cloud Monitoring alone.
    """
    slices, now = _slices(plan), session.clock()
    prefix = plan.names.member("")
    trouble, sampled = "", dict[str, float]()
    try:
        sampled = dict(Monitoring(session).node_seconds(prefix, since=since, until=until))
    except GoogleError as error:
        trouble = f"slices that were deleted are not counted: {error}"
    recorded: dict[str, float] = {}
    try:
        for one in slice_statuses(session, plan, slices):
            if one.age_s is not None:
                recorded[one.id] = max(0.0, min(now, until) - max(now - one.age_s, since))
    except GoogleError as error:
        yield Usage.unknown("slices", str(error))
        return
    turn = f"-[{''.join(TURNS)}]"
    own = re.compile(rf"{re.escape(prefix)}[a-z][a-z0-9]*{turn}")  # another stack's name may begin as this one's
    names = sorted(recorded.keys() | {name for name in sampled if own.fullmatch(name)})
    if not plan.paused:
        names += [plan.names.member(one) for one in slices.names if not {*slice_ids(plan, one)} & {*names}]
    for name in names:
        seconds, what = max(recorded.get(name, 0.0), sampled.get(name, 0.0)), f"slice {name.removeprefix(prefix)}"
        note = trouble
        if not trouble and recorded.get(name, 0.0) > 900 and name not in sampled:
            note = "by Google's record of its machine; Cloud Monitoring has none, so earlier machines are not counted"
        if not seconds and name not in recorded:
            yield Usage.unknown(what, trouble or NO_RECORD)
        else:
            yield Usage.at(what, seconds, plan.cost.usd_per_hour, note)
