"""What Cloud Run refuses although the schema allows it: probe windows, GPU bounds, forbidden mounts, quotas.

Limits as documented for GPU services; where two pages contradict each other the stricter number stands.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from tests.fakes.google.wire import ErrorAnswer

# Smallest and largest CPU count and memory in GiB for each accelerator.
GPU_BOUNDS = {"nvidia-l4": ((4, 16), (8, 32)), "nvidia-rtx-pro-6000": ((20, 80), (44, 176))}
PROBE_PERIOD_MAX_S = 240
PROBE_DELAY_MAX_S = 240
WINDOW_MAX_S, GPU_WINDOW_MAX_S = 600, 1800
TIMEOUT_MAX_S = 3600
JOB_TIMEOUT_MAX_S = 168 * 3600
CONCURRENCY_MAX = 1000
FORBIDDEN_MOUNTS = ("/dev", "/proc", "/sys")


def check_service(body: dict[str, Any], gpu_quota: int | None) -> None:
    template = body.get("template") or _refuse("template", "must be set")
    accelerator = template.get("nodeSelector", {}).get("accelerator", "")
    if _seconds(template.get("timeout", "300s")) > TIMEOUT_MAX_S:
        _refuse("template.timeout", f"must be at most {TIMEOUT_MAX_S}s")
    if not 0 <= template.get("maxInstanceRequestConcurrency", 80) <= CONCURRENCY_MAX:
        _refuse("template.maxInstanceRequestConcurrency", f"must be between 0 and {CONCURRENCY_MAX}")
    containers = template.get("containers") or _refuse("template.containers", "must hold at least one container")
    for container in containers:
        _check_container(container)
        _check_startup(container.get("startupProbe") or {}, GPU_WINDOW_MAX_S if accelerator else WINDOW_MAX_S)
    _check_gpu(containers, accelerator)
    if accelerator and gpu_quota is not None:
        _check_quota(body, gpu_quota)
    _check_volumes(template, containers)


def check_job(body: dict[str, Any]) -> None:
    task = (body.get("template") or {}).get("template") or _refuse("template.template", "must be set")
    containers = task.get("containers") or _refuse("template.template.containers", "must hold at least one container")
    for container in containers:
        _check_container(container)
    if _seconds(task.get("timeout", "600s")) > JOB_TIMEOUT_MAX_S:
        _refuse("template.template.timeout", f"must be at most {JOB_TIMEOUT_MAX_S}s")
    _check_volumes(task, containers)


def _check_container(container: dict[str, Any]) -> None:
    if not container.get("image"):
        _refuse("containers.image", "must be set")
    names = [variable["name"] for variable in container.get("env", [])]
    if len(names) != len(set(names)):
        _refuse("containers.env", "holds a name twice")


def _check_startup(probe: dict[str, Any], window_max_s: int) -> None:
    period, timeout = probe.get("periodSeconds", 10), probe.get("timeoutSeconds", 1)
    if not 0 <= probe.get("initialDelaySeconds", 0) <= PROBE_DELAY_MAX_S:
        _refuse("startup_probe: initial_delay_seconds", f"must be a number between 0 and {PROBE_DELAY_MAX_S}")
    if not 0 <= period <= PROBE_PERIOD_MAX_S:
        _refuse("startup_probe: period_seconds", f"must be a number between 0 and {PROBE_PERIOD_MAX_S}")
    if timeout > period:
        _refuse("startup_probe: timeout_seconds", "must not be greater than period_seconds")
    if probe.get("failureThreshold", 3) * period > window_max_s:
        _refuse("startup_probe", f"failure_threshold x period_seconds must not exceed {window_max_s}")


def _check_gpu(containers: list[dict[str, Any]], accelerator: str) -> None:
    with_gpu = [one for one in containers if "nvidia.com/gpu" in one.get("resources", {}).get("limits", {})]
    if not with_gpu and not accelerator:
        return
    if len(with_gpu) != 1 or accelerator not in GPU_BOUNDS:
        _refuse("template.nodeSelector.accelerator", f"{accelerator!r} with a GPU on {len(with_gpu)} containers")
    limits = with_gpu[0]["resources"]["limits"]
    (cpu_min, gib_min), (cpu_max, gib_max) = GPU_BOUNDS[accelerator]
    cpu, gib = float(limits.get("cpu", "1")), _gib(limits.get("memory", "512Mi"))
    if with_gpu[0]["resources"].get("cpuIdle"):
        _refuse("resources.cpuIdle", "must be false: GPU services are billed by instance")
    if not (cpu_min <= cpu <= cpu_max and gib_min <= gib <= gib_max):
        _refuse("resources.limits", f"{accelerator} takes {cpu_min}-{cpu_max} CPU and {gib_min}-{gib_max} GiB")


def _check_quota(body: dict[str, Any], allowed: int) -> None:
    wanted = body["template"].get("scaling", {}).get("maxInstanceCount")
    wanted = wanted or body.get("scaling", {}).get("maxInstanceCount") or 100
    if wanted > allowed:
        raise ErrorAnswer(
            400,
            f"Max instances must be set to {allowed} or fewer in order to set GPU requirements. "
            f"Quota violated: NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion requested: {wanted} allowed: {allowed}",
        )


def _check_volumes(template: dict[str, Any], containers: list[dict[str, Any]]) -> None:
    volumes = {volume["name"] for volume in template.get("volumes", [])}
    for volume in template.get("volumes", []):
        for option in volume.get("gcs", {}).get("mountOptions", []):
            if option.startswith("-") or ";" in option:
                _refuse("volumes.gcs.mountOptions", f"{option!r} is not one flag without dashes")
    for mount in (mount for one in containers for mount in one.get("volumeMounts", [])):
        if mount["name"] not in volumes:
            _refuse("volumeMounts.name", f"{mount['name']!r} is not a volume")
        if any(mount["mountPath"] == top or mount["mountPath"].startswith(top + "/") for top in FORBIDDEN_MOUNTS):
            _refuse("volumeMounts.mountPath", f"{mount['mountPath']} is reserved")


def _seconds(duration: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?s", duration):
        _refuse("duration", f"{duration!r} is not of the form 90s")
    return float(duration[:-1])


def _gib(quantity: str) -> float:
    units = {"Ki": 2**-20, "Mi": 2**-10, "Gi": 1.0, "k": 1e3 / 2**30, "M": 1e6 / 2**30, "G": 1e9 / 2**30, "": 2.0**-30}
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", quantity)
    if not match or match[2] not in units:
        _refuse("resources.limits.memory", f"{quantity!r} is no quantity")
    return float(match[1]) * units[match[2]]


def _refuse(field: str, why: str) -> NoReturn:
    raise ErrorAnswer(400, f"Violation in {field}: {why}.")
