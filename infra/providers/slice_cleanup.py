"""Removes a slice that no state knows, when its stack is destroyed.

A process that is killed while Google accepts the request, or a refusal after a lost answer, leaves a slice that no state
knows and somebody pays for. This resource is in the state before the request is sent. Its creation does nothing. Its
deletion, after that of the queued resource, removes what still exists under the name, if this stack owns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import GoogleError
from infra.google.slice_records import remove_leftovers
from infra.providers.base import DynamicResource, Provider, all_places, changed, fail, in_place, progress_on

_PLACE = ("project", "zone", "queued_id")


@dataclass(frozen=True)
class SliceCleanupArgs:
    """Which queued resource, and the labels by which an owned one is recognised."""

    project: str
    zone: str
    queued_id: str
    labels: Mapping[str, str]


class SliceCleanup(DynamicResource):
    """The slice's queued resource must depend on this, so that it is deleted first. `places`: wherever it was asked for."""

    places: pulumi.Output[list[dict[str, str]]]

    def __init__(self, name: str, args: SliceCleanupArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(SliceCleanupProvider(), name, args, opts)


class SliceCleanupProvider(Provider):
    """Remembers where a slice was asked for, and cleans up there when it is deleted."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Remember the first place."""
        return CreateResult(props["queued_id"], {**props, "places": all_places({}, props, _PLACE)})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return an update where the slice moves, never a replacement: see `all_places`."""
        return in_place(changed(olds, news, _PLACE))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Remember the new place and the old ones."""
        return UpdateResult({**news, "places": all_places(olds, news, _PLACE)})

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Remove what is left at all places; mostly there is nothing."""
        try:
            remove_leftovers(self.session(), props["places"], props["labels"], progress_on(props.get("urn")))
        except GoogleError as error:
            fail(str(error))
