"""Whether a usual project has the quotas that a Cloud Run service needs, and what to write where it has not.

What a project really has is not known here: the catalog holds what new projects were seen to have. Cloud Run refuses a
service that could grow beyond its quotas, so all of `scaling.maxInstances` count, whatever runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.catalog import CloudRunLimits
from infra.errors import Fault
from infra.planning.platforms.base import QUOTAS_PAGE, QuotaNeed

MEMORY, CPU = "MemAllocPerProjectRegion", "CpuAllocPerProjectRegion"


def check_quotas(needs: Sequence[QuotaNeed], limits: CloudRunLimits, max_instances: int) -> Iterator[Fault]:
    """Yield a warning where a project with the usual quotas cannot hold the stack: found out last, it costs the most."""
    beyond = [need for need in needs if need.beyond_default()]
    if not beyond:
        return
    amounts = ", ".join(f"{need.amount:g} {need.quota.unit} of {need.quota.id}" for need in beyond)
    usual = ", ".join(f"{need.quota.default:g}" for need in beyond)
    fewer = min(int(max_instances * (need.quota.default or 0) // need.amount) for need in beyond)
    fact = f"{amounts} in {beyond[0].place}; a new project was seen to have {usual}."
    consequence = "With no more than that, Cloud Run refuses the service after images and weights are in place."
    fix = f"Before the first up, look at {QUOTAS_PAGE} and ask for more"
    if max_instances == 1:
        smaller = [f"leave {key} out" for key in _enlarged(beyond, limits)]
        yield Fault("accelerator", f"one instance needs {fact}", consequence, f"{', or '.join([fix, *smaller])}.")
    else:
        fix += f", or write scaling.maxInstances: {fewer}." if fewer else "."
        yield Fault("scaling.maxInstances", f"{max_instances} instances need {fact}", consequence, fix)


def _enlarged(beyond: Sequence[QuotaNeed], limits: CloudRunLimits) -> Iterator[str]:
    """Yield the settings that alone make an instance larger than a usual project holds: its machine's own size would pass."""
    own = {MEMORY: ("scaling.memoryGib", limits.default_memory_gib), CPU: ("scaling.cpu", limits.default_cpu)}
    for need in beyond:
        key, size = own.get(need.quota.id, ("", 0))
        if key and size <= (need.quota.default or 0):
            yield key


def update_note(needs: Sequence[QuotaNeed]) -> Iterator[str]:
    """Yield what an update may need for a while, where that is more than a project usually has."""
    beyond = [need for need in needs if need.beyond_default(times=2)]
    if beyond:
        amounts = ", ".join(f"{2 * need.amount:g} {need.quota.unit}" for need in beyond)
        yield (
            f"Cloud Run may count old and new revision together while it updates, here {amounts} (reported, not "
            "documented); refused, the old one goes on serving."
        )
