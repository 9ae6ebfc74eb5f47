"""The startup probe of a Cloud Run service, the time-out around it, and what is wrong with values a user chose.

Limits: cloud.google.com/run/docs/configuring/healthchecks (read 2026-11-21). Older pages, the v2 API reference and an
API error of 2025-11 still say 240 s for delay and period, so values above that are allowed here with a warning.
Nothing is refused for being wasteful, only for what Cloud Run rejects or what cannot outlast the start.
"""

from __future__ import annotations

import math

from infra.errors import Fault, Findings
from infra.planning.gateway.service_limits import HttpProbe
from infra.planning.performance.startup import StartupEstimate
from infra.planning.units import read_duration, read_minutes, read_predicted

GPU_WINDOW_S = 1800
"""Cap on failureThreshold x periodSeconds with a GPU, and on each of delay, period and timeout."""
SAFE_S = 240
"""Delay and period that every version of the documentation and of the API takes."""
PERIOD_S = 10
"""Short: readiness is noticed up to one period late."""
TIMEOUT_S = 5

_DEPLOY_MARGIN_S = 300
_DEPLOY_LEAST_S = 2700
"""45 minutes: Pulumi's own 20 are less than the probe window."""

_KEY = "probes.startup"
_SMALLER = (
    "The window is the longest and the path the fastest: serve a checkpoint of fewer bytes (QAT, or a smaller model)."
)


def choose_probe(
    startup: StartupEstimate,
    *,
    initial_delay_s: int | None = None,
    period_s: int | None = None,
    timeout_s: int | None = None,
    failure_threshold: int | None = None,
) -> HttpProbe:
    """Return the probe with what a user set. What is None is chosen: a short period, and a threshold that fills the cap.

    A delay is chosen only if the start may take longer than the cap: it then lengthens the window. It is shorter than
    any start, so that no finished start is noticed later because of it.
    """
    period = PERIOD_S if period_s is None else period_s
    if initial_delay_s is None:
        estimate = startup.extremes
        initial_delay_s = min(SAFE_S, math.floor(estimate.low)) if estimate.high > GPU_WINDOW_S else 0
    return HttpProbe(
        initial_delay_s=initial_delay_s,
        period_s=period,
        timeout_s=min(TIMEOUT_S, period) if timeout_s is None else timeout_s,
        failure_threshold=max(1, GPU_WINDOW_S // period) if failure_threshold is None else failure_threshold,
    )


def check_probe(probe: HttpProbe, startup: StartupEstimate) -> Findings:
    """Return what is wrong with a probe, compared with Cloud Run's limits and with the predicted start."""
    return _check_limits(probe) + _check_window(probe, startup)


def deploy_timeout_s(probe: HttpProbe, startup: StartupEstimate) -> int:
    """Return Pulumi's time-out for the service: the image's first import, the probe window, a margin; in steps of 5 minutes."""
    needed = probe.window_s + startup.longest_import_s + _DEPLOY_MARGIN_S
    return max(_DEPLOY_LEAST_S, 300 * math.ceil(needed / 300))


def _check_limits(probe: HttpProbe) -> Findings:
    rejected = "The deployment would be rejected."
    refusals, warnings = [], []
    for name, value in (("initialDelaySeconds", probe.initial_delay_s), ("periodSeconds", probe.period_s)):
        key = f"{_KEY}.{name}"
        if value > GPU_WINDOW_S:
            fact = f"{value} is over Cloud Run's cap of {GPU_WINDOW_S} s."
            refusals.append(Fault(key, fact, rejected, f"Write at most {SAFE_S}."))
        elif value > SAFE_S:
            fact = f"{value} is fine by the current documentation, but the API reference still says {SAFE_S} at most."
            warnings.append(
                Fault(key, fact, "The deployment may be rejected.", f"{SAFE_S} or less works in any version.")
            )
    if probe.timeout_s > probe.period_s:
        fact = f"{probe.timeout_s} is longer than periodSeconds {probe.period_s}."
        refusals.append(Fault(f"{_KEY}.timeoutSeconds", fact, rejected, f"Write at most {probe.period_s}."))
    product = probe.failure_threshold * probe.period_s
    if product > GPU_WINDOW_S >= probe.period_s:
        fact = (
            f"{probe.failure_threshold} x periodSeconds {probe.period_s} = {product:,} s is over Cloud Run's cap "
            f"of {GPU_WINDOW_S:,} s with a GPU."
        )
        fix = f"Write at most {GPU_WINDOW_S // probe.period_s} at this period, or leave failureThreshold out."
        refusals.append(Fault(f"{_KEY}.failureThreshold", fact, rejected, fix))
    return Findings(tuple(refusals), tuple(warnings))


def _check_window(probe: HttpProbe, startup: StartupEstimate) -> Findings:
    start = startup.extremes
    if probe.window_s >= start.high:
        return Findings()
    window = read_duration(probe.window_s)
    advice = (
        ["Leave probes.startup out: the window then fills Cloud Run's cap."] if probe.window_s < GPU_WINDOW_S else []
    )
    fix = " ".join([*advice, *startup.remedies[:1]]) or _SMALLER
    if probe.window_s < start.low:
        fact = f"the probe gives up after {window}, the start takes at least {read_duration(start.low)}."
        fault = Fault(_KEY, fact, "Cloud Run would stop the container while it still loads, at every start.", fix)
        return Findings(refusals=(fault,))
    fact = (
        f"the probe gives up after {window}; the start takes {read_predicted(start, read_duration, ends=read_minutes)}."
    )
    return Findings(warnings=(Fault(_KEY, fact, "A slow start would be stopped while it still loads.", fix),))
