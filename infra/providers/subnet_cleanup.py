"""Deletes a subnetwork that Cloud Run still holds, where the gcp provider fails at once.

Its creation does nothing. Its deletion comes after that of everything in the subnetwork and before that of the subnetwork
itself: it asks for the subnetwork's deletion until Google carries it out. The gcp provider then finds it gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.subnets import remove_subnetwork
from infra.providers.base import DynamicResource, Provider, all_places, changed, fail, in_place, progress_on

_PLACE = ("project", "region", "name")
_LIMIT_S = 3 * 3600.0


@dataclass(frozen=True)
class SubnetCleanupArgs:
    """Which subnetwork. `service` is the Cloud Run service in it, empty where there is none.

    While the service exists the subnetwork cannot move. Its addresses are freed an hour or two after the service is gone.
    """

    project: str
    region: str
    name: str
    cidr: str
    service: str


class SubnetCleanup(DynamicResource):
    """What uses the subnetwork must depend on this, so that it is deleted first. `places`: wherever it has been."""

    places: pulumi.Output[list[dict[str, str]]]

    def __init__(self, name: str, args: SubnetCleanupArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(SubnetCleanupProvider(), name, args, opts)


class SubnetCleanupProvider(Provider):
    """Remembers where a subnetwork has been, and removes it there when it is deleted."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Remember the first place."""
        return CreateResult(props["name"], {**props, "places": all_places({}, props, _PLACE)})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Refuse to move a subnetwork that a service holds. Otherwise an update, never a replacement: see `all_places`."""
        moved = changed(olds, news, ("region", "cidr"))
        if moved and self._is_held(olds):
            settings = {"region": "region", "cidr": "network.subnetCidr"}
            stay = (
                f" or write region: {olds['region']}, since TPU slices may be elsewhere;" if "region" in moved else ""
            )
            fail(
                f"{' and '.join(settings[key] for key in moved)} cannot change while the service exists: Cloud Run holds "
                f"the subnet {olds['name']} ({olds['region']}, {olds['cidr']}) until an hour or two after the service is "
                f"gone. Undo the change;{stay} or run `pulumi destroy` first; or make another stack with it."
            )
        return in_place(changed(olds, news, (*_PLACE, "cidr", "service")))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Remember the new place and the old ones."""
        return UpdateResult({**news, "places": all_places(olds, news, _PLACE)})

    def _is_held(self, olds: Mapping[str, Any]) -> bool:
        """Return whether a service may hold the subnetwork: True also where Google does not answer."""
        if not olds.get("service"):
            return False
        path = f"projects/{olds['project']}/locations/{olds['region']}/services/{olds['service']}"
        try:
            self.session().get(Api.CLOUD_RUN, path)
        except GoogleError as error:
            return error.status != 404
        return True

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Remove the subnetwork from all places, waiting for hours if it must."""
        session, progress = self.session(), progress_on(props.get("urn"))
        try:
            for place in props["places"]:
                where = (place["project"], place["region"], place["name"])
                remove_subnetwork(session, *where, timeout_s=_LIMIT_S, progress=progress)
        except GoogleError as error:
            fail(str(error))
