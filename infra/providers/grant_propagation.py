"""Waits until Google acts on the grants, accounts and APIs that this `pulumi up` made, before something needs them.

A new grant counts after minutes: changes of a policy "typically propagate in 2 minutes, but could potentially take 7
minutes or longer" (cloud.google.com/iam/docs/access-change-propagation). A new account or API takes its time as well. Where
nothing is new, nothing waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from infra.providers.base import DynamicResource, Progress, Provider, changed, in_place, progress_on

_SHOW_EVERY_S = 10.0
_now: Callable[[], float] = time.monotonic
_sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class GrantPropagationArgs:
    """`after` identifies each grant, account and API; one that is not in the state yet is new.

    `settle_s` is how long a new one takes to count, in seconds. A change of it alone makes nobody wait.
    """

    after: Sequence[pulumi.Input[str]]
    settle_s: int


class GrantPropagation(DynamicResource):
    """The wait between new grants and what needs them. It depends on the grants; what needs them depends on it."""

    def __init__(self, name: str, args: GrantPropagationArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(GrantPropagationProvider(), name, args, opts)


class GrantPropagationProvider(Provider):
    """Waits where a grant, account or API is new. Pulumi makes them first, so the wait begins after the last one."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Wait for all of them."""
        _wait(props["settle_s"], progress_on(props.get("urn")))
        return CreateResult("propagated", props)

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return a change where a grant, account or API is new or gone."""
        return in_place(changed(olds, news, ("after",)))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Wait where one of them is new, not where one is gone."""
        if set(news["after"]) - set(olds.get("after") or ()):
            _wait(news["settle_s"], progress_on(news.get("urn")))
        return UpdateResult(news)


def _wait(settle_s: float, progress: Progress) -> None:
    """Sleep for `settle_s`, and show every ten seconds how much of it is left."""
    end = _now() + settle_s
    while (left := end - _now()) > 0:
        progress(f"{left:.0f} s more: Google needs minutes to act on new grants, accounts and APIs (access.settleTime)")
        _sleep(min(left, _SHOW_EVERY_S))
