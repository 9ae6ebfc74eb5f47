"""What changes between two plans in their JSON form: price, figures, settings, command, and every input of every resource.

`compare` covers the whole of both plans. What has no row of its own is a change of section `other`, so that no change at
all means that the two plans are the same; what one of the two does not hold is named as not compared.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra.planning.names import names_of
from infra.planning.report.properties import as_text, properties, shortened, side_by_side
from infra.planning.report.running_effects import effects_on_running
from infra.planning.units import read_duration, read_rate, read_seconds, read_usd

Json = Mapping[str, Any]
Path = tuple[str, ...]

SECTIONS = {
    "verdict": "Verdict",
    "price": "Price",
    "figures": "Figures",
    "warnings": "Warnings",
    "settings": "Settings",
    "command": "Command",
    "resources": "Resources",
    "other": "Everything else",
}
"""Sections of a comparison in reading order, with their titles."""


@dataclass(frozen=True)
class Change:
    """One line of a diff, as text and as data; an empty text, or null, means absent there. `tone` is judged only where it
    is plain: `better`, `worse`, or empty."""

    section: str
    subject: str
    before: str
    after: str
    old: Any = None
    new: Any = None
    tone: str = ""

    def as_json(self) -> dict[str, Any]:
        """The change as data, with the whole of both values, not rounded."""
        return {
            "section": self.section,
            "subject": self.subject,
            "before": self.before,
            "after": self.after,
            "old": self.old,
            "new": self.new,
            "tone": self.tone,
        }

    def brief(self, width: int) -> tuple[str, str]:
        """Return both texts, each in at most `width` characters and in one line."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return shortened(before, after, width)


@dataclass(frozen=True)
class Comparison:
    """All that two plans differ in, and what could not be compared."""

    against: str
    """Name of the stack that is compared with."""
    price: str
    """One sentence about the price of the whole stack."""
    changes: tuple[Change, ...]
    effects: tuple[str, ...]
    """What happens to what is running, as far as it is known; nothing is said where another stack is compared with."""
    not_compared: tuple[str, ...]
    """Parts that one side does not hold, each with the reason."""

    @property
    def verdict(self) -> str:
        """One sentence: how much changes, or that nothing does."""
        count = len(self.changes)
        gaps = f" Not compared: {'; '.join(self.not_compared)}." if self.not_compared else ""
        if count:
            return f"{count} change{'' if count == 1 else 's'} against {self.against}.{gaps}"
        if gaps:
            return f"No change against {self.against} in what can be compared.{gaps}"
        return f"No change against {self.against}: settings, figures, command and all inputs of all resources are the same."

    def as_json(self) -> dict[str, Any]:
        """The comparison as data, but for the changes themselves."""
        return {
            "against": self.against,
            "verdict": self.verdict,
            "price": self.price,
            "effects": list(self.effects),
            "notCompared": list(self.not_compared),
        }


def compare(before: Json, after: Json) -> Comparison:
    """Compare two plans in their JSON form, `before` with `after`."""
    old, gaps = _renamed(before, after), list(_gaps(before, after))
    found = [
        *_verdict(old, after),
        *_price(old, after),
        *_figures(old, after),
        *_warnings(old, after),
        *_settings(old, after),
        *_command(old, after),
        *_resources(old, after),
    ]
    found += _other(old, after, found)
    if after["verdict"] == "refused":
        found = [replace(change, tone="") if change.tone == "better" else change for change in found]
    same_stack = before["stack"] == after["stack"]
    return Comparison(
        against=before["stack"],
        price=price_sentence(old, after),
        changes=tuple(found),
        effects=tuple(effects_on_running(old, after)) if same_stack else (),
        not_compared=tuple(gaps),
    )


def changes(before: Json, after: Json) -> list[Change]:
    """Every difference between two plans in their JSON form, in reading order."""
    return list(compare(before, after).changes)


