"""What is deployed on Cloud Run: instances of one size, and how many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog import Accelerator, Catalog, CloudRunLimits
from infra.errors import CatalogError
from infra.planning.cost.price_lines import MONTH_H, LineItem, price_line
from infra.planning.gateway.service_limits import HttpProbe
from infra.planning.names import Names
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.base import Deployment, QuotaNeed
from infra.planning.platforms.cloud_run.quota_checks import CPU, MEMORY
from infra.planning.platforms.cloud_run.startup_probe import deploy_timeout_s

_READINESS = HttpProbe(initial_delay_s=0, period_s=10, timeout_s=5, failure_threshold=3)


@dataclass(frozen=True)
class InstancesPlan(Deployment):
    """Instances of a GPU service and their scaling: instance-based billing, paid for as long as an instance exists."""

    accelerator: Accelerator
    region: str
    cpu: int
    memory_gib: int
    concurrency: int
    """Requests that one instance is sent at once."""
    min_instances: int
    max_instances: int
    zonal_redundancy: bool
    request_timeout_s: int
    probe: HttpProbe
    readiness_probe: HttpProbe = _READINESS
    """While it fails, the instance is sent nothing."""
    mount_options: tuple[str, ...] = ("uid=1001", "gid=1001", "metadata-cache-ttl-secs=-1", "enable-buffered-read=true")
    """How Cloud Storage FUSE mounts the bucket: for the image's user, its listing read once, files read ahead."""

    @property
    def replicas(self) -> int:
        return self.max_instances

    @property
    def kept_replicas(self) -> int:
        return self.min_instances

    @property
    def always_running(self) -> int:
        return self.min_instances

    @property
    def requests_each(self) -> int:
        return self.concurrency

    def log_place(self, names: Names, member: str) -> Mapping[str, str]:
        return {"kind": "service", "name": names.prefix, "location": self.region}

    def services(self, names: Names) -> dict[str, tuple[str, str]]:
        return {"service": (names.prefix, self.region)}

    @property
    def startup_probe(self) -> HttpProbe:
        return self.probe

    def deploy_timeout_s(self, startup: StartupEstimate, ready_timeout_s: int) -> int:
        return deploy_timeout_s(self.probe, startup)

    def hour(self, facts: Catalog) -> Iterator[LineItem]:
        return self._priced(facts, hours=1)

    def idle_month(self, facts: Catalog) -> Iterator[LineItem]:
        if self.min_instances:
            yield from self._priced(facts, hours=MONTH_H * self.min_instances)

    def _priced(self, facts: Catalog, *, hours: float) -> Iterator[LineItem]:
        sku = f"cloud-run-{self.accelerator.id}" + ("-zonal-redundancy" if self.zonal_redundancy else "")
        yield price_line(facts, "GPU", self.accelerator.devices * hours, sku, self.region)
        yield price_line(facts, "vCPU", self.cpu * hours, "cloud-run-vcpu", self.region)
        yield price_line(facts, "memory", self.memory_gib * hours, "cloud-run-memory", self.region)

    def quotas(self, facts: Catalog) -> Iterator[QuotaNeed]:
        """Return what all instances need together: Cloud Run refuses a service that could grow beyond its quotas."""
        limits = limits_of(self.accelerator)
        gpus = limits.quota_zonal_redundancy if self.zonal_redundancy else limits.quota
        for name, size in ((gpus, self.accelerator.devices), (MEMORY, self.memory_gib), (CPU, self.cpu)):
            yield QuotaNeed(facts.quotas[name], self.region, self.max_instances * size)

    @property
    def terms(self) -> str:
        return "scales to zero, and is paid for only while instances run"

    def settings_of(self, replicas: int, requests_each: int) -> Mapping[str, Any]:
        if replicas == 1:
            return {}
        # Without a bound on each, the first instance would take all requests.
        return {"scaling.maxInstances": replicas, "scaling.concurrency": requests_each}


def limits_of(accelerator: Accelerator) -> CloudRunLimits:
    """Return what Cloud Run demands of a container with this GPU. Raises CatalogError where its row does not say."""
    if accelerator.cloud_run is None:
        raise CatalogError(f"accelerators.{accelerator.id} is on Cloud Run and has no limits of it")
    return accelerator.cloud_run
