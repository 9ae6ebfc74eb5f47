"""Writes the error of a failed check or start: the fact, the likely cause and the fix, which the catalog of failures knows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from infra.catalog import catalog
from infra.catalog.failures import KnownFailure
from infra.errors import ServingError
from infra.serving.failure_search import ERROR, first_failure
from infra.serving.server_errors import AnswerError, FailureKind, sentence

CANNOT_GENERATE = "the server is healthy but cannot generate"
TAIL = 15
"""The most log lines at the end of an error."""
_WAITING = frozenset({"ready", "models"})
_DIED = frozenset({FailureKind.ENGINE_DEAD, FailureKind.CUT, FailureKind.UNREACHABLE, FailureKind.UNAVAILABLE})
"""What a server that broke on a request looks like from outside."""
_ECHO = re.compile(r"Ready condition status changed|Logs URL|For more troubleshooting guidance")
"""Lines in which Cloud Run repeats a revision's condition in its log."""


def check_failure(stage: str, error: ServingError, log: Sequence[str] = (), platform: str = "") -> ServingError:
    """Return the error that a user reads: stage, the server's answer, likely cause, fix. `log` helps to find the cause.

    `platform` is the platform's own reason why the server did not come up, with what to do: then no other is guessed.
    """
    broke = _broke(stage, error)
    fact = f"{CANNOT_GENERATE}: {error}" if broke else str(error)
    parts = [f"serving check, stage {stage}: {sentence(fact)}"]
    if error.status not in (401, 403):  # such an answer already says which role is missing
        # A healthy server's log is full of warnings that do not explain a wrong answer.
        lines = [line for entry in log for line in entry.splitlines()] if broke or stage == "ready" else []
        cause = first_failure([str(error), *lines], "log", "answer")
        cause = cause or (None if platform else _of_stage(stage, error))
        parts += [f"Likely: {cause.cause}. {cause.fix}"] if cause else []
        parts += [platform] if platform else []
    return ServingError(" ".join(parts), stage=stage, status=error.status)


def likely_cause(stage: str, error: ServingError) -> KnownFailure:
    """Return what an answer names as the cause of its failure, else what usually lies behind a failure at this stage."""
    return first_failure([str(error)], "log", "answer") or _of_stage(stage, error)


def start_failure(about: str, problem: str, log: Sequence[str], *, busy: str = "", serving: str = "") -> ServingError:
    """Return the error for a new server that Cloud Run gave up: `problem` (Google's), cause, fix, last log lines.

    `busy` is what the server did last, `serving` the older revision that goes on serving.
    """
    lines = error_lines(log)
    likely = _of_start(problem, lines, busy)
    parts = [
        f"{about} did not come up: {sentence(problem)}",
        f"{serving} goes on serving." if serving else "",
        likely or "Its log holds the first error.",
        "The next `pulumi up` tries again with a new revision, whether anything else has changed or not.",
    ]
    return ServingError("\n".join([" ".join(filter(None, parts)), *quoted_log(lines)]), stage="start")


def quoted_log(lines: Sequence[str]) -> list[str]:
    """Return a log's lines as the end of an error; an empty list where there are none."""
    return ["The server's last log lines:", *(f"    {line}" for line in lines)] if lines else []


def error_lines(log: Sequence[str]) -> list[str]:
    """Return the last lines of a log, and before them the latest errors further above.

    vLLM writes some forty lines about "the root cause above" after the error itself.
    """
    lines = [line for entry in log for line in entry.splitlines() if line.strip() and not _ECHO.match(line)]
    earlier = {found.group(): line for line in lines[:-TAIL] if (found := ERROR.search(line))}
    shown = [*list(earlier.values())[-3:], *lines[-TAIL:]]
    if re.search("driver", "\n".join(shown), re.IGNORECASE):
        shown = [*[line for line in lines[:-TAIL] if "start_on_gpu" in line][-1:], *shown]
    return shown


def _of_start(problem: str, lines: Sequence[str], busy: str) -> str:
    found = first_failure(lines, "log") or first_failure([problem], "condition")
    if not found and busy and not any(ERROR.search(line) for line in lines):
        found = catalog().failures["start-window-too-short"]
    return f"Likely: {found.cause.replace('{doing}', busy)}. {found.fix}" if found else ""


def _kind(error: ServingError) -> FailureKind | None:
    return error.kind if isinstance(error, AnswerError) else None


def _broke(stage: str, error: ServingError) -> bool:
    """Return whether the engine broke on the request, after the server had said that it is healthy."""
    kind = _kind(error)
    return stage not in _WAITING and (kind in _DIED or (kind is FailureKind.FAILED and stage == "chat"))


def _of_stage(stage: str, error: ServingError) -> KnownFailure:
    """Return the cause of a failure that neither the answer nor the log explains."""
    causes, kind = catalog().failures, _kind(error)
    if stage == "models" and "still served" in str(error):
        return causes["old-server-serves"]
    if _broke(stage, error):
        return causes["engine-breaks"]
    if kind is FailureKind.BUSY:
        return causes["instances-busy"]
    if kind is FailureKind.SILENT:
        return causes["engine-slow"]
    return next((cause for cause in causes.values() if stage in cause.stages), causes["unexplained"])
