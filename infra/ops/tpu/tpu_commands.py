"""`gemma4 tpu status` and `gemma4 tpu ended`: they ask Google, print, and say what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from infra.errors import GoogleError, SettingsError
from infra.google.tpu_chips import chips_of
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.slice_answers import EndedRequestsAnswer
from infra.ops.google_access import google_session
from infra.ops.plan_inputs import plan_stack, project_root
from infra.ops.running.member_addresses import member_addresses
from infra.ops.terminal.json_output import camel, print_json
from infra.ops.tpu.ended_requests import EndedRequests, delete_ended_request, find_ended_requests
from infra.ops.tpu.read_slices import slice_statuses
from infra.ops.tpu.request_owner import is_of_program
from infra.ops.tpu.slice_operations import not_serving, slice_orphans
from infra.ops.tpu.status_lines import orphan_lines, status_lines
from infra.planning.plan import Plan
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.report.tables import Column, FittedTable
from infra.planning.report.terminal import show
from infra.planning.settings.stackfile import StackFile, read_stack


@dataclass(frozen=True)
class _TpuStack:
    file: StackFile
    plan: Plan
    slices: SlicesPlan


def _tpu_stack(stack: str) -> _TpuStack:
    """Return the plan of a stack with TPU slices. Raises SettingsError for any other."""
    planned = plan_stack(stack)
    slices = planned.plan.deployment
    if not isinstance(slices, SlicesPlan):
        title = planned.plan.accelerator.title
        fix = f"gemma4 status {stack} looks at it; or name a stack like v6e4."
        raise SettingsError.of(stack, f"serves on {title}, not on TPU slices.", fix=fix)
    return _TpuStack(planned.file, planned.plan, slices)


def show_slices(stack: str, *, as_json: bool) -> bool:
    """Print the status of each slice and the stack's orphans, and return True if all slices serve as planned."""
    planned = _tpu_stack(stack)
    session = google_session(planned.file)
    addresses = member_addresses(session, planned.plan)
    slices = slice_statuses(session, planned.plan, planned.slices, addresses)
    orphans = slice_orphans(session, planned.plan, planned.slices)
    if as_json:
        print_json(
            {
                "stack": stack,
                "zone": planned.slices.zone,
                "slices": [camel(asdict(one)) for one in slices],
                "orphans": [camel(asdict(one)) for one in orphans.found],
                "gaps": [*filter(None, [addresses.gap]), *orphans.gaps],
            }
        )
    else:
        show(*(part for one in slices for part in status_lines(one)), *orphan_lines(orphans))
        show(
            *(f"Not known: {gap}" for gap in [addresses.gap] if gap),
            *addresses.of_nobody({one.address for one in slices}),
        )
    return not not_serving(slices)


def show_ended_requests(stack: str | None, *, delete: bool, everybody: bool, as_json: bool) -> bool:
    """Print the ended requests. With `delete`, delete those of the stack; without a stack those of all stacks of this
    program, with `everybody` all. Return False if one could not be deleted."""
    looked = _look_for_ended(stack, delete=delete, everybody=everybody)
    if as_json:
        print_answer(_as_ended_answer(*looked))
    else:
        hint = (
            f"They hold quota until they are deleted: gemma4 tpu ended {stack or 'STACK'} --delete (those of the stack), "
            "gemma4 tpu ended --delete (of all stacks of gemma4), gemma4 tpu ended --delete --everybody (all)."
        )
        _print_ended(*looked, hint="" if delete else hint)
    return not looked[2]


def ended_answer(stack: str | None = None, delete: bool = False, everybody: bool = False) -> EndedRequestsAnswer:
    """Return the ended requests; with `delete`, after those that are meant were deleted."""
    return _as_ended_answer(*_look_for_ended(stack, delete=delete, everybody=everybody))


_Looked = tuple[EndedRequests, dict[tuple[str, str], str], dict[str, str]]
"""The ended requests, what was done with each by zone and id, and why one could not be deleted."""


def _look_for_ended(stack: str | None, *, delete: bool, everybody: bool) -> _Looked:
    if everybody and not delete:
        fix = "Add --delete, or leave it out: all are listed anyway."
        raise SettingsError.of("--everybody", "has a meaning only beside --delete.", "Nothing is deleted.", fix)
    file = None if stack is None else read_stack(project_root(), stack)
    session = google_session(file, patient=delete)
    ended = find_ended_requests(session)
    failed: dict[str, str] = {}
    done: dict[tuple[str, str], str] = {}
    for one in ended.found if delete else ():
        if everybody or is_of_program(one, stack):
            try:
                delete_ended_request(session, one)
                done[one.zone, one.id] = "deleted"
            except GoogleError as error:
                failed[one.id] = str(error)
                done[one.zone, one.id] = "failed"
    return ended, done, failed


def _print_ended(
    ended: EndedRequests, done: Mapping[tuple[str, str], str], failed: Mapping[str, str], *, hint: str
) -> None:
    gaps = [f"Not asked: {gap}" for gap in ended.gaps]
    if not ended.found:
        show("No ended requests hold quota.", *gaps)
        return
    columns = [Column(name) for name in ("request", "zone", "state", "stack")]
    columns += [Column("chips", figures=True), Column("why", folds=True), Column("done")]
    rows = []
    for one in ended.found:
        stack = one.labels.get("stack", "") if is_of_program(one) else "foreign"
        result = done.get((one.zone, one.id), "")
        rows.append((one.id, one.zone, one.state.value, stack, f"{chips_of(one):,}", one.error, result))
    show(FittedTable(columns, rows), *failed.values(), *gaps, *filter(None, [hint]))


def _as_ended_answer(
    ended: EndedRequests, done: Mapping[tuple[str, str], str], failed: Mapping[str, str]
) -> EndedRequestsAnswer:
    rows = [
        {
            "id": one.id,
            "zone": one.zone,
            "state": one.state.value,
            "error": one.error,
            "owned": is_of_program(one),
            "chips": chips_of(one),
            "created": one.create_time,
            "done": done.get((one.zone, one.id), ""),
        }
        for one in ended.found
    ]
    deleted = [row["id"] for row in rows if row["done"] == "deleted"]
    return EndedRequestsAnswer.model_validate(
        {"ended": rows, "deleted": deleted, "failed": dict(failed), "gaps": list(ended.gaps)}
    )