def misshapen(data: Json) -> list[str]:
    """Where a plan in JSON form is not as `compare` reads it; empty where it may be compared. A key may be missing."""
    wrong: list[Path] = [] if isinstance(data["stack"], str) else [("stack",)]
    wrong += [path for path in _TEXTS.values() if not _is_text(_at(data, path))]
    wrong += [figure.path for figure in (*_PRICES, *_FIGURES) if not _is_number(_at(data, figure.path))]
    wrong += [path for path in _BESIDE if not _is_number(_at(data, path))]
    argv, env, resources = (_at(data, path) for path in (("vllm", "argv"), ("vllm", "env"), ("resources",)))
    if not isinstance(argv, list) or not _is_text(argv):
        wrong.append(("vllm", "argv"))
    if not isinstance(env, Mapping) or not _is_text(list(env.values())):
        wrong.append(("vllm", "env"))
    if resources is not None and not (isinstance(resources, list) and all(_is_resource(row) for row in resources)):
        wrong.append(("resources",))
    for key in ("settings", "origins", "model", "startup", "slices"):
        if not isinstance(data.get(key) or {}, Mapping):
            wrong.append((key,))
    for key in ("refusals", "warnings"):
        if not all(isinstance(fault, Mapping) for fault in _members(data.get(key))):
            wrong.append((key,))
    if data["verdict"] not in _RANKS:
        wrong.append(("verdict",))
    return [".".join(path) for path in dict.fromkeys(wrong)]


