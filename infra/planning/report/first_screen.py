"""The first screen of a plan: the verdict and why, price, speed, capacity, start, quotas, what is still to do, what next.

A plan takes at most MOST_LINES lines at COLUMNS, so that a terminal of 24 shows the whole of it above its prompt; a
refused one MOST_LINES_REFUSED, and ends with what to write. Everything else is in `rows`, behind --full.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from infra.errors import Fault
from infra.planning.memory.verdict import Verdict
from infra.planning.performance.speed import Rate
from infra.planning.plan import Plan
from infra.planning.report.next_steps import next_command, steps_before_up
from infra.planning.report.rows import BAD, GOOD, WARNING, quota_amount, start_sentence, title, who_set
from infra.planning.report.terminal import unbroken
from infra.planning.units import (
    Band,
    counted,
    read_count,
    read_gib,
    read_predicted,
    read_rate,
    read_seconds,
    read_tokens_per_second,
    read_usd,
)

COLUMNS = 80
MOST_LINES = 23
MOST_LINES_REFUSED = 12
_IF_ROOM = "dim"
"""The style of a line that is left out first."""
_IF_NEEDED = "not dim"
"""The style of a line that is left out where it does not help to shorten others: --full has it."""
_LABELS = 10
"""Columns of the names before the lines."""


def first_screen(plan: Plan, width: int) -> list[Text]:
    """Return the lines, none wider than `width`."""
    heading = _filled("", f"{plan.stack}: {title(plan)}", width, indent=0)
    for line in heading:
        line.stylize("bold")
    if plan.refused:
        return [*heading, Text(), *_refused(plan, width, MOST_LINES_REFUSED - len(heading) - 1)]
    steps = list(step_lines(plan, width))
    room = MOST_LINES - len(heading) - 1 - sum(1 + step.plain.count("\n") for step in steps) - 1
    drawn = [(style, _filled(name, said, width, style)) for name, said, style in _rows(plan)]
    crowded = sum(len(lines) for _, lines in drawn) + bool(plan.warnings) > room
    drawn = [(style, lines) for style, lines in drawn if not (crowded and style == _IF_ROOM)]
    if width >= COLUMNS and len(drawn) > room:
        drawn = [(style, lines) for style, lines in drawn if style != _IF_NEEDED]
    rows = [lines for _, lines in drawn]
    for number in reversed(range(len(rows))):  # what stands first counts most: it is shortened last
        if width >= COLUMNS and sum(map(len, rows)) + bool(plan.warnings) > room:
            rows[number] = _cut(rows[number], 1, width)
    if width >= COLUMNS and sum(map(len, rows)) + bool(plan.warnings) > room:
        room += len(heading) - 1
        heading = _cut(heading, 1, width)
    lines = [*heading, Text()]
    lines += [line for row in rows for line in row]
    left, more = (
        room - sum(map(len, rows)),
        f"--notes ({len(plan.notes)}), --command, --resources, --full; gemma4 explain WORD",
    )
    if left > 0 or width < COLUMNS:
        lines += _warned(plan, width, left)
    elif plan.warnings:
        more = f"--notes ({len(plan.notes)}, {counted(len(plan.warnings), 'warning')}), --command, --resources, --full"
    lines += _filled("More", more, width)
    return lines + steps


def _rows(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield each row: its name, a line, and its style. A name that is empty continues the row before."""
    speed, cost, capacity = plan.speed, plan.cost, plan.capacity
    yield "Fits", _fits(plan), GOOD if plan.fits is Verdict.FITS else WARNING
    yield "Price", _price(plan), ""
    each = "each server: " if cost.replicas > 1 else ""
    running = f"/million output tokens with {counted(cost.planned_requests, 'new prompt')}{' each' if each else ''}"
    yield "", _predicted(cost.usd_per_million_new_prompts, read_usd, running), ""
    if plan.server.speculation == "mtp" and len(cost.at_loads) > 1:
        prices = (_predicted(one.usd_per_million, read_usd) for one in cost.at_loads)
        yield "", f"{', '.join(prices)} at {', '.join(str(one.requests) for one in cost.at_loads)} cached", _IF_ROOM
    lone = _predicted(speed.alone.with_new_prompts, read_tokens_per_second, " alone")
    yield "Speed", f"{each}{lone}, first token {_predicted(speed.ttft_s, read_seconds)}", ""
    yield "", _running(speed.planned), ""
    if capacity.fits:
        length = plan.settings.workload.prompt_tokens + plan.settings.workload.output_tokens
        held = _predicted(plan.requests_held_band, read_count, f" of {length:,} tokens")
        longest = _predicted(plan.concurrency_band, read_count, f" of {plan.server.max_model_len:,}")
        runs = each or f"{speed.planned.requests:,} at once; "
        yield "Capacity", f"{runs}holds {held}, {longest}", ""
    else:
        yield (
            "Capacity",
            f"less than one request of {plan.server.max_model_len:,} tokens at the likeliest size",
            WARNING,
        )
    if each:
        yield f"All {cost.replicas:,}", _running(plan.speed_of_all), _IF_NEEDED
    yield "Start", _kept(start_sentence(plan)), ""
    for name, said in plan.deployment.summary(plan.cost.usd_per_run):
        yield name, said, ""
    if plan.quotas:
        yield "Quota", _quotas(plan), WARNING if any(need.beyond_default() for need in plan.quotas) else ""


