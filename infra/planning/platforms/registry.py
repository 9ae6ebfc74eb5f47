"""Every platform that there is, by the id under which the catalog's machines name it."""

from __future__ import annotations

from typing import Any

from infra.catalog import Accelerator
from infra.errors import CatalogError
from infra.planning.platforms.base import Platform
from infra.planning.platforms.cloud_run.cloud_run_platform import CloudRunPlatform
from infra.planning.platforms.compute_engine.machine_platform import ComputeEnginePlatform
from infra.planning.platforms.tpu.tpu_platform import TpuPlatform

PLATFORMS: dict[str, Platform[Any]] = {
    one.id: one for one in (CloudRunPlatform(), TpuPlatform(), ComputeEnginePlatform())
}


def platform_of(accelerator: Accelerator) -> Platform[Any]:
    """Return the platform that an accelerator is rented on. Raises CatalogError for one that is not registered."""
    if accelerator.platform not in PLATFORMS:
        known = ", ".join(PLATFORMS)
        raise CatalogError(f"accelerators.{accelerator.id} is on {accelerator.platform!r}, which is not one of {known}")
    return PLATFORMS[accelerator.platform]
