"""The transcript of all messages, written by `make golden`: what was typed or written, what was answered, the exit code."""

from __future__ import annotations

from collections.abc import Iterator

from infra.suggestions import printable
from tests.messages import CASES
from tests.messages.case import Case, answer_to, plan_of

_HEAD = """# Messages

<!-- written by make golden from tests/messages -->

What people type and write wrongly, and the whole answer, word for word. Of a plan with warnings only these are shown.
Nobody is signed in to Google, and whoever is asked over the network is not there."""


def transcript() -> str:
    """Return the text of tests/golden/messages.md: one section for each case."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for heading, cases in CASES.items():
        yield f"\n## {heading}"
        for case in cases:
            yield from _section(case)


def _section(case: Case) -> Iterator[str]:
    yield f"\n### {case.title}\n" if case.title else ""
    if case.file is None and case.title:
        yield f"`Pulumi.x.yaml` is a {case.place}.\n"
    elif case.file is not None:
        text = ascii(case.file) if isinstance(case.file, bytes) else case.file.rstrip("\n")
        yield f"`{case.place}`:\n\n```{case.place.rpartition('.')[2]}"
        yield from (_shortened(printable(line)) for line in text.split("\n"))
        yield "```\n"
    answer = plan_of(case) if case.is_warned else answer_to(case)
    yield f"```text\n$ {printable(case.command)}"
    if case.is_warned:
        yield from (f"Warning {fault}" for fault in answer.faults("warnings"))
    else:
        yield from (stream.rstrip() for stream in (answer.err, answer.out) if stream)
    yield f"[exit code {answer.code}]\n```"


def _shortened(line: str) -> str:
    return line if len(line) <= 120 else f"{line[:119]}…"
