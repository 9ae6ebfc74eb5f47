"""The flags of `vllm serve`, a table for each version on file: which exist, what they take, what replaced removed ones.

A wrong flag is cheap to find here and dear to find later: vLLM refuses it only when the machine is running, and unknown
names of parsers, load formats and quantization methods only while it loads. Abbreviations, which vLLM takes, are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from infra.catalog.file_reader import DATA
from infra.catalog.flag_values import Flag, member_problem, value_problem
from infra.catalog.loader import catalog
from infra.catalog.schema import Source
from infra.catalog.versions import version_numbers
from infra.errors import CatalogError
from infra.suggestions import similar

REMOVED: Mapping[str, str] = {
    "--disable-log-requests": "Leave it out: requests are only logged with enable-log-requests.",
    "--enable-reasoning": "Leave it out: serving.reasoning (--reasoning-parser) is enough.",
    "--expert-parallel-size": "Write enable-expert-parallel: true; the size follows from the tensor parallel size.",
    "--guided-decoding-backend": "Write structured-outputs-config: {backend: ...}.",
    "--num-scheduler-steps": "Leave it out: scheduling overlaps with the device by itself (serving.asyncScheduling).",
    "--num-speculative-tokens": "Write serving.speculation.tokens.",
    "--speculative-model": "Write serving.speculation.method.",
    "--swap-space": "Leave it out; to keep KV cache in host memory write kv-offloading-size.",
    "--task": "Write runner or convert.",
    "--use-v2-block-manager": "Leave it out: there is only one block manager now.",
}
"""Flags of older versions that vLLM 0.32 calls unrecognized (each tried on its parser), with what to write instead."""

TABLES: Mapping[str, Path] = {
    path.stem.removeprefix("vllm_flags-"): path
    for path in sorted(DATA.glob("vllm_flags-*.json"), key=lambda path: version_numbers(path.stem))
}
"""The file of each version's flags, oldest version first."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a flag, in three sentences: the fact, what it leads to, and what to write instead."""

    fact: str
    consequence: str
    fix: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.fact, self.consequence, self.fix) if part)


