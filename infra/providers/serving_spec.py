"""The desired spec of a machine, written as metadata attributes of it: it changes in place, and the machine stays.

A machine is a TPU node, or one of Compute Engine, where a managed group keeps a second copy for the case of a repair.

Only this stack's attributes are written and compared; ssh keys and all other attributes are left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, UpdateResult

from infra.errors import GoogleError
from infra.google.compute_zone import ComputeZone
from infra.google.tpu_zone import TpuZone
from infra.planning.gateway.members import DRAIN
from infra.providers.base import DynamicResource, Provider, changed, fail, in_place, warning_on

_INPUTS = ("project", "zone", "node_id", "instance", "metadata", "product", "group")
_NOWHERE = ""
"""Digest of a machine that has not been told: it waits for capacity, or was drained and stays after all."""
COMPUTE, TPU = "compute", "tpu"


@dataclass(frozen=True)
class ServingSpecArgs:
    """`instance` is the machine's number, blank while there is none; `metadata` holds this stack's attributes.

    `product` says whose machine it is, COMPUTE or TPU; `group` is its managed group's name where it has one.
    """

    project: pulumi.Input[str]
    zone: pulumi.Input[str]
    node_id: pulumi.Input[str]
    instance: pulumi.Input[str]
    metadata: Mapping[str, pulumi.Input[str]]
    product: str = TPU
    group: str = ""


class ServingSpec(DynamicResource):
    """`applied` is the digest of the attributes on the machine; blank while there is no machine. `previous` holds the values
    that the last change replaced, for who wants to go back to them."""

    applied: pulumi.Output[str]
    previous: pulumi.Output[Mapping[str, str]]

    def __init__(self, name: str, args: ServingSpecArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(ServingSpecProvider(), name, args, opts)


class ServingSpecProvider(Provider):
    """Writes this stack's attributes and waits until the machine shows them."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Write the attributes. A new machine was queued with the same values, so nothing changes on it."""
        return CreateResult(f"{props['node_id']}/spec", {**self._applied(props), "previous": {}})

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Write what changed; the machine's supervisor acts on it within seconds."""
        replaced = self._replaced(news)
        return UpdateResult({**self._applied(news), "previous": replaced or dict(olds.get("previous") or {})})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return an update for other inputs, for a new machine, and for one whose attributes differ."""
        keys = changed(olds, news, _INPUTS)
        if not keys and news["instance"] and olds.get("applied") != _digest(news["metadata"]):
            keys = ["applied"]
        return in_place(keys)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the digest of the attributes that are on the machine now."""
        try:
            there = self._zone(props).metadata_of(props["node_id"]) if props["zone"] else None
        except GoogleError:
            return ReadResult(id_, props)  # the machine's own resource gets the same error and reports it
        if there is None:
            return ReadResult(id_, {**props, "applied": _NOWHERE})
        if DRAIN in there:
            return ReadResult(
                id_, {**props, "applied": _NOWHERE}
            )  # somebody wanted to delete it, and it stays after all
        written = {key: there.get(key, "") for key in props["metadata"]}
        return ReadResult(id_, {**props, "applied": _digest(written)})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Do nothing: the attributes are deleted with the machine."""

    def _applied(self, props: Mapping[str, Any]) -> dict[str, Any]:
        if not props["instance"]:
            if props.get("product") != COMPUTE:  # a group is told meanwhile what its machine is to start with
                warning_on(props.get("urn"))(
                    f"{props['node_id']} waits for capacity and will start with the spec that it was asked for with; "
                    "the next `pulumi up` after that brings it up to date."
                )
            return {**props, "applied": _NOWHERE}
        try:
            self._zone(props).set_metadata(props["node_id"], {**props["metadata"], DRAIN: None})
        except GoogleError as error:
            fail(str(error))
        return {**props, "applied": _digest(props["metadata"])}

    def _replaced(self, news: Mapping[str, Any]) -> dict[str, str]:
        """Return the attributes on the machine that this change replaces; nothing where the machine cannot be asked."""
        try:
            there = (self._zone(news).metadata_of(news["node_id"]) if news["instance"] else None) or {}
        except GoogleError:
            return {}  # writing them gets the same error and reports it
        return {key: there[key] for key, value in news["metadata"].items() if there.get(key, value) != value}

    def _zone(self, props: Mapping[str, Any]) -> ComputeZone | TpuZone:
        zone = ComputeZone if props.get("product") == COMPUTE else TpuZone
        return zone.at(self.session(), props)


def _digest(metadata: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode()).hexdigest()[:16]