def _running(rate: Rate) -> str:
    """Return the speed with as many requests, with new prompts and with cached ones."""
    prompts = f" with {counted(rate.requests, 'new prompt')}"
    together = _predicted(rate.with_new_prompts, read_tokens_per_second, prompts)
    return f"{together}, cached {_predicted(rate.total, read_rate)}"


def _predicted(band: Band, read: Callable[[float], str], what: str = "") -> str:
    return _kept(read_predicted(band, read, what, brief=True))


def _kept(said: str) -> str:
    """Return predictions within whose figures and bands no line ends."""
    return re.sub(_FIGURE, lambda found: _whole(found[0]), said)


_FIGURE = r"≈ \S+( (min|s|h|ms|tok/s)(?=[ ,]|$))*|\([^()]*\)|\S+ to \S+( (min|s|h|ms|tok/s)(?=[ ,]|$))?"


def _whole(figure: str) -> str:
    """Return a figure within which no line ends."""
    return figure.replace(" ", _NO_BREAK)


_NO_BREAK = "\N{NO-BREAK SPACE}"
"""Printed as a plain blank."""


def _fits(plan: Plan) -> str:
    memory = plan.memory
    answer = "yes" if plan.fits is Verdict.FITS else "perhaps"
    device = " each" if plan.server.tensor_parallel > 1 else ""
    weights = _predicted(memory.weights, read_gib, f" of {read_gib(memory.cap_bytes)} GiB{device}")
    return f"{answer}: weights {weights}, KV cache {_predicted(memory.kv_left, read_gib)}"


def _price(plan: Plan) -> str:
    hour, count = plan.cost.usd_per_hour, plan.cost.replicas
    running = f"{read_usd(hour)}/hour running"
    if count > 1:
        running = f"{read_usd(hour)}/hour each, {read_usd(hour * count)} for all {count:,}"
    idle, busy = plan.usd_per_month
    if plan.deployment.always_running == count:
        return f"{running}, {read_usd(busy)}/month"
    return f"{running}; {read_usd(idle)}/month idle, {read_usd(busy)} busy"


def _quotas(plan: Plan) -> str:
    """Return what counts at each place, and what a new project usually has, where that is known."""
    places: dict[str, list[str]] = {}
    for need in plan.quotas:
        usual = "" if need.quota.default is None else f" (usual{_NO_BREAK}{need.quota.default:,g})"
        places.setdefault(need.place, []).append(_whole(quota_amount(need)) + usual)
    return "; ".join(f"{', '.join(amounts)} in {place}" for place, amounts in places.items())


