"""What a change does to what is already running, as far as it is known from the inputs of two plans' resources.

Knowledge of Pulumi's providers stands in four tables: which inputs a resource cannot change in place (`_REPLACES`), and what
a replacement, an update and a deletion mean to those who use the stack. Where nothing is known, nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from infra.planning.report.change import Json, differing
from infra.planning.report.properties import properties
from infra.planning.units import Band, read_duration, read_minutes, read_predicted

_SLICE = "pulumi-python:dynamic/gemma4:TpuQueuedResource"
_GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
_PLACE = ("location", "region", "zone", "project")
_REPLACES: Mapping[str, tuple[str, ...]] = {
    "gcp:cloudrunv2/service:Service": ("name", *_PLACE),
    "gcp:cloudrunv2/job:Job": ("name", *_PLACE),
    "gcp:storage/bucket:Bucket": ("name", *_PLACE),
    "gcp:artifactregistry/repository:Repository": ("repositoryId", *_PLACE),
    "gcp:compute/network:Network": ("name", *_PLACE),
    "gcp:compute/subnetwork:Subnetwork": ("name", "network", *_PLACE),
    "gcp:serviceaccount/account:Account": ("accountId", *_PLACE),
    _GROUP: ("name", "distributionPolicyZones", *_PLACE),
    _SLICE: (
        "project",
        "zone",
        "queued_id",
        "accelerator_type",
        "runtime_version",
        "network",
        "subnetwork",
        "service_account",
        "provisioning",
        "max_run_duration_s",
    ),
}
"""By type, the inputs whose change replaces the resource."""


def effects_on_running(before: Json, after: Json) -> Iterator[str]:
    """Yield one sentence for each thing that happens to a running stack; none where the resources cannot be compared."""
    if after["verdict"] == "refused":
        yield "Refused: `pulumi up` stops before it touches anything, so what runs goes on as it is."
        return
    if any(plan.get("resources") is None or plan.get("resourcesMissing") for plan in (before, after)):
        return
    old, new = ({(row["type"], row["name"]): row for row in plan["resources"]} for plan in (before, after))
    for (kind, name), row in new.items():
        changed = _changed(old[kind, name], row) if (kind, name) in old else []
        fixed = ", ".join(path for path in changed if path.partition(".")[0] in _REPLACES.get(kind, ()))
        if fixed and kind in (_SLICE, _GROUP):
            yield (_slice_replaced if kind == _SLICE else _machine_replaced)(name, fixed, after)
        elif fixed:
            sentence = _REPLACED.get(kind, "{name} is replaced: {fixed} cannot change in place.")
            yield sentence.format(name=name, fixed=fixed)
        elif changed and kind in _UPDATED:
            yield from _UPDATED[kind](changed, row, before, after)
    for kind, name in (key for key in old if key not in new):
        if kind in _DELETED:
            yield _DELETED[kind].format(name=name)


def _changed(before: Json, after: Json) -> list[str]:
    """Return the paths of the inputs that differ; none where one side holds no inputs, as plans of an earlier version."""
    if not ("inputs" in before and "inputs" in after):
        return []
    old, new = (dict(properties(row["inputs"] or {})) for row in (before, after))
    return sorted(differing(old, new))


_REPLACED: Mapping[str, str] = {
    "gcp:cloudrunv2/service:Service": "{name} is deleted and made anew ({fixed} cannot change in place): an outage until the "
    "new one is ready, and another URL unless only the name stays.",
    "gcp:storage/bucket:Bucket": "{name} is replaced ({fixed} cannot change in place): the weights are copied anew into "
    "another bucket.",
}


def _slice_replaced(name: str, fixed: str, after: Json) -> str:
    start = _predicted(after, "fromZeroS")
    lasts = f" and {start} to start" if start else ""
    return (
        f"{name}: another slice is asked for ({fixed}), and takes the wait in the queue{lasts}; the one that serves is given "
        "back when the other has passed its check, and both are paid for until then."
    )


def _machine_replaced(name: str, fixed: str, after: Json) -> str:
    start = _predicted(after, "fromZeroS")
    lasts = f", {start} after it was had" if start else ""
    return (
        f"{name}: the machine is deleted before another one is asked for ({fixed} cannot change in place): an outage until "
        f"that one serves{lasts}. With another name in machine.names in the same change, the new machine serves before this "
        "one goes."
    )


def _service_updated(changed: list[str], row: Json, _before: Json, after: Json) -> Iterator[str]:
    if not any(path.startswith("template.") for path in changed):
        yield f"{row['name']} is changed in place, without a new revision."
        return
    start = "" if after.get("slices") else _predicted(after, "fromZeroS")
    lasts = f", {start} from zero" if start else ""
    yield f"{row['name']} gets a new revision{lasts}; the old one answers until the new one is ready."


def _spec_updated(changed: list[str], row: Json, before: Json, after: Json) -> Iterator[str]:
    if "zone" in changed or "project" in changed:
        return  # the slice itself is another one
    if not any(path.startswith("metadata.gemma4-spec") for path in changed):
        yield f"{row['name']}: attributes of the machine are written in place; what it serves stays."
        return
    restart = _predicted(after, "restartS")
    lasts = f", {restart}" if restart else ""
    inside = (after.get("access") or {}).get("ingress") == "internal"
    if after.get("machines"):
        yield _servers_restarted(row["name"], lasts, before, after, inside=inside)
        return
    alone = min(len((plan.get("slices") or {}).get("names") or ()) for plan in (before, after)) < 2
    meanwhile = (
        "an outage, since no other slice answers meanwhile"
        if alone
        else "an outage, since no slice waits for another one that cannot be checked from outside"
        if inside
        else "the other slices answer meanwhile"
    )
    yield f"{row['name']}: the server on the slice starts anew in place{lasts}: {meanwhile}."


def _servers_restarted(name: str, lasts: str, before: Json, after: Json, *, inside: bool) -> str:
    each = [plan.get("machines") or {} for plan in (before, after)]
    names, servers = (min(len(one.get(key) or ()) for one in each) for key in ("names", "servers"))
    if servers > 1:
        in_turn = f"start anew in place, one after the other{lasts} each"
        return f"{name}: the machine's servers {in_turn}: the others answer meanwhile."
    meanwhile = (
        "an outage, since no other one answers then"
        if names < 2
        else "an outage, since no machine waits for another one that cannot be checked from outside"
        if inside
        else "the other machines answer meanwhile"
    )
    return f"{name}: the server on the machine starts anew in place{lasts}: {meanwhile}."


def _copy_updated(changed: list[str], row: Json, _before: Json, after: Json) -> Iterator[str]:
    if not {"bucket", "prefix"} & {*changed}:
        yield f"{row['name']}: the staging job runs again and copies only what is missing."
        return
    sizes = {one.get("hubId"): one.get("bytes") for one in (after.get("model") or {}).get("weights") or ()}
    size = sizes.get(row["inputs"].get("repository"))
    much = f" ({size / 1e9:.0f} GB)" if size else ""
    yield f"{row['name']}: the weights are copied into another folder{much}; the old copy stays in the bucket and is paid for."


_UPDATED: Mapping[str, Callable[[list[str], Json, Json, Json], Iterator[str]]] = {
    "gcp:cloudrunv2/service:Service": _service_updated,
    "pulumi-python:dynamic/gemma4:ServingSpec": _spec_updated,
    "pulumi-python:dynamic/gemma4:WeightsCopy": _copy_updated,
}

_DELETED: Mapping[str, str] = {
    "gcp:cloudrunv2/service:Service": "{name} is deleted: its URL answers no more.",
    "gcp:storage/bucket:Bucket": "{name} is deleted with the weights in it.",
    _SLICE: "{name} is deleted: the slice is given back.",
    _GROUP: "{name} is deleted with its machine.",
}


def _predicted(plan: Json, key: str) -> str:
    """Return a time of the start with its band; empty where a saved plan has none."""
    band = (plan.get("startup") or {}).get(key) or {}
    try:
        return read_predicted(Band(**band), read_duration, ends=read_minutes)
    except (TypeError, ValueError):  # of a file that somebody wrote
        return ""
