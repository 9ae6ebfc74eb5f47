"""The way back on machines, with TPUs or GPUs: the specification that the last change replaced is written there again.

The supervisor there switches in place; weights and image of that specification are still on the machine for some minutes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from infra.errors import Gemma4Error, SettingsError
from infra.google.compute_zone import ComputeZone
from infra.google.session import GoogleSession
from infra.google.tpu_zone import TpuZone
from infra.ops.changing.way_back import WayBack
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.endpoint.stack_state import SpecRecord
from infra.planning.plan import Plan
from infra.planning.server.hosting import SPEC
from infra.planning.units import read_duration, read_minutes, read_predicted
from infra.providers.serving_spec import COMPUTE
from infra.serving.command_expectation import command_expectation


def ways_back(
    endpoint: Endpoint, plan: Plan, session: GoogleSession, *, to: str | None, newest: bool
) -> Iterator[WayBack]:
    """Yield the change of each server whose machine has served another specification: back to it, or with `newest` to what
    was deployed last. Raises SettingsError for a specification that is not kept, Gemma4Error where none is."""
    specs = {one.node_id: one for one in (endpoint.state.specs if endpoint.state else ())}
    restart = read_predicted(plan.startup.restart, read_duration, ends=read_minutes)
    found = []
    for member in endpoint.members:
        ids = [plan.names.member(host) for host in plan.deployment.hosts(member.name)]
        record = next((specs[one] for one in ids if one in specs), None)
        wanted = {} if record is None else record.metadata if newest else record.previous
        if record is None or SPEC not in wanted:
            continue
        document = _document(wanted)
        if to in (None, document["hash"]):
            found.append(
                WayBack(
                    member=member,
                    now="" if newest else _document(record.metadata)["hash"],
                    to=document["hash"],
                    effect=f"{member.name} starts anew in place, {restart} as planned now; the next `pulumi up` writes what "
                    "the files plan again.",
                    expected=command_expectation(document["argv"], ready_timeout_s=plan.ready_timeout_s),
                    then=f"pulumi up -s {plan.stack}",
                    go=partial(_write, session, record, wanted),
                )
            )
    if not found:
        raise _nothing_kept(plan.stack, to)
    yield from found


def _nothing_kept(stack: str, to: str | None) -> Gemma4Error:
    if to is not None:
        fix = "Leave --to out, or take the stack file's old version out of git: docs/tasks/roll-back.md."
        return SettingsError.of("--to", f"no machine keeps the specification {to!r}.", "Nothing was changed.", fix)
    return Gemma4Error(
        f"the state of {stack} keeps no specification from before the last change, so there is nothing to go back to; take "
        "the stack file's old version out of git: docs/tasks/roll-back.md"
    )


def _document(metadata: Mapping[str, str]) -> Mapping[str, Any]:
    """Return hash and command of a specification. Raises Gemma4Error where another version wrote it."""
    try:
        document = json.loads(metadata[SPEC])
        argv: Sequence[str] = document["argv"]
        return {"hash": str(document["hash"]), "argv": [str(word) for word in argv]}
    except (KeyError, TypeError, ValueError):
        raise Gemma4Error(
            "the state holds a specification that this version cannot read; deploy with: pulumi up"
        ) from None


def _write(session: GoogleSession, record: SpecRecord, wanted: Mapping[str, str]) -> None:
    if record.product == COMPUTE:
        ComputeZone(session, record.zone, group=record.group).set_metadata(record.node_id, wanted)
    else:
        TpuZone(session, record.zone).set_metadata(record.node_id, wanted)
