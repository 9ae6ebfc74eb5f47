"""Time for what was granted in this very `up` to count, before something needs it.

Google acts on a new grant after minutes: changes of a policy "typically propagate in 2 minutes, but could potentially take
7 minutes or longer" (cloud.google.com/iam/docs/access-change-propagation); a new account or API is not known everywhere at
once either. Where nothing is new, nothing waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from infra.providers.base import Progress, Provider, changed, in_place, progress_on, urn_under

KIND = "Settled"
_SHOW_EVERY_S = 10.0
_now: Callable[[], float] = time.monotonic
_sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class SettledInputs:
    """`after` identifies each grant, account and API: one that is not in the state yet is new. `settle_s`: how long a
    new one takes to count, in seconds; a change of it alone makes nobody wait."""

    after: Sequence[pulumi.Input[str]]
    settle_s: int


class Settled(Resource, module="gemma4", name=KIND):
    """The time between grants and what needs them, which depends on this resource as this one does on the grants."""

    def __init__(self, name: str, args: SettledInputs, opts: pulumi.ResourceOptions) -> None:
        urn = None if opts.parent is None else urn_under(opts.parent, KIND, name)
        props: dict[str, Any] = {"after": list(args.after), "settleS": args.settle_s, "urn": urn}
        super().__init__(SettledProvider(), name, props, opts)


class SettledProvider(Provider):
    """Waits where something is new. Pulumi makes the grants first, so the wait begins after the last one."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Wait."""
        _wait(props["settleS"], progress_on(props.get("urn")))
        return CreateResult("settled", props)

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return a change where a grant, account or API is new or gone."""
        return in_place(changed(olds, news, ("after",)))

    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Wait where something is new, not where something is gone."""
        if _fresh(olds, news):
            _wait(news["settleS"], progress_on(news.get("urn")))
        return UpdateResult(news)


def _fresh(olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    return bool(set(news["after"]) - set(olds.get("after") or ()))


def _wait(settle_s: float, progress: Progress) -> None:
    """Sleep to the end, with a line on the row now and then."""
    end = _now() + settle_s
    while (left := end - _now()) > 0:
        progress(f"{left:.0f} s more: Google needs minutes to act on new grants, accounts and APIs (access.settleTime)")
        _sleep(min(left, _SHOW_EVERY_S))
