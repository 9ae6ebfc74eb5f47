"""The same figures again and again, until Ctrl-C: redrawn on a terminal, lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext

from rich.console import Console
from rich.live import Live

from infra.ops.answers.metrics_answers import MetricsAnswer
from infra.ops.endpoint.endpoint import Endpoint
from infra.ops.live_metrics.load_answer import load_answer, read_all
from infra.ops.live_metrics.member_readings import MemberReadings
from infra.ops.live_metrics.metrics_screen import LINE_HEADING, metrics_lines, metrics_table
from infra.planning.report.terminal import Printable


def watch(
    endpoint: Endpoint,
    *,
    interval_s: float,
    as_json: bool,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show a reading every `interval_s` seconds until Ctrl-C, which is how it ends."""
    console = Console(highlight=False, markup=False, emoji=False)
    screen = None
    if console.is_terminal and not as_json:
        # A redirected stdout would stand between the console and the terminal, and spell out what steers it.
        screen = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    members = MemberReadings.of(endpoint, clock=clock, wall=wall)
    try:
        with screen or nullcontext():
            read_all(members)  # to compare the first one shown with
            if not screen and not as_json:
                print(LINE_HEADING, flush=True)
            due = clock()
            while True:
                due = max(due + interval_s, clock())  # a slow answer does not make the next ones come at once
                sleep(max(0.0, due - clock()))
                answer = load_answer(endpoint, read_all(members), watching=True, at=wall())
                if screen:
                    screen.update(Printable(metrics_table(answer)), refresh=True)
                else:
                    print(_line_of(answer) if as_json else "\n".join(metrics_lines(answer)), flush=True)
    except KeyboardInterrupt:
        return


def _line_of(answer: MetricsAnswer) -> str:
    return json.dumps(answer.model_dump(mode="json", by_alias=True))