class FlagTable:
    """The flags of one vLLM version. Spellings may be written with underscores and without the leading dashes."""

    def __init__(
        self, version: str, flags: Iterable[Flag], values: Mapping[str, tuple[str, ...]], source: Source
    ) -> None:
        self.version = version
        self.flags = {flag.name: flag for flag in flags}
        self.values = values
        """By flag: names that vLLM looks up only while starting."""
        self.source = source

    def find(self, spelling: str) -> Flag | None:
        """Return the flag of a full spelling, of its `--no-` twin or dotted form (`--limit-mm-per-prompt.image`), else None."""
        return self._by_spelling.get(normal_spelling(spelling).partition(".")[0])

    def main_spelling(self, spelling: str) -> str:
        """Return the flag's main spelling, whichever was written; an unknown flag as it would be sent."""
        flag = self.find(spelling)
        return flag.name if flag else normal_spelling(spelling)

    def check(self, spelling: str, value: Any) -> list[Problem]:
        """Return everything that is wrong with `spelling: value`, as YAML gave it; an empty list where vLLM takes it."""
        flag = self.find(spelling)
        if flag is None:
            return [self._unknown(spelling)]
        written = normal_spelling(spelling)
        key, _, path = written.partition(".")
        if path:
            return self._dotted(flag, key, path)
        if flag.kind == "switch":
            return self._switch(flag, written, value)
        problem = value_problem(flag, value)
        if problem is not None:
            return [Problem(f"{_shown(value)} {problem.fact}", self._stops(), problem.fix)]
        return self._looked_up(flag, value)

    def _unknown(self, spelling: str) -> Problem:
        written = normal_spelling(spelling)
        key = written.partition(".")[0]
        if "=" in written:
            return Problem(
                "has its value in the name.", self._stops(), f"Write {_bare(written).replace('=', ': ', 1)}."
            )
        if elsewhere := [version for version in TABLES if version != self.version and flag_table(version).find(key)]:
            when = _when(self.version, elsewhere)
            fix = REMOVED.get(key, "Leave it out, or name an image of that version under images.serving.")
            return Problem(f"is a flag of vLLM {when}, not of {self.version}.", self._stops(), fix)
        if key in REMOVED:
            return Problem(f"is no longer a flag in vLLM {self.version}.", self._stops(), REMOVED[key])
        longer = sorted(spelling for spelling in self._by_spelling if spelling.startswith(key))
        if len(longer) == 1:
            consequence = f"vLLM would read it as {longer[0]}, until another flag begins with the same letters."
            return Problem("is an abbreviation.", consequence, f"Write {_bare(longer[0])} in full.")
        short = self._by_spelling.get(key[1:])
        near = (
            [short.name]
            if short
            else (longer[:3] or similar(key, [name for name in self._by_spelling if name[:2] == "--"], cutoff=0.75))
        )
        fix = f"Did you mean {' or '.join(_bare(name) for name in near)}?" if near else "See vllm serve --help=all."
        return Problem(f"is not a flag of vLLM {self.version}.", self._stops(), fix)

    def _dotted(self, flag: Flag, key: str, path: str) -> list[Problem]:
        if flag.kind not in ("json", "object", "text-or-object") or not all(path.split(".")):
            fact, fix = f"{key} has no members to set with a dot.", f"Write {_bare(flag.name)}: value."
            return [Problem(fact, self._stops(), fix)]
        problem = member_problem(flag, [path.split(".")[0].rstrip("+")])
        return [Problem(f"{_shown(path)} {problem.fact}", self._stops(), problem.fix)] if problem else []

    def _switch(self, flag: Flag, written: str, value: Any) -> list[Problem]:
        name = _bare(flag.name)
        if not isinstance(value, bool):
            return [
                Problem(f"{_shown(value)} is not a value of a switch.", self._stops(), f"Write {_bare(written)}: true.")
            ]
        if value:
            return []
        if written in flag.negatives:
            return [Problem("negates twice.", self._stops(), f"Write {name}: true.")]
        if not flag.negatives:
            return [Problem("cannot be switched off.", self._stops(), "Leave it out: off is the default.")]
        return []

    def _looked_up(self, flag: Flag, value: Any) -> list[Problem]:
        known = self.values.get(flag.name)
        if known is None or value in known or (flag.optional and value == "None"):
            return []
        near = similar(str(value), known)
        fix = f"Write {' or '.join(near)}." if near else f"Write one of: {', '.join(known)}."
        consequence = f"vLLM {self.version} would only notice while it starts, after the machine is paid for."
        return [Problem(f"{_shown(value)} is not known to it.", consequence, fix)]

    def _stops(self) -> str:
        return f"vLLM {self.version} would stop at its command line, after the machine is paid for."

    @cached_property
    def _by_spelling(self) -> dict[str, Flag]:
        return {spelling: flag for flag in self.flags.values() for spelling in flag.spellings}


def flag_table(version: str | None = None) -> FlagTable:
    """Return the flags of a version of vLLM, of the nearest one on file for others, and of the default images for None."""
    wanted = version_numbers(version or catalog().images["gpu"].vllm_version or "")
    older = [known for known in TABLES if version_numbers(known)[:2] <= wanted[:2]]
    return _table(older[-1] if older else next(iter(TABLES)))


@cache
def _table(version: str) -> FlagTable:
    return read_flags(TABLES[version])


def read_flags(path: Path) -> FlagTable:
    """Read a table written by dump_flags.py. Raises CatalogError where it is malformed."""
    try:
        data = json.loads(path.read_text("utf-8"))
        rows: list[dict[str, Any]] = [
            {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
            for row in data["flags"]
        ]
        values = {flag: tuple(names) for flag, names in data["values"].items()}
        return FlagTable(data["version"], [Flag(**row) for row in rows], values, Source.model_validate(data["source"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CatalogError(f"{path.name} cannot be read: {error}. Write it anew with dump_flags.py.") from error


def normal_spelling(spelling: str) -> str:
    """Return a spelling as vLLM reads it: with two dashes, and with hyphens up to the first dot."""
    if re.fullmatch(r"-[A-Za-z]\w*", spelling):
        return spelling
    key, dot, path = spelling.removeprefix("--").partition(".")
    return f"--{key.replace('_', '-')}{dot}{path}"


def _when(version: str, elsewhere: Sequence[str]) -> str:
    """Return since or until which version a flag exists that `version` lacks; `elsewhere` has it, oldest first."""
    numbers = version_numbers(version)
    earlier = [known for known in elsewhere if version_numbers(known) < numbers]
    return f"{earlier[-1]} and before" if earlier else f"{elsewhere[0]} and later"


def _bare(spelling: str) -> str:
    return spelling.lstrip("-")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
