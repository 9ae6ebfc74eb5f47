"""What the supervisor on a machine last wrote into the machine's guest attributes: of a TPU slice and of a machine with GPUs
alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from infra.errors import GoogleError
from infra.google.times import timestamp_s

SERVING = "serving"
"""The stage of a supervisor whose server answers."""
NAMESPACE, _KEY = "gemma4", "status"  # of the guest attribute


@dataclass(frozen=True)
class SupervisorReport:
    """All fields are blank where nothing was written yet."""

    stage: str = ""
    wanted: str = ""
    running: str = ""
    preparing: str = ""
    error: str = ""
    """The newest trouble."""
    maintenance: str = ""
    at: str = ""
    """When it was written, RFC 3339."""
    age_s: float | None = None
    ready: tuple[str, ...] | None = None
    """Names under which the machine takes requests; None where the report does not say."""
    unreadable: str = ""
    """Why Google does not hand the report out."""


def hear(ask: Callable[[], Mapping[str, str]], clock: Callable[[], float]) -> tuple[SupervisorReport, dict[str, str]]:
    """Return the report in the guest attributes that `ask` returns, and the stage of each server. Attributes that Google does
    not hand out make a report that says so."""
    try:
        attributes = ask()
    except GoogleError as error:
        return SupervisorReport(unreadable=str(error)), {}
    return read_report(attributes, clock()), server_stages(attributes)


def read_report(attributes: Mapping[str, str], now: float) -> SupervisorReport:
    """Return the supervisor's report, blank where there is none that can be read. `now`: seconds since 1970."""
    said = _written(attributes)
    errors = said.get("errors")
    newest = next((one for one in errors if isinstance(one, Mapping)), {}) if isinstance(errors, list) else {}
    preparing, percent = str(said.get("preparing") or ""), said.get("weightsPercent")
    if preparing and percent is not None:
        preparing += f", {percent} % of the weights are here"
    at, ready = str(said.get("at") or ""), said.get("ready")
    return SupervisorReport(
        stage=str(said.get("stage") or ""),
        wanted=str(said.get("wanted") or ""),
        running=str(said.get("running") or ""),
        preparing=preparing,
        error=str(newest.get("message", "")),
        maintenance=str(said.get("maintenance") or ""),
        at=at,
        age_s=age_s(at, now),
        ready=tuple(map(str, ready)) if isinstance(ready, list) else None,
    )


def server_stages(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the stage of each server by the name of its container; empty where the report does not say."""
    try:
        return {str(one["name"]): str(one["stage"]) for one in _written(attributes).get("servers") or ()}
    except (KeyError, TypeError):
        return {}


def age_s(at: str, now: float) -> float | None:
    """Return the seconds since a moment (RFC 3339); None where it cannot be read."""
    written = timestamp_s(at)
    return None if written is None else max(0.0, now - written)


def _written(attributes: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        said: Any = json.loads(attributes.get(_KEY, ""))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
