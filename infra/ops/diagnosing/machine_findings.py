"""A machine with a supervisor, a TPU slice or one with GPUs, among what was looked at, and what is found of it."""

from __future__ import annotations

from collections.abc import Iterable

from infra.ops.diagnosing.findings import Diagnosis, Finding, Line, Look, findings_in, quoted
from infra.ops.running.supervised_machine import NOTHING, SupervisedMachine


def look_at_machine(
    diagnosis: Diagnosis, seen: SupervisedMachine, noun: str, name: str, *, state: Iterable[str], said: Iterable[str]
) -> None:
    """Add a machine that is called `name`, a `noun` of its platform: its state in words, and findings unless it is well.

    `said`: what Google says of it, in which the catalog's failures are looked for. Blank words are left out.
    """
    where, words = f"{noun} {name}", " ".join(filter(None, state))
    if seen.supervisor.unreadable:
        diagnosis.looks.append(Look(f"report of {where}", trouble=seen.supervisor.unreadable))
    diagnosis.looks.append(Look(where, words))
    if not seen.serving or seen.next != NOTHING:
        lines = [Line(text) for text in said if text]
        if seen.supervisor.error:
            lines.append(Line(seen.supervisor.error, seen.supervisor.at))
        diagnosis.findings += findings_in(lines, where, "condition", "log") or [
            _needs_attention(seen, noun, where, words, quoted("; ".join(line.text for line in lines) or words))
        ]


def _needs_attention(seen: SupervisedMachine, noun: str, where: str, state: str, evidence: str) -> Finding:
    """Return what `gemma4 status` would say of a machine of which the catalog knows nothing."""
    does = "serves, and needs something" if seen.serving else "does not serve"
    then = f"{seen.next[:1].upper()}{seen.next[1:]}."
    return Finding(f"{noun}-needs-attention", where, f"the {noun} {does}: {state}", then, "sure", evidence)
