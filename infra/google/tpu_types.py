"""The TPU API's queued resources, nodes and operations as typed values, and the body of the request for a slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from infra.google.refusals import Refusal, refusal_of

RUNTIME_VERSION = "v2-alpha-tpuv6e"  # Ubuntu with Docker, per the TPU runtime page
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


class QueueState(StrEnum):
    """States of a queued resource. Newer servers write WAITING_FOR_RESOURCES for what was ACCEPTED."""

    CREATING = "CREATING"
    ACCEPTED = "ACCEPTED"
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"
    PROVISIONING = "PROVISIONING"
    ACTIVE = "ACTIVE"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    FAILED = "FAILED"
    DELETING = "DELETING"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def _missing_(cls, value: object) -> QueueState:
        return cls.UNKNOWN

    @property
    def waits(self) -> bool:
        """True while the request is in the queue: no machine has been given for it."""
        return self in (QueueState.CREATING, QueueState.ACCEPTED, QueueState.WAITING_FOR_RESOURCES)

    @property
    def over(self) -> bool:
        """True once the request has ended or is about to end: it will not serve again."""
        return self.ended or self in (QueueState.SUSPENDING, QueueState.DELETING)

    @property
    def ended(self) -> bool:
        """True for an ended request: it will never serve again, and holds quota until it is deleted."""
        return self in (QueueState.FAILED, QueueState.SUSPENDED)


class Provisioning(StrEnum):
    FLEX_START = "flex-start"
    SPOT = "spot"
    ON_DEMAND = "on-demand"


# What `gcloud alpha` sends for each. Spot needs the tier and the model: with the model STANDARD, which gcloud once sent,
# the tier was refused ("STANDARD provisioning model is incompatible with spot requests").
PROVISIONING_FIELDS: Mapping[Provisioning, Mapping[str, Any]] = {
    Provisioning.FLEX_START: {"provisioningModel": "FLEX_START"},
    Provisioning.SPOT: {"spot": {}, "provisioningModel": "SPOT"},
    Provisioning.ON_DEMAND: {"provisioningModel": "STANDARD"},
}


@dataclass(frozen=True)
class SliceRequest:
    """A request for a queued resource. Network names are full (`projects/P/global/networks/N`)."""

    project: str
    zone: str
    node_id: str
    accelerator_type: str
    network: str
    subnetwork: str
    service_account: str
    valid_until_duration_s: int
    max_run_duration_s: int | None  # None: until it is deleted; flex-start needs a limit
    provisioning: Provisioning = Provisioning.FLEX_START
    runtime_version: str = RUNTIME_VERSION
    metadata: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: Sequence[str] = ()


def queued_resource_body(request: SliceRequest) -> dict[str, Any]:
    """Return the body of the create request: a node without external address, with the cloud-platform scope."""
    node = {
        "acceleratorType": request.accelerator_type,
        "runtimeVersion": request.runtime_version,
        "networkConfig": {
            "network": request.network,
            "subnetwork": request.subnetwork,
            "enableExternalIps": False,
        },
        "serviceAccount": {"email": request.service_account, "scope": [CLOUD_PLATFORM]},
        "metadata": dict(request.metadata),
        "labels": dict(request.labels),
        "tags": list(request.tags),
        "shieldedInstanceConfig": {"enableSecureBoot": False},
    }
    parent = f"projects/{request.project}/locations/{request.zone}"
    body: dict[str, Any] = {"tpu": {"nodeSpec": [{"parent": parent, "nodeId": request.node_id, "node": node}]}}
    body |= PROVISIONING_FIELDS[request.provisioning]
    if request.max_run_duration_s is not None:
        body["runDuration"] = {"maxRunDuration": f"{request.max_run_duration_s}s"}
    return body | {"queueingPolicy": {"validUntilDuration": f"{request.valid_until_duration_s}s"}}


@dataclass(frozen=True)
class Operation:
    """A long-running operation. `failure` is its `google.rpc.Status`, empty where it has not failed."""

    name: str
    done: bool
    verb: str
    target: str
    failure: Mapping[str, Any]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Operation:
        metadata = raw.get("metadata", {})
        return cls(
            name=raw.get("name", ""),
            done=bool(raw.get("done")),
            verb=metadata.get("verb", ""),
            target=metadata.get("target", "").rsplit("/", 1)[-1],
            failure=raw.get("error") or {},
        )


@dataclass(frozen=True)
class QueuedResource:
    """A queued resource as Google records it. `create_time` (RFC 3339) is new for each generation of a name.

    `refusal` says why it FAILED, `labels` who owns it, `policy` (queueingPolicy) how long it may wait. `node` is the node
    as it was asked for.
    """

    id: str
    zone: str
    state: QueueState
    create_time: str
    node_id: str
    refusal: Refusal
    provisioning: Provisioning
    max_run_duration: str
    policy: Mapping[str, Any]
    node: Mapping[str, Any]

    @property
    def error(self) -> str:
        """Google's message for why it FAILED; empty where it has not."""
        return self.refusal.message

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.node.get("labels", {})
        return labels

    @property
    def accelerator_type(self) -> str:
        return str(self.node.get("acceleratorType", ""))

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> QueuedResource:
        state = raw.get("state", {})
        spec: Mapping[str, Any] = next(iter(raw.get("tpu", {}).get("nodeSpec", ())), {})
        parts = raw["name"].split("/")
        return cls(
            id=parts[-1],
            zone=parts[3],
            state=QueueState(state.get("state", "")),
            create_time=raw.get("createTime", ""),
            node_id=spec.get("nodeId", ""),
            refusal=refusal_of(state.get("failedData", {}).get("error") or {}),
            provisioning=_provisioning(raw),
            max_run_duration=raw.get("runDuration", {}).get("maxRunDuration", ""),
            policy=raw.get("queueingPolicy") or {},
            node=spec.get("node", {}),
        )


