"""What changes between two plans, as a reviewer reads it: memory, capacity, speed, start, cost, command, resources."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.planning.units import read_duration, read_rate, read_seconds, read_usd

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One line of a diff; an empty side means absent there. `worse`/`better` are judged only where that is plain."""

    subject: str
    before: str
    after: str
    tone: str = ""

    def as_json(self) -> dict[str, str]:
        """The change as data."""
        return {"subject": self.subject, "before": self.before, "after": self.after, "tone": self.tone}


def changes(before: Json, after: Json) -> list[Change]:
    """Every difference that matters between two plans in their JSON form, the verdict first."""
    return [
        *_plain(before, after),
        *_numbers(before, after),
        *_flags(before["vllm"]["argv"], after["vllm"]["argv"]),
        *_environment(before["vllm"]["env"], after["vllm"]["env"]),
        *_resources(before.get("resources"), after.get("resources")),
    ]


COMPARED = "Compared are verdict, machine, figures, command, members and resources; how a resource is set up is not."
"""What a reader of `changes` must know who finds none."""


def misshapen(data: Json) -> list[str]:
    """Where a plan in JSON form is not as `changes` reads it; empty where it may be compared. A key may be missing."""
    wrong = [path for _, path in (("", ("stack",)), *_TEXTS) if not _is_text(_at(data, path))]
    wrong += [path for _, path, _, _ in _NUMBERS if not _is_number(_at(data, path))]
    argv, env, resources = (_at(data, path) for path in (("vllm", "argv"), ("vllm", "env"), ("resources",)))
    if not isinstance(argv, list) or not _is_text(argv):
        wrong.append(("vllm", "argv"))
    if not isinstance(env, Mapping) or not _is_text(list(env.values())):
        wrong.append(("vllm", "env"))
    if resources is not None and not (isinstance(resources, list) and all(_is_resource(row) for row in resources)):
        wrong.append(("resources",))
    if data["verdict"] not in _RANKS:
        wrong.append(("verdict",))
    return [".".join(path) for path in dict.fromkeys(wrong)]


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
    return isinstance(row, Mapping) and all(isinstance(row.get(key), str) for key in ("type", "name"))


_TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Verdict", ("verdict",)),
    ("Model", ("model", "id")),
    ("Accelerator", ("accelerator", "id")),
    ("Region", ("accelerator", "region")),
    ("Zone", ("accelerator", "zone")),
    ("Slices", ("slices", "names")),
    ("Provisioning", ("slices", "provisioning")),
    ("Image", ("vllm", "image")),
    ("CUDA compatibility", ("vllm", "cudaCompatibility")),
    ("Ingress", ("access", "ingress")),
    ("May call", ("access", "invokers")),
    ("May deploy", ("access", "deployers")),
)


def _plain(before: Json, after: Json) -> Iterator[Change]:
    for subject, path in _TEXTS:
        old, new = _at(before, path), _at(after, path)
        if old != new:
            yield Change(subject, _said(old), _said(new), _tone(subject, old, new))


def _said(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value or "")


_RANKS = ("refused", "tight", "fits")


def _tone(subject: str, old: Any, new: Any) -> str:
    if subject != "Verdict":
        return ""
    return "better" if _RANKS.index(new) > _RANKS.index(old) else "worse"


_NUMBERS: tuple[tuple[str, tuple[str, ...], Any, int], ...] = (
    ("KV cache", ("memory", "kvBytesPerDevice", "mid"), lambda v: f"{v / 1024**3:.1f} GiB a device", 1),
    ("Capacity", ("capacity", "tokens"), lambda v: f"{v:,.0f} tokens", 0),  # grows with maxModelLen in the same memory
    ("Requests of full length", ("capacity", "concurrencyAtMaxModelLen"), lambda v: f"{v:.1f}", 0),
    ("Requests held", ("capacity", "requestsOfWorkload"), lambda v: f"{v:,}", 1),
    ("Requests at once", ("speed", "planned", "requests"), lambda v: f"{v}", 0),
    ("Speed alone", ("speed", "alone", "tokensPerSecond", "mid"), lambda v: f"≈ {read_rate(v)} tok/s", 1),
    ("Speed as planned", ("speed", "planned", "tokensPerSecond", "mid"), lambda v: f"≈ {read_rate(v)} tok/s", 1),
    ("First token", ("speed", "ttftS", "mid"), lambda v: f"≈ {read_seconds(v)}", -1),
    ("Start from zero", ("startup", "fromZeroS", "mid"), lambda v: f"≈ {read_duration(v)}", -1),
    ("Probe window", ("probes", "startup", "windowS"), read_duration, 0),
    ("Slices end after", ("slices", "maxRunDurationS"), read_duration, 0),
    ("Replicas at most", ("cost", "replicas"), lambda v: f"{v}", 0),
    ("$/hour running", ("cost", "usdPerHour"), read_usd, -1),
    ("$ until the slices end", ("cost", "usdPerRun"), read_usd, -1),
    ("$/month idle", ("cost", "usdPerMonthIdle"), read_usd, -1),
    ("$/M output tokens", ("cost", "usdPerMillionOutputTokens", "planned", "mid"), lambda v: f"≈ {read_usd(v)}", -1),
)
"""Subject, path, how it reads, and whether more is better (1), worse (-1) or neither (0)."""


def _numbers(before: Json, after: Json) -> Iterator[Change]:
    """Figures that differ; a refused plan has none, since nothing of it would be created."""
    for subject, path, read, direction in _NUMBERS:
        old, new = (None if plan["verdict"] == "refused" else _at(plan, path) for plan in (before, after))
        shown = ["" if value is None else read(value) for value in (old, new)]
        if shown[0] == shown[1]:
            continue
        tone = ""
        if old is not None and new is not None and direction:
            tone = "better" if (new - old) * direction > 0 else "worse"
        percent = f" ({100 * (new / old - 1):+.0f} %)" if old and new is not None else ""
        yield Change(subject, shown[0], shown[1] + percent, tone)


def _flags(before: list[str], after: list[str]) -> Iterator[Change]:
    old, new = _by_flag(before), _by_flag(after)
    for flag in [*old, *(flag for flag in new if flag not in old)]:
        if old.get(flag) != new.get(flag) and flag != "--served-model-name":
            yield Change(flag, _shown(old, flag), _shown(new, flag))


def _by_flag(argv: list[str]) -> dict[str, str]:
    """Flags with their values; the words before the first flag count as `vllm serve`."""
    flags: dict[str, list[str]] = {"vllm serve": []}
    current = "vllm serve"
    for word in itertools.islice(argv, 2, None):
        if word.startswith("--"):
            current = word
            flags[current] = []
        else:
            flags[current].append(word)
    return {flag: " ".join(values) for flag, values in flags.items()}


def _shown(flags: Mapping[str, str], flag: str) -> str:
    return (flags[flag] or "set") if flag in flags else ""


def _environment(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield Change(name, before.get(name, ""), after.get(name, ""))


_STACK = "pulumi:pulumi:Stack"
"""Not compared: its name is the stack's own."""


def _resources(before: list[Json] | None, after: list[Json] | None) -> Iterator[Change]:
    if before is None or after is None:
        return
    old, new = (
        Counter((row["type"], row["name"]) for row in rows if row["type"] != _STACK) for rows in (before, after)
    )
    if sum(old.values()) != sum(new.values()):
        yield Change("Resources", str(sum(old.values())), str(sum(new.values())))
    for kind, name in sorted(old - new):
        yield Change(f"- {kind}", name, "")
    for kind, name in sorted(new - old):
        yield Change(f"+ {kind}", "", name)


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data
