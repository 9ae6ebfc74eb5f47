"""What changes between two plans in their JSON form: price, figures, settings, command, and every input of every resource.

`compare` covers the whole of both plans. What has no row of its own is a change of section `other`, so that no change at
all means that the two plans are the same; what one of the two does not hold is named as not compared.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra.planning.names import names_of
from infra.planning.report.change import RANKS, Change, Json, Keys, differing, knows, value_at
from infra.planning.report.figure_changes import (
    FIGURES,
    PRICES,
    TEXTS,
    figure_changes,
    of_one_server,
    price_changes,
    price_sentence,
)
from infra.planning.report.properties import as_text, properties, side_by_side
from infra.planning.report.running_effects import effects_on_running
from infra.planning.report.saved_plan import members


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
        *price_changes(old, after),
        *figure_changes(old, after),
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


def _verdict(before: Json, after: Json) -> Iterator[Change]:
    old, new = before["verdict"], after["verdict"]
    if old != new:
        tone = "better" if RANKS.index(new) > RANKS.index(old) else "worse"
        yield Change("verdict", "Verdict", old, new, old, new, tone)


def _warnings(before: Json, after: Json) -> Iterator[Change]:
    """Yield refusals and warnings that only one of the plans has; one that differs in its figures alone is one change."""
    for key, subject in (("refusals", "Refusal"), ("warnings", "Warning")):
        old, new = ({_sentence(fault): fault for fault in members(plan.get(key))} for plan in (before, after))
        gone, come = [text for text in old if text not in new], [text for text in new if text not in old]
        for text in gone:
            alike = next((one for one in come if _without_figures(one) == _without_figures(text)), None)
            if alike is None:
                yield Change("warnings", subject, text, "", old[text], None, "better")
            else:
                come.remove(alike)
                yield Change("warnings", subject, text, alike, old[text], new[alike])
        for text in come:
            yield Change("warnings", subject, "", text, None, new[text], "worse")


def _without_figures(text: str) -> str:
    return re.sub(r"\d[\d.,]*", "#", text)


def _sentence(fault: Json) -> str:
    words = " ".join(str(fault[key]) for key in ("fact", "consequence", "fix") if fault.get(key))
    return f"{fault.get('key', '')}: {words}"


def _settings(before: Json, after: Json) -> Iterator[Change]:
    """Yield settings with other values, each with who set it. Entries of a map are settings of their own."""
    if not (before.get("settings") and after.get("settings")):
        return
    old, new = (dict(_entries(plan["settings"])) for plan in (before, after))
    for path in differing(old, new):
        texts = []
        for values, plan in ((old, before), (new, after)):
            origin = value_at(plan, ("origins", path))
            by = f" ({origin})" if isinstance(origin, str) else ""
            texts.append(f"{as_text(values[path]) or 'chosen'}{by}" if path in values else "")
        was, now = texts
        yield Change("settings", path, was, now, old.get(path), new.get(path))


def _entries(settings: Json) -> Iterator[tuple[str, Any]]:
    for path, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{path}.{key}", entry) for key, entry in value.items())
        else:
            yield path, value


def _command(before: Json, after: Json) -> Iterator[Change]:
    old, new = (_by_flag(plan["vllm"]["argv"]) for plan in (before, after))
    for flag in differing(old, new):
        if flag != "--served-model-name":  # it holds the hash of all others
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
            flags.setdefault(current, [])
        else:
            flags[current].append(word)
    return {flag: " ".join(values) for flag, values in flags.items()}


def _resources(before: Json, after: Json) -> Iterator[Change]:
    """Yield resources that only one of the plans has, then what is set otherwise on those that both have."""
    if any(plan.get("resources") is None or plan.get("resourcesMissing") for plan in (before, after)):
        return
    named_after_stack = "pulumi:pulumi:Stack"
    old, new = (
        {(row["type"], row["name"]): row for row in plan["resources"] if row["type"] != named_after_stack}
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
        rows = (old[key], new[key])
        if not all("inputs" in row for row in rows):
            continue
        was, now = (
            {**dict(properties(row["inputs"])), **dict(properties(row.get("options") or {}, "options"))} for row in rows
        )
        for path in sorted(differing(was, now)):
            texts = side_by_side(was.get(path), now.get(path))
            yield Change("resources", f"{key[1]}: {path}", *texts, was.get(path), now.get(path))


_ELSEWHERE: tuple[Keys, ...] = (
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
    *TEXTS.values(),
)
"""Parts of a plan that have rows of their own, or are named as not compared."""


def _other(before: Json, after: Json, told: list[Change]) -> Iterator[Change]:
    """Yield every further value that differs, by its path: figures without a row of their own, or below its precision."""
    subjects = {change.subject for change in told}
    shown = {figure.path for figure in (*PRICES, *FIGURES) if figure.subject in subjects}
    shown |= {path[:-1] for path in shown if path[-1] == "mid"}
    shown |= {("origins", *change.subject.split(".")) for change in told if change.section == "settings"}
    shown |= {("vllm", "specHash")} if any(change.section == "command" for change in told) else set()
    old, new = (dict(_leaves(plan)) for plan in (before, after))
    for path in [*old, *(path for path in new if path not in old)]:
        if any(path[: len(part)] == part for part in _ELSEWHERE) or old.get(path) == new.get(path):
            continue
        if path in shown or ("origins", *".".join(path[1:]).split(".")) in shown:
            continue
        if not (knows(before, path) and knows(after, path)):
            continue  # an earlier version of the program did not write this key
        if all(of_one_server(plan, path) for plan in (before, after)):
            continue
        texts = side_by_side(old.get(path), new.get(path))
        yield Change("other", ".".join(path), *texts, old.get(path), new.get(path))


def _leaves(data: Any, path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yield every value with its path. A band is one value, and so is a list of plain values."""
    if isinstance(data, Mapping) and data and {*data} != {"low", "mid", "high"}:
        for key, value in data.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(data, list) and any(isinstance(member, Mapping) for member in data):
        for index, value in enumerate(data):
            yield from _leaves(value, (*path, str(index)))
    else:
        yield path, data
