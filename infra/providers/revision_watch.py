"""Follows the revision that an `up` makes, on a row of its own beside the service's.

The gcp provider waits for a new revision without a word, up to the whole start window, and a failure of its own names no
cause. This resource stands beside the service, not behind it: it depends on what the service depends on, recognises the
revision by the mark that both were given, shows what the server is busy with, and ends with the server's own last words
where the revision fails. It asks Google only in `create` and `update`, nothing of the server, and nothing on a refresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.errors import ServingError
from infra.providers.base import DynamicResource, Provider, changed, fail, in_place, progress_on, warning_on
from infra.providers.revision_wait import Awaited, follow

MARK = "gemma4-revision"
"""The annotation that names a revision by what was asked of it."""
_TRIGGERS = ("project", "region", "service", "mark")


@dataclass(frozen=True)
class RevisionWatchArgs:
    """Which service's revision; `mark` is the value of its annotation `MARK`, `limit_s` Pulumi's patience with the
    service."""

    project: str
    region: str
    service: str
    mark: pulumi.Input[str]
    limit_s: float


class RevisionWatch(DynamicResource):
    """A revision that was seen to become ready. Nothing depends on it. `revision` is its name; empty where it was not seen."""

    revision: pulumi.Output[str]

    def __init__(self, name: str, args: RevisionWatchArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(RevisionWatchProvider(), name, args, opts)


class RevisionWatchProvider(Provider):
    """Looks, and says what it sees."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Follow the revision; an error where it fails, and nothing at all where it cannot be followed."""
        return CreateResult(props["service"], self._followed(props, first=True))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return a change for another template, and for a revision that was not followed to its end."""
        return in_place([*changed(olds, news, _TRIGGERS), *([] if olds.get("revision") else ["revision"])])

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """As `create`."""
        return UpdateResult(self._followed(news, first=False))

    def _followed(self, props: Mapping[str, Any], *, first: bool) -> dict[str, Any]:
        urn = props.get("urn")
        awaited = Awaited(
            region=props["region"],
            service=props["service"],
            annotation=MARK,
            mark=props["mark"],
            limit_s=float(props["limit_s"]),
            first=first,
        )
        try:
            revision = follow(self.session(), awaited, progress=progress_on(urn), warn=warning_on(urn))
        except ServingError as error:
            fail(str(error))
        return {**props, "revision": revision}
