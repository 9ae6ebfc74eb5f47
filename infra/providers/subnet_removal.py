"""The patience that the gcp provider lacks: it gives up at once on a subnetwork that is still in use.

Created it does nothing. Deleted, before the subnetwork that it depends on and after whatever used that, it asks for
the subnetwork's deletion until Google agrees; the provider then finds it gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource

from infra.errors import GoogleError
from infra.google.subnets import remove_subnetwork
from infra.providers.base import Provider, changed, fail, progress_on, urn_under

KIND = "SubnetRemoval"
_INPUTS = ("project", "region", "name")
_LIMIT_S = 3 * 3600.0


@dataclass(frozen=True)
class SubnetRemovalInputs:
    """Which subnetwork. One that is `held` by Cloud Run cannot move while the service lives: its addresses are let go of an
    hour or two after the service that used them."""

    project: str
    region: str
    name: str
    cidr: str
    held: bool


class SubnetRemoval(Resource, module="gemma4", name=KIND):
    """What uses the subnetwork must depend on this, so that it goes first."""

    def __init__(self, name: str, args: SubnetRemovalInputs, opts: pulumi.ResourceOptions) -> None:
        urn = None if opts.parent is None else urn_under(opts.parent, KIND, name)
        super().__init__(SubnetRemovalProvider(), name, {**vars(args), "urn": urn}, opts)


class SubnetRemovalProvider(Provider):
    """Waits at the end of a subnetwork's life."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Nothing to do yet."""
        return CreateResult(f"{props['region']}/{props['name']}", props)

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Another subnetwork is another removal; one under Cloud Run stays where it is."""
        moved = changed(olds, news, ("region", "cidr"))
        if moved and olds.get("held"):
            settings = {"region": "region", "cidr": "network.subnetCidr"}
            fail(
                f"{' and '.join(settings[key] for key in moved)} cannot change while the stack lives: Cloud Run holds the "
                f"subnet {olds['name']} ({olds['region']}, {olds['cidr']}) until an hour or two after its service is gone. "
                "Undo the change; or run `pulumi destroy` first; or make another stack with it."
            )
        keys = changed(olds, news, _INPUTS)
        return DiffResult(changes=bool(keys), replaces=keys)

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Remove the subnetwork, however long something holds on to it."""
        try:
            remove_subnetwork(
                self.session(),
                props["project"],
                props["region"],
                props["name"],
                timeout_s=_LIMIT_S,
                progress=progress_on(props.get("urn")),
            )
        except GoogleError as error:
            fail(str(error))
