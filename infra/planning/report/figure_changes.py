"""The figures of a plan that a reviewer compares: prices of the whole stack first, then memory, requests, speed and start.

A figure is judged, better or worse, only where both sides measure the same thing and the difference can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.planning.report.change import Change, Json, Keys, knows, value_at
from infra.planning.report.properties import as_text
from infra.planning.units import (
    Band,
    read_count,
    read_duration,
    read_gib,
    read_minutes,
    read_predicted,
    read_seconds,
    read_tokens_per_second,
    read_usd,
)


@dataclass(frozen=True)
class Figure:
    """A figure with a row of its own: how it reads in its plan, and whether more of it is better (1), worse (-1), neither."""

    subject: str
    path: Keys
    read: Callable[[float, Json], str]
    direction: int = 0
    alike: tuple[Keys, ...] = ()
    """What must be the same on both sides for the two to be judged against each other."""


def _usd(value: float, _plan: Json) -> str:
    return read_usd(value)


def _least_and_most(name: str) -> Callable[[float, Json], str]:
    def read(most: float, plan: Json) -> str:
        least = value_at(plan, ("cost", "wholeStack", name, "least"))
        return read_usd(most) if least is None or least == most else f"{read_usd(least)} to {read_usd(most)}"

    return read


def _predicted(
    path: Keys,
    read: Callable[[float], str],
    what: Callable[[Json], str] = lambda _: "",
    *,
    ends: Callable[[float], str] | None = None,
) -> Callable[[float, Json], str]:
    """Return how a prediction reads with its band, which stands at `path`; plans of earlier versions may have none there."""

    def text(value: float, plan: Json) -> str:
        try:
            band = Band(**{**value_at(plan, path), "mid": value})
        except (TypeError, ValueError):  # a saved plan without it, or one that somebody wrote
            band = Band.exactly(value)
        return read_predicted(band, read, what(plan), ends=ends)

    return text


def _running(plan: Json, at: str = "planned") -> str:
    count = value_at(plan, ("speed", at, "requests"))
    return "" if count is None else f" with {count:,} running"


def _longest(plan: Json) -> str:
    return f" of {value_at(plan, ('capacity', 'maxModelLen')) or 0:,} tokens"


def _workload(plan: Json) -> str:
    tokens = (value_at(plan, ("speed", key)) for key in ("promptTokens", "outputTokens"))
    return f" of {sum(count or 0 for count in tokens):,} tokens"


_PROMPT, _ANSWER = ("speed", "promptTokens"), ("speed", "outputTokens")
BESIDE = (
    _PROMPT,
    _ANSWER,
    ("speed", "planned", "requests"),
    ("speed", "allServers", "requests"),
    ("capacity", "maxModelLen"),
    ("cost", "wholeStack", "usdPerHour", "least"),
    ("cost", "wholeStack", "usdPerMonth", "least"),
)
"""Numbers that are read beside a figure."""

PRICES = (
    Figure("$/hour, whole stack", ("cost", "wholeStack", "usdPerHour", "most"), _least_and_most("usdPerHour"), -1),
    Figure("$/month, whole stack", ("cost", "wholeStack", "usdPerMonth", "most"), _least_and_most("usdPerMonth"), -1),
    Figure("$/hour of one replica", ("cost", "usdPerHour"), _usd, -1),
    Figure("Replicas at most", ("cost", "replicas"), lambda value, _: f"{value}"),
    Figure("$/month idle", ("cost", "usdPerMonthIdle"), _usd, -1),
    Figure("$ until the slices end", ("cost", "usdPerRun"), _usd, -1),
    Figure(
        "$/M output tokens",
        ("cost", "usdPerMillionOutputTokens", "plannedWithNewPrompts", "mid"),
        _predicted(("cost", "usdPerMillionOutputTokens", "plannedWithNewPrompts"), read_usd, _running),
        -1,
        (_PROMPT, _ANSWER),
    ),
    Figure(
        "$/M output tokens, prompts cached",
        ("cost", "usdPerMillionOutputTokens", "planned", "mid"),
        _predicted(("cost", "usdPerMillionOutputTokens", "planned"), read_usd, _running),
        -1,
        (_PROMPT, _ANSWER),
    ),
)
FIGURES = (
    Figure(
        "KV cache",
        ("memory", "kvBytesPerDevice", "mid"),
        _predicted(("memory", "kvBytesPerDevice"), read_gib, lambda _: " GiB a device"),
        1,
    ),
    Figure(
        "Requests of full length",
        ("capacity", "concurrencyAtMaxModelLen"),
        _predicted(("capacity", "concurrencyAtMaxModelLenBand"), "{:,.1f}".format, _longest),
        1,
        (("capacity", "maxModelLen"),),
    ),
    Figure(
        "Requests held",
        ("capacity", "requestsOfWorkload"),
        _predicted(("capacity", "requestsOfWorkloadBand"), read_count, _workload),
        1,
        (_PROMPT, _ANSWER),
    ),
    Figure("Requests at once", ("speed", "planned", "requests"), lambda value, _: f"{value:,}"),
    Figure(
        "Speed alone",
        ("speed", "alone", "withNewPrompts", "mid"),
        _predicted(("speed", "alone", "withNewPrompts"), read_tokens_per_second),
        1,
        (_PROMPT, _ANSWER),
    ),
    Figure(
        "Speed as planned",
        ("speed", "planned", "withNewPrompts", "mid"),
        _predicted(("speed", "planned", "withNewPrompts"), read_tokens_per_second, _running),
        1,
        (_PROMPT, _ANSWER),
    ),
    Figure(
        "Speed as planned, prompts cached",
        ("speed", "planned", "tokensPerSecond", "mid"),
        _predicted(("speed", "planned", "tokensPerSecond"), read_tokens_per_second, _running),
        1,
        (_PROMPT, _ANSWER),
    ),
    Figure(
        "Speed of all servers",
        ("speed", "allServers", "withNewPrompts", "mid"),
        _predicted(
            ("speed", "allServers", "withNewPrompts"), read_tokens_per_second, lambda plan: _running(plan, "allServers")
        ),
        1,
        (_PROMPT, _ANSWER),
    ),
    Figure("First token", ("speed", "ttftS", "mid"), _predicted(("speed", "ttftS"), read_seconds), -1, (_PROMPT,)),
    Figure(
        "Start from zero",
        ("startup", "fromZeroS", "mid"),
        _predicted(("startup", "fromZeroS"), read_duration, ends=read_minutes),
        -1,
    ),
    Figure("Probe window", ("probes", "startup", "windowS"), lambda value, _: read_duration(value)),
    Figure("Slices end after", ("slices", "maxRunDurationS"), lambda value, _: read_duration(value)),
)


def price_changes(before: Json, after: Json) -> Iterator[Change]:
    """Yield the prices that differ, that of the whole stack first."""
    for figure in PRICES:
        yield from _figure("price", figure, before, after)


def figure_changes(before: Json, after: Json) -> Iterator[Change]:
    """Yield what is served, where, and how well, as far as it differs."""
    for subject, path in TEXTS.items():
        old, new = value_at(before, path), value_at(after, path)
        if old != new:
            yield Change("figures", subject, as_text(old or None), as_text(new or None), old, new)
    for figure in FIGURES:
        yield from _figure("figures", figure, before, after)


TEXTS: Mapping[str, Keys] = {
    "Model": ("model", "id"),
    "Accelerator": ("accelerator", "id"),
    "Region": ("accelerator", "region"),
    "Zone": ("accelerator", "zone"),
    "Slices": ("slices", "names"),
    "Provisioning": ("slices", "provisioning"),
    "Image": ("vllm", "image"),
    "May call": ("access", "invokers"),
    "May deploy": ("access", "deployers"),
    "Ingress": ("access", "ingress"),
}


def of_one_server(plan: Json, path: Keys) -> bool:
    """Return whether a figure of all servers together says only what the planned one of the only server does."""
    of_all = path[:2] == ("speed", "allServers")
    return of_all and value_at(plan, path) == value_at(plan, ("speed", "planned", *path[2:]))


def _figure(section: str, figure: Figure, before: Json, after: Json) -> Iterator[Change]:
    """Yield a figure whose printed form differs. A refused plan has none, since nothing of it would be created."""
    if not (knows(before, figure.path) and knows(after, figure.path)):
        return  # a saved plan of an earlier version
    if all(of_one_server(plan, figure.path) for plan in (before, after)):
        return
    old, new = (None if plan["verdict"] == "refused" else value_at(plan, figure.path) for plan in (before, after))
    texts = ["" if value is None else figure.read(value, plan) for value, plan in ((old, before), (new, after))]
    if texts[0] == texts[1]:
        return
    percent = _percent(old, new)
    tone = ""
    if not percent or any(value_at(before, path) != value_at(after, path) for path in figure.alike):
        percent = ""  # nothing to see at this precision, or of something else
    elif figure.direction:
        tone = "better" if ("−" not in percent) == (figure.direction > 0) else "worse"
    yield Change(section, figure.subject, texts[0], texts[1] + (f" ({percent})" if percent else ""), old, new, tone)


def _percent(old: Any, new: Any) -> str:
    """Return the change in percent, or as a factor from ten on; empty where there is none to see or nothing to divide by."""
    if not old or new is None:
        return ""
    percent = 100 * (new / old - 1)
    if percent >= 900:
        return f"× {new / old:,.0f}"
    return f"{percent:+.0f} %".replace("-", "−") if round(percent) else ""


def price_sentence(before: Json | None, after: Json) -> str:
    """Return in a sentence what the whole stack costs, an hour and a month, before (None: there was none) and after."""
    if before is None:
        hour, month = (figure.read(value_at(after, figure.path), after) for figure in PRICES[:2])
        return f"The whole stack: {hour} an hour, {month} a month."
    if after["verdict"] == "refused":
        return "Refused: there is no price to compare."
    most = [value_at(plan, PRICES[1].path) for plan in (before, after)]
    if None in most or any(value_at(plan, PRICES[0].path) is None for plan in (before, after)):
        return "One of the plans holds no price of the whole stack."
    hours, months = (
        [figure.read(value_at(plan, figure.path), plan) for plan in (before, after)] for figure in PRICES[:2]
    )
    if before["verdict"] == "refused":
        return f"The whole stack: {hours[1]} an hour, {months[1]} a month; before, it was refused."
    if hours[0] == hours[1] and months[0] == months[1]:
        return f"The price of the whole stack stays: {hours[0]} an hour, {months[0]} a month."
    hour, month = (texts[0] if texts[0] == texts[1] else " → ".join(texts) for texts in (hours, months))
    first, last = most
    percent = _percent(first, last)
    more = f"{'+' if last > first else '−'}{read_usd(abs(last - first))}{f', {percent}' if percent else ''}"
    return f"The whole stack: {hour} an hour; {month} a month{f' ({more})' if last != first else ''}."
