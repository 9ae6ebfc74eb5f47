"""Machines of Compute Engine in one zone, and a managed group's in a region: what there is of them, and their metadata.

A machine's metadata are changed in place, with the fingerprint of what was read. A member of a managed group has them twice:
on the machine, and in the group's configuration of that member, from which the group makes it anew after a failure.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Self

from infra.errors import GoogleError
from infra.google.api_errors import ApiCall, error_from_operation
from infra.google.compute_types import ComputeInstance, ComputeOperation, GroupMember
from infra.google.gcp_settings import Api
from infra.google.metadata_change import change_metadata
from infra.google.session import GoogleSession
from infra.planning.names import region_of

POLL_S = 2.0
_OPERATION_S = 300.0


class MachineGroup:
    """A regional managed group of machines. `project` is the session's unless it is given."""

    def __init__(self, session: GoogleSession, region: str, group: str, *, project: str = "") -> None:
        self.session, self.region, self.group = session, region, group
        self._path = f"projects/{project or session.project}/regions/{region}/instanceGroupManagers/{group}"

    def member(self, name: str) -> GroupMember | None:
        """Return what the group says of a machine; None where it has none of that name, or where there is no group."""
        try:
            answer = self.session.post(Api.COMPUTE, f"{self._path}/listManagedInstances", {}, repeatable=True)
        except GoogleError as error:
            if error.status == 404:
                return None
            raise
        members = (GroupMember.of(raw) for raw in answer.get("managedInstances", ()))
        return next((one for one in members if one.name == name), None)

    def set_metadata(self, name: str, changes: Mapping[str, str]) -> None:
        """Change attributes in the group's configuration of a machine: with them it is made anew. Raises GoogleError."""
        config = {"name": name, "preservedState": {"metadata": dict(changes)}}
        raw = self.session.post(
            Api.COMPUTE,
            f"{self._path}/patchPerInstanceConfigs",
            {"perInstanceConfigs": [config]},
            request_id=str(uuid.uuid4()),
        )
        finished(self.session, ComputeOperation.of(raw), f"the change of {name} in its group")


class ComputeZone:
    """One project's machines in one zone. `group` is the managed group to which those that are asked about belong, if any."""

    def __init__(self, session: GoogleSession, zone: str, *, project: str = "", group: str = "") -> None:
        self.session, self.zone = session, zone
        project = project or session.project
        self._instances = f"projects/{project}/zones/{zone}/instances"
        self._group = MachineGroup(session, region_of(zone), group, project=project) if group else None

    @classmethod
    def at(cls, session: GoogleSession, place: Mapping[str, Any]) -> Self:
        """Return the zone where a machine is, by its own `project`, `zone` and `group` and not by the present settings."""
        return cls(session, place["zone"], project=place["project"], group=place.get("group") or "")

    def instance(self, name: str) -> ComputeInstance | None:
        """Return a machine; None only where Google answers 404."""
        try:
            return ComputeInstance.of(self.session.get(Api.COMPUTE, f"{self._instances}/{name}"))
        except GoogleError as error:
            if error.status == 404:
                return None
            raise

    def is_up(self, name: str) -> bool:
        """Return whether a machine is there and runs."""
        found = self.instance(name)
        return found is not None and found.running

    def metadata_of(self, name: str) -> Mapping[str, str] | None:
        """Return the attributes of a machine by name; None where there is no machine."""
        found = self.instance(name)
        return None if found is None else found.metadata

    def set_metadata(self, name: str, changes: Mapping[str, str | None], *, timeout_s: float = _OPERATION_S) -> None:
        """Change some attributes of a machine (None removes one), and leave all others alone.

        In its group's configuration too, where one was given: nothing is removed there.
        """
        if self._group is not None:
            self._group.set_metadata(name, {key: value for key, value in changes.items() if value is not None})

        def read() -> ComputeInstance:
            found = self.instance(name)
            if found is None:
                raise GoogleError(
                    f"The machine {name} in {self.zone} is gone, so its settings cannot change; `pulumi up` asks for another.",
                    status=404,
                    reason="NOT_FOUND",
                )
            return found

        def write(found: ComputeInstance, merged: Mapping[str, str]) -> None:
            items = [{"key": key, "value": value} for key, value in sorted(merged.items())]
            body = {"fingerprint": found.fingerprint, "items": items}
            raw = self.session.post(Api.COMPUTE, f"{self._instances}/{name}/setMetadata", body)
            finished(self.session, ComputeOperation.of(raw), f"the change of {name}", timeout_s=timeout_s)

        change_metadata(self.session, changes, read=read, write=write, whose=name)

    def guest_attributes(self, name: str, namespace: str) -> Mapping[str, str]:
        """Return what a machine has published below a namespace, by key; empty where it has published nothing."""
        try:
            path = f"{self._instances}/{name}/getGuestAttributes"
            answer = self.session.get(Api.COMPUTE, path, queryPath=f"{namespace}/")
        except GoogleError as error:
            if error.status == 404:
                return {}
            raise
        return {one["key"]: one.get("value", "") for one in answer.get("queryValue", {}).get("items", ())}


def finished(
    session: GoogleSession, operation: ComputeOperation, what: str, *, timeout_s: float = _OPERATION_S
) -> None:
    """Wait until an operation is done. Raises GoogleError when it failed or takes longer than `timeout_s`."""
    deadline = session.clock() + timeout_s
    while not operation.done:
        if session.clock() + POLL_S > deadline:
            raise GoogleError(
                f"{what} has not ended within {timeout_s:.0f} s; run the command again to go on waiting.",
                reason="STILL_RUNNING",
            )
        session.sleep(POLL_S)
        operation = ComputeOperation.of(session.get(Api.COMPUTE, operation.path))
    if operation.failure:
        raise error_from_operation(operation.failure, ApiCall(what, Api.COMPUTE.service, session.project))
