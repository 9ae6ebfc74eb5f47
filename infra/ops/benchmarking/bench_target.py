"""The server that is measured: awake, and what it and its plan say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.benchmark.capacity import Room
from infra.benchmark.stored_run import PlannedServer, ServerFacts
from infra.errors import Gemma4Error, ServingError
from infra.ops.commands.own_runs import planned_row
from infra.ops.endpoint.endpoint import Endpoint, Member
from infra.ops.terminal.progress import waiting
from infra.planning.plan import Plan
from infra.planning.report.data_models import BandData
from infra.planning.units import read_duration
from infra.serving.client import ServedModel, ServingClient
from infra.serving.metrics import Metrics
from infra.serving.waking import WAKE_LIMIT_S, until_awake


@dataclass(frozen=True)
class BenchTarget:
    """An endpoint, or one slice of it, that answers. `plan` is None unless what is served is what the files here plan."""

    endpoint: Endpoint
    member: Member | None
    model: str
    vllm: str
    facts: ServerFacts
    plan: Plan | None
    note: str
    """What to say of the plan, empty if nothing."""

    @property
    def url(self) -> str:
        """Where requests go, without their path."""
        return self.endpoint.url.rstrip("/") + (self.member.prefix if self.member else "")

    @property
    def servers(self) -> int:
        """How many servers may share the load."""
        if self.member is not None or self.plan is None:
            return 1
        return max(1, self.plan.cost.replicas)

    @property
    def requests_at_once(self) -> int | None:
        """How many requests all servers run at once; None where no plan says it."""
        return None if self.facts.max_num_seqs is None else self.facts.max_num_seqs * self.servers

    @property
    def room(self) -> Room:
        """What the servers have room for: by the server's own word, else by the low end of the plan."""
        said, plan = self.facts.kv_tokens, self.plan
        planned = plan.kv_tokens.low if plan else None
        return Room(
            max_model_len=self.facts.max_model_len,
            kv_tokens=planned if said is None else said,
            said_by="the plan's low end" if said is None else "the server",
            planned=plan.capacity if plan else None,
            servers=self.servers,
        )

    def readings(self) -> Sequence[Metrics]:
        """Return a reading of /metrics of each server that has an address of its own. Raises ServingError."""
        members = [self.member] if self.member is not None else self.endpoint.members
        return [self.endpoint.client(member).metrics() for member in members]


def reach(endpoint: Endpoint, member: Member | None) -> BenchTarget:
    """Wake the server, wait until it answers, and return what it says. Raises ServingError, and Gemma4Error where it serves no
    model."""
    client, plan = endpoint.client(member), endpoint.planned.plan if endpoint.planned else None
    limit_s = float(plan.ready_timeout_s) if plan else WAKE_LIMIT_S
    usual = f"; a start takes about {read_duration(plan.startup.from_zero.mid)}" if plan else ""
    with waiting(f"waiting for {endpoint.name} to answer{usual}"):
        until_awake(client, limit_s=limit_s)
        listed = client.models()
    if not listed:
        raise Gemma4Error(f"{endpoint.name} lists no model: there is nothing to measure")
    served = next((one for one in listed if one.name == endpoint.served_model), listed[0])
    note = ""
    if plan and plan.command.spec_hash not in {one.name for one in listed}:
        note = (
            f"another specification is served than the files here plan ({plan.command.spec_hash}): nothing is predicted"
        )
        plan = None
    return BenchTarget(
        endpoint, member, served.name, client.version_if_said(), _facts(client, served, plan), plan, note
    )


def planned_server(plan: Plan) -> PlannedServer:
    """Return what is stored of a plan."""
    return PlannedServer(
        model=plan.model.id,
        accelerator=plan.accelerator.id,
        usd_per_hour=plan.cost.usd_per_hour,
        kv_tokens=BandData(low=plan.kv_tokens.low, mid=plan.kv_tokens.mid, high=plan.kv_tokens.high),
        flags=list(plan.command.argv[2:]),
        row=planned_row(plan),
    )


def _facts(client: ServingClient, served: ServedModel, plan: Plan | None) -> ServerFacts:
    """Return what the server says of itself; what it does not say is None, or of the plan."""
    try:
        metrics = client.metrics()
    except ServingError:
        metrics = Metrics(())
    caching = metrics.cache_config().get("enable_prefix_caching")
    return ServerFacts(
        kv_tokens=metrics.kv_cache_tokens(),
        max_model_len=served.max_model_len,
        max_num_seqs=plan.server.max_num_seqs if plan else None,
        prefix_caching=None if caching is None else caching == "True",
    )
