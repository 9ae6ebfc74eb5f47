"""Compute Engine's instances, members of managed groups and operations as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ComputeInstance:
    """A machine of Compute Engine. `address` is the internal one; `id` is the machine's number, new for each creation.

    `terminates` (RFC 3339) is when Google ends it, empty where Google does not say; `fingerprint` is that of the metadata.
    """

    name: str
    id: str
    zone: str
    status: str
    """PENDING while a flex-start request waits, PROVISIONING, STAGING, RUNNING, STOPPING, TERMINATED …"""
    why: str
    """Google's words about that state, mostly none."""
    address: str
    create_time: str
    terminates: str
    machine_type: str
    provisioning: str
    max_run_duration_s: int | None
    metadata: Mapping[str, str]
    fingerprint: str
    labels: Mapping[str, str]

    @property
    def running(self) -> bool:
        """True while the machine runs, whether or not a server runs on it."""
        return self.status == "RUNNING"

    @property
    def waits(self) -> bool:
        """True while it waits for capacity."""
        return self.status == "PENDING"

    @property
    def over(self) -> bool:
        """True once it has ended or is about to end."""
        return self.status in ("STOPPING", "STOPPED", "SUSPENDING", "SUSPENDED", "TERMINATED")

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> ComputeInstance:
        interface: Mapping[str, Any] = next(iter(raw.get("networkInterfaces", ())), {})
        scheduling, metadata = raw.get("scheduling", {}), raw.get("metadata", {})
        seconds = scheduling.get("maxRunDuration", {}).get("seconds")
        status = raw.get("resourceStatus", {}).get("scheduling", {})
        return cls(
            name=raw["name"],
            id=str(raw.get("id", "")),
            zone=last_part(raw.get("zone", "")),
            status=raw.get("status", ""),
            why=raw.get("statusMessage", ""),
            address=interface.get("networkIP", ""),
            create_time=raw.get("creationTimestamp", ""),
            terminates=status.get("terminationTimestamp") or scheduling.get("terminationTime", ""),
            machine_type=last_part(raw.get("machineType", "")),
            provisioning=scheduling.get("provisioningModel", ""),
            max_run_duration_s=None if seconds is None else int(seconds),
            metadata={one["key"]: one.get("value", "") for one in metadata.get("items", ())},
            fingerprint=metadata.get("fingerprint", ""),
            labels=raw.get("labels", {}),
        )


@dataclass(frozen=True)
class GroupMember:
    """What a managed group says of one of its machines. It may name a `zone` before there is a machine."""

    name: str
    zone: str
    status: str
    """Of the machine; blank while there is none."""
    action: str
    """What the group does about it: NONE, CREATING, RECREATING, DELETING, VERIFYING …"""
    health: str
    """What its health check says: HEALTHY, UNHEALTHY, DRAINING, TIMEOUT, UNKNOWN; blank where it says nothing yet."""
    error: str
    """Why the last attempt to make it failed, by its code and Google's words."""
    metadata: Mapping[str, str]
    """Of the group's configuration of this member: the attributes with which the machine is made."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> GroupMember:
        link = str(raw.get("instance", ""))
        errors = raw.get("lastAttempt", {}).get("errors", {}).get("errors", ())
        health: Mapping[str, Any] = next(iter(raw.get("instanceHealth", ())), {})
        return cls(
            name=str(raw.get("name") or last_part(link)),
            zone=link.partition("/zones/")[2].partition("/")[0],
            status=str(raw.get("instanceStatus", "")),
            action=str(raw.get("currentAction", "")),
            health=str(health.get("detailedHealthState", "")),
            error="; ".join(in_words(error) for error in errors),
            metadata=raw.get("preservedStateFromConfig", {}).get("metadata", {}),
        )


@dataclass(frozen=True)
class ComputeOperation:
    """A change that Compute Engine carries out. `path` is its resource name below `projects/`."""

    path: str
    done: bool
    failure: Mapping[str, Any] | None
    """A `google.rpc.Status` of the first error, whose message begins with the error's code."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> ComputeOperation:
        errors = raw.get("error", {}).get("errors", ())
        link = str(raw.get("selfLink", ""))
        failure = {"message": in_words(errors[0])} if errors else None
        return cls(link[link.find("projects/") :], raw.get("status") == "DONE", failure)


def in_words(error: Mapping[str, Any]) -> str:
    """Return an error of an operation as `CODE: message`: the code tells what the message may leave out."""
    return ": ".join(filter(None, (str(error.get("code", "")), " ".join(str(error.get("message", "")).split()))))


def last_part(link: str) -> str:
    """Return the short name of a resource that is named by a link."""
    return link.rsplit("/", 1)[-1]
