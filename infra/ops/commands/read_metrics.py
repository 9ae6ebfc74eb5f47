"""`gemma4 metrics`: what a server does now and has done, by its own counters."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from infra.errors import SettingsError
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.metrics_answers import MetricsAnswer
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.endpoint.find_endpoint import find_endpoint
from infra.ops.live_metrics.load_answer import load_answer, read_all
from infra.ops.live_metrics.member_readings import MemberReadings, nobody_answers
from infra.ops.live_metrics.metrics_screen import metrics_table
from infra.ops.live_metrics.watch_metrics import watch
from infra.ops.terminal.progress import QUIET_S, waiting
from infra.planning.report.terminal import show

COLUMNS = 80
ONCE_S = 2.0
WATCHING_S = 5.0
SHORTEST_S = 0.5
"""More readings a second tell nothing: vLLM writes its counters once a step."""
LONGEST_S = 3600.0


def metrics_answer(stack: str | None = None, url: str | None = None, interval: float | None = None) -> MetricsAnswer:
    """Return running and waiting requests, use of the KV cache, tokens a second over `interval` seconds, and latencies,
    prefix cache hits, preemptions and accepted drafts since the server's start, by server and in all.

    Raises Gemma4Error where no server answers.
    """
    seconds = _checked(ONCE_S if interval is None else interval)
    return two_readings(find_endpoint(stack, url), seconds)


def two_readings(
    endpoint: Endpoint,
    interval_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> MetricsAnswer:
    """Return the answer of two rounds of readings, `interval_s` seconds apart. Raises Gemma4Error where nobody answers."""
    members = MemberReadings.of(endpoint, clock=clock, wall=wall)
    with waiting(f"reading the metrics of {endpoint.name} twice", quiet_s=interval_s + QUIET_S):
        read_all(members)
        sleep(interval_s)
        answer = load_answer(endpoint, read_all(members), watching=False, at=wall())
    if answer.together is None:
        raise nobody_answers(endpoint, {member.name: member.error for member in answer.members})
    return answer


def show_metrics(
    stack: str | None, url: str | None, *, watching: bool = False, interval: float | None = None, as_json: bool = False
) -> None:
    """Print the figures once, or every `interval` seconds until Ctrl-C."""
    if watching:
        seconds = _checked(WATCHING_S if interval is None else interval)
        watch(find_endpoint(stack, url), interval_s=seconds, as_json=as_json)
        return
    answer = metrics_answer(stack, url, interval)
    if as_json:
        print_answer(answer)
    else:
        show(metrics_table(answer), columns=COLUMNS)


def _checked(interval_s: float) -> float:
    if not (math.isfinite(interval_s) and SHORTEST_S <= interval_s <= LONGEST_S):
        raise SettingsError.of(
            "--interval",
            f"{interval_s:g} is not between {SHORTEST_S:g} and {LONGEST_S:g} seconds.",
            fix="Write for example --interval 5.",
        )
    return interval_s
