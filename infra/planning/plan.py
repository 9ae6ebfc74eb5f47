"""The Plan: everything that can be decided without the cloud, decided. Components translate it and decide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog import Accelerator, Architecture, Model, OpenFault, Recipe
from infra.errors import Fault
from infra.planning.artifacts import AdapterSet, ImageRef, RepositoryPlan, StagingPlan, WeightSet
from infra.planning.cost.estimate import CostEstimate
from infra.planning.cost.price_lines import MONTH_H
from infra.planning.memory.budget import MemoryBudget
from infra.planning.memory.kv_cache import KvCapacity
from infra.planning.memory.verdict import Verdict
from infra.planning.names import Names
from infra.planning.performance.speed import Rate, SpeedEstimate, SpeedModel
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.base import Deployment, Place, Platform, QuotaNeed
from infra.planning.server.command import Command
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings
from infra.planning.settings.resolve import Origin
from infra.planning.units import Band


@dataclass(frozen=True)
class Plan:
    """What a stack would be, decided, priced and judged."""

    stack: str
    settings: Settings
    origins: Mapping[str, Origin]
    recipes: tuple[Recipe, ...]
    """The recipes whose settings apply where the stack file says nothing; each says who measured it, if anybody did."""
    model: Model
    architecture: Architecture
    accelerator: Accelerator
    project: str | None
    platform: Platform[Any]
    place: Place
    deployment: Deployment
    """What the platform deploys to serve. Its kind is known only to the platform's own folder."""
    names: Names
    labels: Mapping[str, str]
    images: Mapping[str, ImageRef]
    """By role: serving, staging, gateway."""
    weights: tuple[WeightSet, ...]
    """The model, then its assistant where one is used."""
    adapters: tuple[AdapterSet, ...]
    """The LoRA adapters, each a model of its own in /v1/models."""
    staging: StagingPlan | None
    """The job that copies the weights; None if the stack fills no bucket of its own."""
    repository: RepositoryPlan
    server: Server
    """What vLLM will really use, once every default is resolved."""
    open_faults: tuple[OpenFault, ...]
    """Faults of vLLM that stood open when they were read, and that this configuration may meet."""
    command: Command
    memory: MemoryBudget
    capacity: KvCapacity
    """At the likeliest size of the KV cache."""
    requests_held: int
    """Requests of the workload, each with its whole prompt and answer, that `capacity` holds while they decode.

    Not what vLLM sets aside: its figure (`capacity.concurrency`) counts requests of max_model_len, each with the room that
    only its prefill needs. As every request counts with its last token, none that is held has to be preempted."""
    kv_tokens: Band
    """`capacity.tokens` over the band of the KV cache's size, as are the next three."""
    requests_held_band: Band
    """Over `requests_held`."""
    concurrency_band: Band
    """Over `capacity.concurrency`."""
    largest_max_model_len: Band
    """A context up to `low` fits the KV cache, up to `high` it may fit, beyond that it is refused."""
    speed: SpeedEstimate
    """`speed.planned` is for as many requests as may run, fit the KV cache and are admitted, at least one; others wait."""
    speed_model: SpeedModel
    """The functions behind `speed`, for other numbers of running requests."""
    startup: StartupEstimate
    quotas: tuple[QuotaNeed, ...]
    """The quotas that the whole stack needs, those of the devices first."""
    cost: CostEstimate
    ready_timeout_s: int
    deploy_timeout_s: int
    """Pulumi's custom timeout for what waits for the model to load."""
    fits: Verdict
    """The verdict by memory alone."""
    refusals: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def paused(self) -> bool:
        """Whether nothing is kept running or asked for, by the settings; all figures are those of a stack that runs."""
        return self.platform.paused(self.settings)

    @property
    def region(self) -> str:
        """The region of everything that is regional: images, weights, services."""
        return self.place.region

    @property
    def zone(self) -> str | None:
        """The zone of the devices where a setting chooses it; None elsewhere."""
        return self.place.zone

    @property
    def usd_per_month(self) -> tuple[float, float]:
        """Dollars for a month with the fewest replicas running that may be, and with the most."""
        more = self.cost.usd_per_hour * MONTH_H
        kept, running = self.deployment.kept_replicas, (self.deployment.always_running, self.cost.replicas)
        least, most = (self.cost.usd_per_month_idle + more * (replicas - kept) for replicas in running)
        return least, most

    @property
    def speed_of_all(self) -> Rate:
        """The planned speed of all servers together: each has as many requests, or fewer where no more reach all of them."""
        count, most, one = self.deployment.replicas, self.deployment.most_in_flight, self.speed.planned
        if most is not None and count * one.requests > most:
            one = self.speed_model.tokens_per_second_at(max(1, most // count))
        return one.of_servers(count)

    @property
    def request_tokens(self) -> int:
        """Tokens of a request of the workload, prompt and answer, as far as max_model_len lets it grow."""
        workload = self.settings.workload
        return min(workload.prompt_tokens + workload.output_tokens, self.server.max_model_len)

    def overridden(self, recipe: Recipe) -> tuple[str, ...]:
        """Settings of an applied recipe that are not as it has them: a measurement of it is of another configuration."""
        other = ("checkpoint",) if self.settings.checkpoint else ()
        return (*other, *(path for path, value in recipe.settings.items() if self._value(path) != value))

    def _value(self, path: str) -> Any:
        value: Any = self.settings.model_dump(by_alias=True)
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    @property
    def verdict(self) -> Verdict:
        """The whole judgement: refused for any reason, else what the memory says."""
        return Verdict.REFUSED if self.refusals else self.fits

    @property
    def refused(self) -> bool:
        """True if the configuration cannot work: `gemma4 plan` exits 3, `pulumi up` stops before any resource."""
        return bool(self.refusals)