def step_lines(plan: Plan, width: int) -> Iterator[Text]:
    """Yield a blank line, then what to type: one command a line, never broken, for they are pasted; remarks fold."""
    yield Text()
    if steps := steps_before_up(plan):
        yield Text("To do first (fill in the words in capitals):", style="bold")
        yield unbroken(line for step in steps for line in _step(step, width))
    if plan.accelerator.deployable:
        yield Text.assemble(("Next: ", "bold"), next_command(plan))
    else:
        yield Text.assemble(("Planned and priced only. What can be deployed: ", "bold"), next_command(plan))


def _step(step: str, width: int) -> list[str]:
    if not step.startswith("#"):
        return [f"  {step}"]
    return textwrap.wrap(
        step, width, initial_indent="  ", subsequent_indent="  #   ", break_long_words=False, break_on_hyphens=False
    )


def _warned(plan: Plan, width: int, room: int) -> list[Text]:
    """Return the first line of each warning, in at most `room` lines; the last one counts those left out."""
    shown = list(plan.warnings)
    if len(shown) > room:
        shown = shown[: max(0, room - 1)]
    lines = [_clipped("Warning", str(fault), width) for fault in shown]
    if left := len(plan.warnings) - len(shown):
        more = counted(left, "more warning" if shown else "warning")
        lines.append(_clipped("Warning", f"{more}: gemma4 plan {plan.stack} --notes", width))
    return lines


def _refused(plan: Plan, width: int, room: int) -> list[Text]:
    """Return the first refusals in at most `room` lines, each with what to write instead, and how many there are."""
    lines = _refusal(plan, plan.refusals[0], width, room - (len(plan.refusals) > 1))
    shown = 1
    for fault in plan.refusals[1:]:
        more = _refusal(plan, fault, width, room)
        if len(lines) + len(more) > room - (shown + 1 < len(plan.refusals)):
            break
        lines, shown = lines + more, shown + 1
    if shown == len(plan.refusals):
        return lines
    return [*_filled("", f"Refused for {len(plan.refusals)} reasons; all of them: --full", width, indent=0), *lines]


def _refusal(plan: Plan, fault: Fault, width: int, room: int) -> list[Text]:
    """Return one refusal in at most `room` lines, the last of them what to write."""
    fix = _cut(_filled("Instead", fault.fix or f"See: gemma4 explain {fault.key}", width), room - 2, width)
    who = who_set(plan, fault.key)
    whole = _filled("Refused", f"{fault.key}: {fault.fact} {fault.consequence}".rstrip() + who, width, BAD)
    if len(whole) + len(fix) > room:
        whole = _filled("Refused", f"{fault.key}: {fault.fact}{who}", width, BAD)
    return _cut(whole, room - len(fix), width) + fix


def _filled(name: str, said: str, width: int, style: str = "", *, indent: int = _LABELS) -> list[Text]:
    """Return a name and its line in as many lines as it takes; bands are dim."""
    lines = []
    for number, line in enumerate(textwrap.wrap(said, max(width - indent, 20), break_on_hyphens=False)):
        label = "" if number else name
        body = Text(line)
        body.highlight_regex(_BAND, "dim")
        body.plain = line.replace(_NO_BREAK, " ")
        lines.append(Text.assemble((label.ljust(indent), f"bold {style}".rstrip()), body))
    return lines


_BAND = rf"\(±[^() ]*\)|\([^() ]*{_NO_BREAK}[^() ]*\)"


def _clipped(name: str, said: str, width: int) -> Text:
    """Return the first line of what is to be said."""
    return _cut(_filled(name, said, width, WARNING), 1, width)[0]


def _cut(lines: Sequence[Text], most: int, width: int) -> list[Text]:
    """Return the first lines. Where some are left out, the last one ends with … after a whole word."""
    if len(lines) <= most:
        return list(lines)
    kept = list(lines[:most])
    last = kept[-1]
    if len(last.plain) > width - 2:
        last.right_crop(len(last.plain) - last.plain.rindex(" "))
    last.append(" …")
    return kept