def _members(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _is_text(value: Any) -> bool:
    """Whether it is a text, a list of texts, or none."""
    members = value if isinstance(value, list) else [value or ""]
    return all(isinstance(member, str) for member in members)


def _is_number(value: Any) -> bool:
    """Whether it is none, or a number of a size that a plan may hold."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _NO_FIGURE


_NO_FIGURE = 1e18  # bytes of an exabyte: no plan holds more of anything


def _is_resource(row: Any) -> bool:
    if not isinstance(row, Mapping) or not all(isinstance(row.get(key), str) for key in ("type", "name")):
        return False
    return all(isinstance(row.get(key) or {}, Mapping) for key in ("inputs", "options"))


def _at(data: Any, path: Path) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _renamed(before: Json, after: Json) -> Json:
    """Return `before` as it would read if its stack had the name of the other one: else each cloud name were a change."""
    old, new = before["stack"], after["stack"]
    if old == new or not old:
        return before
    prefix, other = (names_of(stack, None, None).prefix for stack in (old, new))
    words = re.compile(rf"""(\bgemma4 |\b[Ss]tack |"stack": "){re.escape(old)}(?![\w-])""")

    def renamed(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: renamed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [renamed(inner) for inner in value]
        if not isinstance(value, str):
            return value
        return new if value == old else words.sub(rf"\g<1>{new}", value.replace(prefix, other))

    rows = before.get("resources")
    return before if rows is None else {**before, "resources": renamed(rows)}


def _gaps(before: Json, after: Json) -> Iterator[str]:
    """Name what one of two plans does not hold, so that nothing can be said of it."""
    if not (before.get("settings") and after.get("settings")):
        yield "settings (a saved plan of an earlier version holds none; save it anew)"
    for plan in (before, after):
        if plan.get("resources") is None:
            yield "resources (not listed in one of the plans: leave --no-resources out)"
            return
    missing = [plan.get("resourcesMissing") or "" for plan in (before, after)]
    if missing[0] != missing[1]:
        yield f"resources ({missing[1] or missing[0]})"
        return
    if not all("inputs" in row for plan in (before, after) for row in plan["resources"]):
        yield "inputs of the resources (a saved plan of an earlier version holds none; save it anew)"


_RANKS = ("refused", "tight", "fits")


def _verdict(before: Json, after: Json) -> Iterator[Change]:
    old, new = before["verdict"], after["verdict"]
    if old != new:
        tone = "better" if _RANKS.index(new) > _RANKS.index(old) else "worse"
        yield Change("verdict", "Verdict", old, new, old, new, tone)


@dataclass(frozen=True)
class _Figure:
    """A figure with a row of its own: how it reads in its plan, and whether more of it is better (1), worse (-1), neither."""

    subject: str
    path: Path
    read: Callable[[float, Json], str]
    direction: int = 0
    alike: tuple[Path, ...] = ()
    """What must be the same on both sides for the two to be judged against each other."""


def _usd(value: float, _plan: Json) -> str:
    return read_usd(value)


def _least_and_most(name: str) -> Callable[[float, Json], str]:
    def read(most: float, plan: Json) -> str:
        least = _at(plan, ("cost", "wholeStack", name, "least"))
        return read_usd(most) if least is None or least == most else f"{read_usd(least)} to {read_usd(most)}"

    return read


def _running(plan: Json) -> str:
    count = _at(plan, ("speed", "planned", "requests"))
    return "" if count is None else f" with {count:,} running"


def _workload(plan: Json) -> str:
    tokens = (_at(plan, ("speed", key)) for key in ("promptTokens", "outputTokens"))
    return f"{sum(count or 0 for count in tokens):,}"


_PROMPT, _ANSWER = ("speed", "promptTokens"), ("speed", "outputTokens")
_BESIDE = (
    _PROMPT,
    _ANSWER,
    ("speed", "planned", "requests"),
    ("capacity", "maxModelLen"),
    ("cost", "wholeStack", "usdPerHour", "least"),
    ("cost", "wholeStack", "usdPerMonth", "least"),
)
"""Numbers that are read beside a figure."""

_PRICES = (
    _Figure("$/hour, whole stack", ("cost", "wholeStack", "usdPerHour", "most"), _least_and_most("usdPerHour"), -1),
    _Figure("$/month, whole stack", ("cost", "wholeStack", "usdPerMonth", "most"), _least_and_most("usdPerMonth"), -1),
    _Figure("$/hour of one replica", ("cost", "usdPerHour"), _usd, -1),
    _Figure("Replicas at most", ("cost", "replicas"), lambda value, _: f"{value}"),
    _Figure("$/month idle", ("cost", "usdPerMonthIdle"), _usd, -1),
    _Figure("$ until the slices end", ("cost", "usdPerRun"), _usd, -1),
    _Figure(
        "$/M output tokens",
        ("cost", "usdPerMillionOutputTokens", "planned", "mid"),
        lambda value, plan: f"≈ {read_usd(value)}{_running(plan)}",
        -1,
        (_PROMPT, _ANSWER),
    ),
)
_FIGURES = (
    _Figure("KV cache", ("memory", "kvBytesPerDevice", "mid"), lambda v, _: f"{v / 1024**3:.1f} GiB a device", 1),
    _Figure(
        "Requests of full length",
        ("capacity", "concurrencyAtMaxModelLen"),
        lambda value, plan: f"{value:.1f} of {_at(plan, ('capacity', 'maxModelLen')) or 0:,} tokens",
        1,
        (("capacity", "maxModelLen"),),
    ),
    _Figure(
        "Requests held",
        ("capacity", "requestsOfWorkload"),
        lambda value, plan: f"{value:,} of {_workload(plan)} tokens",
        1,
        (_PROMPT, _ANSWER),
    ),
    _Figure("Requests at once", ("speed", "planned", "requests"), lambda value, _: f"{value:,}"),
    _Figure(
        "Speed alone",
        ("speed", "alone", "tokensPerSecond", "mid"),
        lambda value, _: f"≈ {read_rate(value)} tok/s",
        1,
        (_PROMPT, _ANSWER),
    ),
    _Figure(
        "Speed as planned",
        ("speed", "planned", "tokensPerSecond", "mid"),
        lambda value, plan: f"≈ {read_rate(value)} tok/s{_running(plan)}",
        1,
        (_PROMPT, _ANSWER),
    ),
    _Figure("First token", ("speed", "ttftS", "mid"), lambda value, _: f"≈ {read_seconds(value)}", -1, (_PROMPT,)),
    _Figure("Start from zero", ("startup", "fromZeroS", "mid"), lambda value, _: f"≈ {read_duration(value)}", -1),
    _Figure("Probe window", ("probes", "startup", "windowS"), lambda value, _: read_duration(value)),
    _Figure("Slices end after", ("slices", "maxRunDurationS"), lambda value, _: read_duration(value)),
)


def _price(before: Json, after: Json) -> Iterator[Change]:
    for figure in _PRICES:
        yield from _figure("price", figure, before, after)


def _figures(before: Json, after: Json) -> Iterator[Change]:
    for subject, path in _TEXTS.items():
        old, new = _at(before, path), _at(after, path)
        if old != new:
            yield Change("figures", subject, as_text(old or None), as_text(new or None), old, new)
    for figure in _FIGURES:
        yield from _figure("figures", figure, before, after)


_TEXTS: Mapping[str, Path] = {
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


def _figure(section: str, figure: _Figure, before: Json, after: Json) -> Iterator[Change]:
    """Yield a figure whose printed form differs. A refused plan has none, since nothing of it would be created."""
    old, new = (None if plan["verdict"] == "refused" else _at(plan, figure.path) for plan in (before, after))
    texts = ["" if value is None else figure.read(value, plan) for value, plan in ((old, before), (new, after))]
    if texts[0] == texts[1]:
        return
    percent = _percent(old, new)
    tone = ""
    if not percent or any(_at(before, path) != _at(after, path) for path in figure.alike):
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


def price_sentence(before: Json, after: Json) -> str:
    """Say what the whole stack costs, an hour and a month, before and after."""
    if after["verdict"] == "refused":
        return "Refused: there is no price to compare."
    most = [_at(plan, _PRICES[1].path) for plan in (before, after)]
    if None in most or any(_at(plan, _PRICES[0].path) is None for plan in (before, after)):
        return "One of the plans holds no price of the whole stack."
    hours, months = ([figure.read(_at(plan, figure.path), plan) for plan in (before, after)] for figure in _PRICES[:2])
    if before["verdict"] == "refused":
        return f"The whole stack: {hours[1]} an hour, {months[1]} a month; before, it was refused."
    if hours[0] == hours[1] and months[0] == months[1]:
        return f"The price of the whole stack stays: {hours[0]} an hour, {months[0]} a month."
    hour, month = (texts[0] if texts[0] == texts[1] else " → ".join(texts) for texts in (hours, months))
    first, last = most
    percent = _percent(first, last)
    more = f"{'+' if last > first else '−'}{read_usd(abs(last - first))}{f', {percent}' if percent else ''}"
    return f"The whole stack: {hour} an hour; {month} a month{f' ({more})' if last != first else ''}."


def _warnings(before: Json, after: Json) -> Iterator[Change]:
    """Yield refusals and warnings that only one of the plans has."""
    for key, subject in (("refusals", "Refusal"), ("warnings", "Warning")):
        old, new = ({_told(fault): fault for fault in _members(plan.get(key))} for plan in (before, after))
        for text in (text for text in old if text not in new):
            yield Change("warnings", subject, text, "", old[text], None, "better")
        for text in (text for text in new if text not in old):
            yield Change("warnings", subject, "", text, None, new[text], "worse")


def _told(fault: Json) -> str:
    words = " ".join(str(fault[key]) for key in ("fact", "consequence", "fix") if fault.get(key))
    return f"{fault.get('key', '')}: {words}"


def _settings(before: Json, after: Json) -> Iterator[Change]:
    """Yield settings with other values, each with who set it. Entries of a map are settings of their own."""
    if not (before.get("settings") and after.get("settings")):
        return
    old, new = ({**dict(_entries(plan["settings"]))} for plan in (before, after))
    for path in [*old, *(path for path in new if path not in old)]:
        if old.get(path) != new.get(path) or (path in old) != (path in new):
            was, now = (
                f"{as_text(values[path]) or 'chosen'}{_by(plan, path)}" if path in values else ""
                for values, plan in ((old, before), (new, after))
            )
            yield Change("settings", path, was, now, old.get(path), new.get(path))


def _entries(settings: Json) -> Iterator[tuple[str, Any]]:
    for path, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{path}.{key}", entry) for key, entry in value.items())
        else:
            yield path, value


def _by(plan: Json, path: str) -> str:
    origin = _at(plan, ("origins", path))
    return f" ({origin})" if isinstance(origin, str) else ""


def _command(before: Json, after: Json) -> Iterator[Change]:
    old, new = (_by_flag(plan["vllm"]["argv"]) for plan in (before, after))
    for flag in [*old, *(flag for flag in new if flag not in old)]:
        if old.get(flag) != new.get(flag) and flag != "--served-model-name":  # it holds the hash of all others
            was, now = ((flags[flag] or "set") if flag in flags else "" for flags in (old, new))
            yield Change("command", flag, was, now, old.get(flag), new.get(flag))
    variables = [plan["vllm"]["env"] for plan in (before, after)]
    for name in sorted({*variables[0], *variables[1]}):
        if variables[0].get(name) != variables[1].get(name):
            one, other = (env.get(name) for env in variables)
            yield Change("command", name, as_text(one), as_text(other), one, other)


def _by_flag(argv: list[str]) -> dict[str, str]:
    """Return flags with their values; the words before the first flag count as `vllm serve`."""
    flags: dict[str, list[str]] = {"vllm serve": []}
    current = "vllm serve"
    for word in itertools.islice(argv, 2, None):
        if word.startswith("--"):
            current = word
            flags[current] = []
        else:
            flags[current].append(word)
    return {flag: " ".join(values) for flag, values in flags.items()}


_STACK = "pulumi:pulumi:Stack"
"""Not compared: its name is the stack's own."""


def _resources(before: Json, after: Json) -> Iterator[Change]:
    """Yield resources that only one of the plans has, then what is set otherwise on those that both have."""
    if any(plan.get("resources") is None or plan.get("resourcesMissing") for plan in (before, after)):
        return
    old, new = (
        {(row["type"], row["name"]): row for row in plan["resources"] if row["type"] != _STACK}
        for plan in (before, after)
    )
    counts = [len(plan["resources"]) for plan in (before, after)]
    if counts[0] != counts[1]:
        yield Change("resources", "Resources", str(counts[0]), str(counts[1]), counts[0], counts[1])
    for kind, name in sorted(old.keys() - new.keys(), key=lambda key: key[1]):
        yield Change("resources", f"− {name}", kind.rpartition(":")[2], "", kind)
    for kind, name in sorted(new.keys() - old.keys(), key=lambda key: key[1]):
        yield Change("resources", f"+ {name}", "", kind.rpartition(":")[2], None, kind)
    for key in sorted(old.keys() & new.keys(), key=lambda key: key[1]):
        yield from _inputs(key[1], old[key], new[key])


def _inputs(name: str, before: Json, after: Json) -> Iterator[Change]:
    if not ("inputs" in before and "inputs" in after):
        return
    sides = [
        {**dict(properties(row["inputs"])), **dict(properties(row.get("options") or {}, "options"))}
        for row in (before, after)
    ]
    old, new = sides
    for path in sorted({*old, *new}):
        if path not in old or path not in new or old[path] != new[path]:
            texts = side_by_side(old.get(path), new.get(path))
            yield Change("resources", f"{name}: {path}", *texts, old.get(path), new.get(path))


_ELSEWHERE: tuple[Path, ...] = (
    ("schema",),
    ("stack",),
    ("verdict",),
    ("settings",),
    ("resources",),
    ("resourcesMissing",),
    ("refusals",),
    ("warnings",),
    ("vllm", "argv"),
    ("vllm", "env"),
    ("diff",),
    ("comparison",),
    *_TEXTS.values(),
)
"""Parts of a plan that have rows of their own, or are named as not compared."""


def _other(before: Json, after: Json, told: list[Change]) -> Iterator[Change]:
    """Yield every further value that differs, by its path: figures without a row of their own, or below its precision."""
    subjects = {change.subject for change in told}
    shown = {figure.path for figure in (*_PRICES, *_FIGURES) if figure.subject in subjects}
    shown |= {path[:-1] for path in shown if path[-1] == "mid"}
    shown |= {("origins", *change.subject.split(".")) for change in told if change.section == "settings"}
    shown |= {("vllm", "specHash")} if any(change.section == "command" for change in told) else set()
    old, new = (dict(_leaves(plan)) for plan in (before, after))
    for path in [*old, *(path for path in new if path not in old)]:
        if any(path[: len(part)] == part for part in _ELSEWHERE) or old.get(path) == new.get(path):
            continue
        if path in shown or ("origins", *".".join(path[1:]).split(".")) in shown:
            continue
        if not (_knows(before, path) and _knows(after, path)):
            continue  # an earlier version of the program did not write this key
        texts = side_by_side(old.get(path), new.get(path))
        yield Change("other", ".".join(path), *texts, old.get(path), new.get(path))


def _leaves(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value with its path. A band is one value, and so is a list of plain values."""
    if isinstance(data, Mapping) and data and {*data} != {"low", "mid", "high"}:
        for key, value in data.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(data, list) and any(isinstance(member, Mapping) for member in data):
        for index, value in enumerate(data):
            yield from _leaves(value, (*path, str(index)))
    else:
        yield path, data


def _knows(plan: Json, path: Path) -> bool:
    """Whether the program that wrote a plan knew a key: what is null or a list may have lost its members, a group not."""
    value: Any = plan
    for key in path:
        if not isinstance(value, Mapping):
            return True
        if key not in value:
            return False
        value = value[key]
    return True
