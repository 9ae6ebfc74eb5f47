"""An answer of `gemma4 metrics` in words: a table with a column for each server, or a line for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pydantic.alias_generators import to_camel
from rich.console import Group, RenderableType
from rich.text import Text

from infra.ops.answers.metrics_answers import LoadData, MetricsAnswer
from infra.planning.report.tables import Column, FittedTable
from infra.planning.units import read_count, read_duration, read_rate, read_seconds, read_tokens_per_second

UNKNOWN = "unknown"
NOTHING_YET = "-"
TOGETHER = "in all"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


@dataclass(frozen=True)
class _Figure:
    """A row: its name, where its value stands in an answer, and how that is read."""

    name: str
    path: str
    read: Callable[[float], str]

    def cell(self, load: LoadData) -> str:
        first, *further = self.path.split(".")
        if to_camel(first) in load.unknown:
            return UNKNOWN
        value = reduce(
            lambda found, part: None if found is None else getattr(found, part), further, getattr(load, first)
        )
        return NOTHING_YET if value is None else self.read(value)


_FIGURES = (
    _Figure("running", "running", read_count),
    _Figure("waiting", "waiting", read_count),
    _Figure("KV cache in use", "kv_usage", _percent),
    _Figure("  of tokens", "kv_tokens", read_count),
    _Figure("prompts read", "prompt_tokens_per_second", read_tokens_per_second),
    _Figure("answers written", "generation_tokens_per_second", read_tokens_per_second),
    _Figure("first token, p50", "ttft.p50_s", read_seconds),
    _Figure("             p90", "ttft.p90_s", read_seconds),
    _Figure("            mean", "ttft.mean_s", read_seconds),
    _Figure("next token,  p50", "inter_token.p50_s", read_seconds),
    _Figure("             p90", "inter_token.p90_s", read_seconds),
    _Figure("            mean", "inter_token.mean_s", read_seconds),
    _Figure("prefix cache hits", "prefix_hit_rate", _percent),
    _Figure("preemptions", "preemptions", read_count),
    _Figure("drafts accepted", "acceptance_rate", _percent),
    _Figure("accepted length", "accepted_length", "{:.2f}".format),
)


def metrics_table(answer: MetricsAnswer) -> Group:
    """Return the figures below each other, with a column for each server, and for all where there are several."""
    loads = [(member.name, member.load) for member in answer.members if member.load is not None]
    if len(answer.members) > 1 and answer.together is not None:
        loads.append((TOGETHER, answer.together))
    parts: list[RenderableType] = [Text(_heading(answer))]
    if loads:
        columns = [Column(""), *(Column(name, figures=True) for name, _ in loads)]
        parts.append(FittedTable(columns, list(_rows([load for _, load in loads]))))
    for member in answer.members:
        if member.error:
            parts.append(Text(f"{f'{member.name}: ' if member.name else ''}no answer: {member.error}", style="red"))
    parts += [Text(f"warning: {warning}", style="yellow") for warning in answer.warnings]
    parts += [Text(f"note: {note}", style="dim") for note in [*answer.notes, *_explained(answer)]]
    return Group(*parts)


_LINE = "{:<8} {:<7} {:>4} {:>4} {:>5} {:>12} {:>12} {:>12} {:>5}".format
LINE_HEADING = _LINE("time", "server", "run", "wait", "KV", "TTFT p50/90", "ITL p50/90", "tok/s in/out", "hits")
"""Above the lines; TTFT is the time to the first token, ITL that to the next one."""


def metrics_lines(answer: MetricsAnswer) -> list[str]:
    """Return a line for each server, one for all where there are several, and one for each warning."""
    at = datetime.fromisoformat(answer.at).astimezone().strftime("%H:%M:%S")
    rows = [(member.name, member.load, member.error) for member in answer.members]
    rows += [(TOGETHER, answer.together, "")] if len(rows) > 1 else []
    lines = [
        _line(at, name, load) if load else " ".join(filter(None, (at, name, "no answer:", error)))
        for name, load, error in rows
        if load or error
    ]
    return lines + [f"{at} warning: {warning}" for warning in answer.warnings]


def _line(at: str, name: str, load: LoadData) -> str:
    cells = {
        figure.path: figure.cell(load).replace(UNKNOWN, "?").replace(" tok/s", "").replace(" ", "")
        for figure in _FIGURES
    }
    return _LINE(
        at,
        name,
        cells["running"],
        cells["waiting"],
        cells["kv_usage"],
        f"{cells['ttft.p50_s']}/{cells['ttft.p90_s']}",
        f"{cells['inter_token.p50_s']}/{cells['inter_token.p90_s']}",
        f"{cells['prompt_tokens_per_second']}/{cells['generation_tokens_per_second']}",
        cells["prefix_hit_rate"],
    )


def _heading(answer: MetricsAnswer) -> str:
    span = f"the last {read_rate(answer.speeds_over_s)} s"
    if answer.over == "interval":
        return f"{answer.endpoint} over {span}"
    ages = {member.name: read_duration(member.running_for_s) for member in answer.members if member.running_for_s}
    began = ", ".join(f"{name} {age} ago".strip() for name, age in ages.items())
    return f"{answer.endpoint} since its start{f' ({began})' if began else ''}; tokens a second over {span}"


def _rows(loads: list[LoadData]) -> Iterator[tuple[str, ...]]:
    for figure in _FIGURES:
        yield (figure.name, *(figure.cell(load) for load in loads))
    reasons = dict.fromkeys(reason for load in loads for reason in load.finished or {})
    for reason in reasons:
        cells = [UNKNOWN if load.finished is None else read_count(load.finished.get(reason, 0)) for load in loads]
        yield (f"finished: {reason}", *cells)
    if not reasons:
        yield ("finished", *(UNKNOWN if load.finished is None else "0" for load in loads))


def _explained(answer: MetricsAnswer) -> Iterator[str]:
    """What a reader may ask of cells that hold no number."""
    unknown = {key for member in answer.members if member.load for key in member.load.unknown}
    if "acceptanceRate" in unknown:
        yield "a server without speculation does not report what was accepted"
    if others := sorted(unknown - {"acceptanceRate", "acceptedLength"}):
        yield f"this version of vLLM does not report: {', '.join(others)}"
