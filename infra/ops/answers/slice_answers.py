"""Answers about TPU slices, and about where machines can be had: tpu status, tpu ended, zones."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.planning.report.data_models import Data, Number


class SupervisorRow(Data):
    """What the supervisor last wrote into its machine's guest attributes."""

    stage: str = Field(description="as containers/supervisor/README.md lists them; empty: nothing heard")
    wanted: str = Field(description="hash of the newest specification there")
    running: str = Field(description="hash of the one that runs")
    preparing: str = Field(description="the next one, and how far")
    error: str = Field(description="newest trouble")
    maintenance: str = Field(description="what the machine itself was told")
    at: str = Field(description="moment of the report")
    age_s: Number | None = Field(description="its age; after 300 the machine counts as not heard from")
    ready: list[str] | None = Field(description="names under which it takes requests; null where it does not say")
    unreadable: str = Field(description="why Google does not hand the report out")


class SliceRow(Data):
    """A slice of the stack."""

    name: str = Field(description="as in `tpu.slices`")
    id: str = Field(description="of queued resource and node")
    host: str = Field(
        description="label of its machine in the stack's zone: `blue-a`, and of the one that follows it `blue-b`"
    )
    follows: str = Field(description="host of the slice that it is to replace, while both are there; else empty")
    followed: bool = Field(description="a younger slice of the same name serves, and this one is to be given back")
    owned: bool = Field(description="whether it carries this stack's labels")
    queue: str = Field(description="state of the queued resource, `none` without one")
    why: str = Field(description="Google's reason, of one that failed")
    node: str = Field(description="state of the machine; empty without one")
    address: str = Field(description="inside the VPC")
    health: str = Field(description="as Google says it")
    problem: str = Field(description="Google's description and symptoms")
    maintenance: str = Field(description="moment when announced maintenance begins")
    supervisor: SupervisorRow = Field(description="what its supervisor last reported")
    waited_s: Number | None = Field(description="since it was asked for")
    expires_at: str = Field(description="moment, while it waits: the end of the request")
    expires_guessed: bool = Field(
        description="by the file's `tpu.validUntilDuration`, since Google's record does not say"
    )
    expired: bool = Field(description="it still stands in the queue ten minutes after that: it is served no more")
    age_s: Number | None = Field(description="since the machine came")
    left_s: Number | None = Field(description="until it ends; null where it does not")
    ends_at: str = Field(description="moment when that is")
    ends_guessed: bool = Field(description="creation plus run duration, since Google does not say")
    granted: str = Field(description="how what was granted differs from the file; what was granted counts")
    unrouted: str = Field(
        description="why the gateway sends it nothing though it serves; empty where it does, or where that is not known"
    )
    orphan: bool = Field(
        description="the stack's state does not know it, so no `pulumi up` goes on with it; false where that was not asked"
    )
    serving: bool = Field(
        description="granted, owned, ready, healthy, heard from, serving what is planned, and sent requests"
    )
    next: str = Field(description="what to do")


class OrphanRow(Data):
    """A queued resource with the stack's labels that is not one of its slices, or that its state does not know."""

    id: str = Field(description="carries the stack's labels, but no `pulumi up` goes on with it")
    zone: str = Field(description="where it was found")
    queue: str = Field(description="state of the queued resource")
    why: str = Field(description="why it should be looked at")
    usd_per_hour: Number | None = Field(
        description="what it costs while it has a machine, at list price; null where that is not known"
    )
    next: str = Field(description="what to do")


class SliceStatuses(JsonAnswer):
    """What `gemma4 tpu status STACK --json` prints. Exit code 0 only where every slice has `serving: true`."""

    stack: str = Field(description="name of the stack")
    zone: str = Field(description="where its file wants the slices")
    slices: list[SliceRow] = Field(description="those that the file names")
    orphans: list[OrphanRow] = Field(description="what else carries the stack's labels, and is paid for")
    gaps: list[str] = Field(description="zones that were not looked through, with the reason: silence is not none")


class EndedRow(Data):
    """A request that has ended and holds quota."""

    id: str = Field(description="of the queued resource")
    zone: str = Field(description="where it is")
    state: str = Field(description="`FAILED` or `SUSPENDED`")
    error: str = Field(description="Google's reason")
    owned: bool = Field(description="whether a stack of this program made it")
    chips: int = Field(description="of the quota that it holds")
    created: str = Field(description="moment when it was asked for")
    done: Literal["deleted", "failed", ""] = Field(description="`deleted`, `failed`, or empty where it was let be")


class EndedRequestsAnswer(JsonAnswer):
    """What `gemma4 tpu ended --json` prints. Exit code 1 where one could not be deleted."""

    ended: list[EndedRow] = Field(description="all of the project")
    deleted: list[str] = Field(description="ids")
    failed: dict[str, str] = Field(description="by id, why it could not be deleted")
    gaps: list[str] = Field(description="zones that were not looked through, with the reason")


class ZoneRoomRow(Data):
    """A zone that lists the accelerator."""

    zone: str = Field(description="one that lists the accelerator")
    flex_start: bool = Field(description="known to this program to take flex-start")
    limit: int | None = Field(description="of the zone, chips; -1 without limit")
    held: int | None = Field(description="chips that count against it, ended requests included")
    region_limit: int | None = Field(description="of the region")
    region_held: int | None = Field(description="and what counts against that")
    room: bool | None = Field(
        description="whether the quotas leave room for one more slice; says nothing of stock; null: unknown"
    )


class ZoneAdviceRow(Data):
    """What Google advises about the machine in one zone, at this moment. Nothing of it is a promise."""

    zone: str = Field(description="where")
    machine_type: str = Field(description="as Compute Engine calls it")
    provisioning: str = Field(description="the model that Google answered for: `STANDARD`, `SPOT` or `FLEX_START`")
    obtainability: Number | None = Field(description="how likely one can be had now, 0 to 1; null: Google does not say")
    uptime_s: Number | None = Field(
        description="how long it would run before it is taken back; null: Google does not say"
    )
    spot_usd_per_hour: Number | None = Field(description="newest list price of spot, of the whole machine")
    spot_since: str = Field(description="moment from which that price holds; empty where it is not known")
    preempted: Number | None = Field(
        description="share of the spot machines that were taken back among those that stopped, 0 to 1, mean of Google's record"
    )


class Zones(JsonAnswer):
    """What `gemma4 zones --json` prints. Exit code 3 where no zone has room, 1 where no zone could be asked."""

    accelerator: str = Field(description="catalog id")
    machine_types: list[str] = Field(description="the same, as Compute Engine calls it; several in order of preference")
    quota: str = Field(
        description="quota of the stack's provisioning, by zone; its twin counts the region; empty of a GPU"
    )
    zones: list[ZoneRoomRow] = Field(
        description="those that list the TPU; empty of a GPU, whose quotas `preflight` asks"
    )
    advice: list[ZoneAdviceRow] = Field(
        description="by zone, the likeliest first; zones of which Google says nothing are left out"
    )
    gaps: list[str] = Field(description="zones and quotas that could not be read")
