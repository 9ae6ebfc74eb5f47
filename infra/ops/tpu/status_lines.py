"""The state of TPU slices in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from infra.google.times import read_moment
from infra.ops.tpu.orphans import Orphans
from infra.ops.tpu.slice_status import SliceStatus
from infra.planning.report.tables import labelled
from infra.planning.units import read_duration, read_usd


def status_lines(one: SliceStatus) -> Iterator[RenderableType]:
    """Yield the lines of one slice: what Google says, what its machine says, and what to do."""
    yield f"{one.host}  ({one.id})"
    yield _line("queue", _queue(one))
    if one.node:
        yield _line("machine", _machine(one))
        if one.maintenance:
            yield _line("", f"maintenance {read_moment(one.maintenance)}")
    if one.granted:
        yield _line("terms", f"{one.granted}; what was granted counts")
    if one.node:
        yield _line("supervisor", _doing(one))
    if one.supervisor.error:
        yield _line("trouble", one.supervisor.error)
    yield _line("next", one.next)


def orphan_lines(orphans: Orphans) -> Iterator[RenderableType]:
    """Yield the lines of all orphans, and of the zones that could not be asked for them."""
    for one in orphans.found:
        yield f"{one.id} in {one.zone}"
        price = "" if one.usd_per_hour is None else f"; {read_usd(one.usd_per_hour)} an hour"
        yield _line("queue", f"{one.queue}: {one.why}{price}")
        yield _line("next", one.next)
    yield from (f"Not asked: {gap}" for gap in orphans.gaps)


def _line(head: str, text: str) -> RenderableType:
    return labelled([(f"  {head}", text)], 12)


def _queue(one: SliceStatus) -> str:
    queue = one.queue + (f": {one.why}" if one.why else "")
    if not one.node and one.waited_s is not None:
        queue += f" for {read_duration(one.waited_s)}"
    if one.expires_at:
        verb = "ended" if one.expired else "ends"
        unless = ", if tpu.validUntilDuration was what it is now" if one.expires_guessed else ""
        queue += f"; the request {verb} {read_moment(one.expires_at)}{unless}"
    return queue


def _machine(one: SliceStatus) -> str:
    health = ": ".join(filter(None, (one.health, one.problem)))
    parts = [f"{one.node} at {one.address or '?'}", *([health] if health else [])]
    if one.ends_at and one.left_s is not None:
        source = " by its run duration, since Google does not say" if one.ends_guessed else ""
        parts.append(f"ends {read_moment(one.ends_at)}, {read_duration(one.left_s)} left{source}")
    return "; ".join(parts)


def _doing(one: SliceStatus) -> str:
    said = one.supervisor
    if said.unreadable:
        return f"its report cannot be read: {said.unreadable}"
    if not said.stage:
        return "no report yet"
    running = f" {said.running}" if said.running else ""
    preparing = f", preparing {said.preparing}" if said.preparing else ""
    reported = "" if said.age_s is None else f"; reported {read_duration(said.age_s)} ago"
    return f"{said.stage}{running}{preparing}{reported}"
