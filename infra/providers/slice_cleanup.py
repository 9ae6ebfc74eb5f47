"""What stands before a slice is asked for, and takes away whatever was left behind of it.

A process that is killed while Google takes the request, or a refusal after a lost answer, leaves a slice that no state
knows and somebody pays for. This resource is in the state before the request goes out. Created it does nothing; deleted,
after the slice's own entry, it removes what still stands under the name, if it is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import GoogleError
from infra.google.slice_records import remove_leftovers
from infra.providers.base import DynamicResource, Provider, changed, fail, in_place, progress_on, remembered

_PLACE = ("project", "zone", "queued_id")


@dataclass(frozen=True)
class SliceCleanupArgs:
    """Which queued resource, and the labels by which ours is known."""

    project: str
    zone: str
    queued_id: str
    labels: Mapping[str, str]


class SliceCleanup(DynamicResource):
    """A slice's queue entry must depend on this, so that it goes first. `places`: wherever the slice was asked for."""

    places: pulumi.Output[list[dict[str, str]]]

    def __init__(self, name: str, args: SliceCleanupArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(SliceCleanupProvider(), name, args, opts)


class SliceCleanupProvider(Provider):
    """Waits at the end of a slice's life."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Nothing to do yet."""
        return CreateResult(props["queued_id"], {**props, "places": remembered({}, props, _PLACE)})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """A slice that moves leaves a place to look at; never a replacement, see `remembered`."""
        return in_place(changed(olds, news, _PLACE))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Remember the new place beside the old ones."""
        return UpdateResult({**news, "places": remembered(olds, news, _PLACE)})

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Remove what is left, wherever the slice was asked for; mostly there is nothing."""
        try:
            remove_leftovers(self.session(), props["places"], props["labels"], progress_on(props.get("urn")))
        except GoogleError as error:
            fail(str(error))
