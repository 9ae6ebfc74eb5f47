"""Figures of a server's metrics that say whether something is wrong, and the known failures whose bounds they cross."""

from __future__ import annotations

from collections.abc import Mapping

from infra.catalog import catalog
from infra.catalog.failures import KnownFailure
from infra.serving.load import ServerLoad

_ENOUGH_REQUESTS, _ENOUGH_DRAFTS = 20, 100
"""Ended requests and drafted tokens below which a share of them says nothing."""


def signals(before: ServerLoad, now: ServerLoad, *, drafted: float) -> dict[str, float]:
    """Return the figures that are known, by the names that failures.toml uses.

    `before` is a reading some seconds older than `now`; both count since the server's start. `drafted`: tokens drafted.
    """
    found: dict[str, float | None] = {"kv_usage": now.kv_usage}
    if before.waiting is not None and now.waiting is not None:
        found["waiting_growth"] = float(now.waiting - before.waiting)
    ended = sum((now.finished or {}).values())
    if ended >= _ENOUGH_REQUESTS and now.preemptions is not None:
        found["preemptions_per_request"] = now.preemptions / ended
    if drafted >= _ENOUGH_DRAFTS:
        found["acceptance_rate"] = now.acceptance_rate
    return {name: value for name, value in found.items() if value is not None}


def failures_in(figures: Mapping[str, float]) -> list[tuple[KnownFailure, float]]:
    """Return the known failures whose bound a figure crosses, with the figure."""
    return [
        (failure, figures[failure.signal])
        for failure in catalog().failures.values()
        if failure.signal in figures and _crosses(failure, figures[failure.signal])
    ]


def _crosses(failure: KnownFailure, value: float) -> bool:
    above = failure.above is not None and value > failure.above
    return above or (failure.below is not None and value < failure.below)
