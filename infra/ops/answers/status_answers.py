"""The answer of `gemma4 status`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from infra.ops.answers.answer_base import JsonAnswer
from infra.ops.answers.slice_answers import OrphanRow
from infra.planning.report.data_models import Data, Number


class CheckRow(Data):
    """A serving check in the stack's state."""

    name: str = Field(description="of the resource")
    url: str = Field(description="where it asked")
    spec: str = Field(description="hash of the specification that was checked")
    at: str = Field(description="moment of the check by the state's own record; empty where it has none")
    result: dict[str, Any] = Field(
        description="what it measured, as the check wrote it: `vllm_version`, `ready_s`, `ttft_s`, `tokens_per_second` and "
        "so on; or `skipped`, the reason why nothing was asked"
    )


class ServiceRow(Data):
    """A Cloud Run service as it is now: the server itself, or the gateway before TPU slices."""

    name: str = Field(description="short name")
    region: str = Field(description="where it is")
    revision: str = Field(description="the newest one that is ready; empty without one")
    ready: bool = Field(description="whether the newest revision is ready")
    problem: str = Field(description="Google's reason why not; empty where it is")
    failed_revision: str = Field(description="the newest revision where Cloud Run has given it up; else empty")
    traffic: dict[str, int] = Field(description="percent of the requests by revision")
    spec: str = Field(description="hash of the specification that the ready revision serves; empty of a gateway")
    accelerator: str = Field(description="GPU by Cloud Run's name; empty without one")
    machine: str = Field(description="GPU, vCPU and memory of an instance, in words")
    instances_active: int | None = Field(
        description="instances with requests; null where Cloud Monitoring was not asked"
    )
    instances_idle: int | None = Field(description="instances without requests; they are paid for as well")
    counted_at: str = Field(description="moment of that count, some minutes ago; empty without a recent one: none run")
    min_instances: int = Field(description="instances that are kept; 0: it scales to zero")
    max_instances: int = Field(description="instances at most; 0 where Cloud Run does not say")
    created: str = Field(description="moment of its first deployment")
    updated: str = Field(description="moment of its last change")


class SliceNowRow(Data):
    """A TPU slice in short; `gemma4 tpu status` says more of it."""

    name: str = Field(description="as in `tpu.slices`")
    host: str = Field(
        description="label of its machine in the stack's zone: `blue-a`, and of the one that follows it `blue-b`"
    )
    follows: str = Field(description="host of the slice that it is to replace, while both are there; else empty")
    queue: str = Field(description="state of the queued resource, `none` without one")
    node: str = Field(description="state of the machine; empty without one")
    health: str = Field(description="as Google says it")
    stage: str = Field(description="of the supervisor there; empty: nothing heard")
    running: str = Field(description="hash of the specification that runs")
    unrouted: str = Field(
        description="why the gateway sends it nothing though it serves; empty where it does, or where that is not known"
    )
    orphan: bool = Field(
        description="the stack's state does not know it, so no `pulumi up` goes on with it, and it counts as not serving"
    )
    late: bool = Field(description="its machine came after the last `pulumi up` had ended, and serves by itself")
    age_s: Number | None = Field(description="since the machine came")
    ends_at: str = Field(description="moment when it ends; empty where it does not")
    left_s: Number | None = Field(description="until then")
    serving: bool = Field(description="whether it serves what is planned")
    next: str = Field(description="what to do")


class MachineNowRow(Data):
    """A machine of Compute Engine, with one server or several."""

    name: str = Field(description="as in `machine.names`")
    group: str = Field(description="what its managed group does about it; empty where there is no group")
    error: str = Field(description="why the group could not make it, the last time that it tried")
    status: str = Field(description="Google's word for the machine; empty without one")
    zone: str = Field(description="where the group has put it")
    machine_type: str = Field(description="its shape, one of `machine.shapes`")
    health: str = Field(description="what Google's check of the supervisor says, after which the group makes it anew")
    stage: str = Field(description="of the supervisor there; empty: nothing heard")
    running: str = Field(description="hash of the specification that runs")
    trouble: str = Field(description="the newest that the supervisor reports; empty without one")
    servers: dict[str, str] = Field(description="stage of each server by its container's name; empty: nothing heard")
    age_s: Number | None = Field(description="since the machine was made, which a repair does anew")
    ends_at: str = Field(description="moment when it ends; empty where it does not")
    left_s: Number | None = Field(description="until then")
    unrouted: str = Field(
        description="why the gateway sends it nothing though it serves; empty where it does, or where that is not known"
    )
    serving: bool = Field(description="whether all its servers serve what is planned, and are sent requests")
    next: str = Field(description="what to do")


class ServerSaysRow(Data):
    """What a server at a URL says of itself."""

    healthy: bool = Field(description="whether /health answers, which does not prove that it can generate")
    version: str = Field(description="of vLLM; empty where it does not say")
    models: list[str] = Field(description="names that it serves, adapters included")
    max_model_len: int | None = Field(description="longest prompt plus answer; null where it does not say")


class CostSinceRow(Data):
    """What has been paid for since the last `pulumi up`, by running time and list prices."""

    since: str = Field(description="moment of that `up`, by the state's own record")
    running_s: Number | None = Field(description="of all instances or slices; null where nobody knows")
    usd_least: Number | None = Field(description="the least that it may have cost, storage left out")
    usd_most: Number | None = Field(description="the most; the same where that is known")
    notes: list[str] = Field(description="how it was counted, and what is not known")


class Status(JsonAnswer):
    """What `gemma4 status --json` prints. Exit code 0 only where it serves as planned."""

    stack: str = Field(description="name of the stack; empty with --url")
    url: str = Field(description="where it answers; empty where that is not known")
    serving: bool | None = Field(
        description="whether it serves as planned, scaled to zero included where that is planned; null: cannot be asked"
    )
    summary: str = Field(description="the same in a sentence")
    planned_spec: str = Field(description="hash of the specification that the files here plan; empty with --url")
    deployed_spec: str = Field(description="hash of the one that is served; empty where it is not known")
    service: ServiceRow | None = Field(description="null without one, or where it cannot be asked")
    slices: list[SliceNowRow] = Field(description="TPU slices that the file names")
    machines: list[MachineNowRow] = Field(description="machines of Compute Engine that the file names")
    orphans: list[OrphanRow] = Field(description="what else carries the stack's labels, and is paid for")
    server: ServerSaysRow | None = Field(description="with --url only: a stack's server is not asked, lest it wakes")
    checks: list[CheckRow] = Field(description="the last check of each server; empty where nothing is deployed")
    cost: CostSinceRow | None = Field(description="null where the last `up` is not known, and with --url")
    next: str = Field(description="what to type or do now")
    remarks: list[str] = Field(
        description="what is no fault and should be known: slices that came late, records of none"
    )
    gaps: list[str] = Field(description="what could not be asked, and why")