@dataclass(frozen=True)
class QueuedListing:
    """Queued resources of a zone. `unreachable` names the places whose queued resources are unknown."""

    found: tuple[QueuedResource, ...]
    unreachable: tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """A TPU machine. `address` is the internal one of worker 0, empty until it has one; `id` is the machine's number.

    `terminates` (RFC 3339) is when Google ends it, empty where Google does not say.
    """

    name: str
    id: str
    state: str
    address: str
    create_time: str
    terminates: str
    health: str
    problem: str
    maintenance: str
    metadata: Mapping[str, str]
    labels: Mapping[str, str]

    @property
    def ready(self) -> bool:
        """True while the machine runs, whether or not a server runs on it."""
        return self.state == "READY"

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Node:
        endpoint: Mapping[str, Any] = next(iter(raw.get("networkEndpoints", ())), {})
        symptoms = [f"{one.get('symptomType')}: {one.get('details', '')}" for one in raw.get("symptoms", ())]
        return cls(
            name=raw["name"].rsplit("/", 1)[-1],
            id=raw.get("id", ""),
            state=raw.get("state", ""),
            address=endpoint.get("ipAddress", ""),
            create_time=raw.get("createTime", ""),
            terminates=raw.get("schedulingConfig", {}).get("terminationTimestamp", ""),
            health=raw.get("health", ""),
            problem="; ".join(filter(None, [raw.get("healthDescription", ""), *symptoms])),
            maintenance=raw.get("upcomingMaintenance", {}).get("windowStartTime", ""),
            metadata=raw.get("metadata", {}),
            labels=raw.get("labels", {}),
        )


def _provisioning(raw: Mapping[str, Any]) -> Provisioning:
    """Return how a queued resource was asked for. Without model, tier and run duration it is on demand."""
    model = raw.get("provisioningModel")
    if model == "SPOT" or "spot" in raw:
        return Provisioning.SPOT
    if model == "FLEX_START" or (model != "STANDARD" and "runDuration" in raw):
        return Provisioning.FLEX_START
    return Provisioning.ON_DEMAND
