"""Finds the likely cause of a failure, and the fix, from the server's answer and its log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from infra.errors import ServingError
from infra.serving.server_errors import AnswerError, FailureKind, sentence

CANNOT_GENERATE = "the server is healthy but cannot generate"
TAIL = 15
"""The most log lines at the end of an error."""
_WAITING = frozenset({"ready", "models"})
_DIED = frozenset({FailureKind.ENGINE_DEAD, FailureKind.CUT, FailureKind.UNREACHABLE, FailureKind.UNAVAILABLE})
"""What a server that broke on a request looks like from outside."""
_ERROR = re.compile(r"\b(?!RuntimeError: Engine core initialization failed)\w*(?:Error|Exception): .*")
_ECHO = re.compile(r"Ready condition status changed|Logs URL|For more troubleshooting guidance")
"""Lines in which Cloud Run repeats a revision's condition in its log."""


@dataclass(frozen=True)
class Cause:
    """A likely cause and its fix. It applies where `pattern` is found in the error or in the log; the first one counts."""

    pattern: str
    likely: str
    fix: str


_DRIVER = "The line start_on_gpu in the log says which driver and which library were found."
_BY_WORDS = (
    Cause(
        r"error 80[34]\b|unsupported display driver|forward compatibility was attempted",
        "CUDA's compatibility library is in use on a driver or a GPU that it does not support",
        f"Write serving.cudaCompatibility: never, or always if it was never before. {_DRIVER}",
    ),
    Cause(
        r"driver version is insufficient|nvidia driver on your system is too old",
        "the host's driver is older than the CUDA that the image is built for",
        f"Write serving.cudaCompatibility: always, or name an image for an older CUDA under images.serving. {_DRIVER}",
    ),
    Cause(
        r"Memory limit of \d+ \w+ exceeded",
        "the instance ran out of main memory, so Cloud Run stopped it",
        "Raise scaling.memoryGib, or lower serving.cpuOffloadGb.",
    ),
    Cause(
        r"No available memory for the cache blocks|larger than the available KV cache memory",
        "weights and activations leave too little device memory for the KV cache",
        "Lower serving.maxModelLen or serving.maxNumBatchedTokens, or raise serving.gpuMemoryUtilization.",
    ),
    Cause(
        r"[kv]_scale must be positive",
        "an fp8 KV cache over a checkpoint that has no usable scales for it",
        "Write serving.kvCacheDtype: auto, or take a checkpoint with calibrated scales.",
    ),
    Cause(
        r"out of memory|OutOfMemory|RESOURCE_EXHAUSTED",
        "the device ran out of memory",
        "Lower serving.gpuMemoryUtilization or serving.maxNumBatchedTokens.",
    ),
    Cause(
        r"LoRA rank \d+ is greater than max_lora_rank",
        "an adapter's rank is larger than the server has room for",
        "Raise serving.adapterRank.",
    ),
    Cause(
        r"LoRAAdapterNotFoundError|doesn't contain tensors|No adapter found",
        "an adapter is not where the server looks for it",
        "Look at serving.adapters, and whether the copy of that adapter is whole: `pulumi up` copies what is missing.",
    ),
    Cause(
        r"While loading [^,]*, expected target modules in|does not yet support DoRA|contains fused 3D MoE weights"
        r"|(?:Unsupported modules_to_save|Adapter bias is not supported)",
        "an adapter changes what vLLM does not adapt",
        "Merge it into its model, or train it as a plain LoRA adapter of the decoder's linear layers.",
    ),
    Cause(
        r"not the adapter ",
        "the server was started without that adapter",
        "Something overrides --lora-modules: look at vllmArgs and at the image's entry point.",
    ),
    Cause(
        r"no slice answered",
        "no TPU slice behind the gateway is up, or the one at work on the request stopped",
        "Look at the slice's log; the request may be repeated.",
    ),
    Cause(
        r"requires? .*--(enable-auto-tool-choice|tool-call-parser)",
        "the server was started without a tool parser",
        "Write serving.tools: true, and no tool flag in vllmArgs; or serving.tools: false if no tools are wanted.",
    ),
    Cause(
        r"At most \d+ \w+\(?s?\)? may be provided|not a multimodal model|does not have an? \w+ tower",
        "the server was started for less than the plan asks for, or the checkpoint lacks that tower",
        "Raise that modality under serving.modalities, or set it to 0.",
    ),
    Cause(
        r"vllm\[audio\]|librosa|soundfile",
        "the image lacks vLLM's audio extra",
        "Write serving.modalities.audio: 0, or build an image with vllm[audio].",
    ),
    Cause(
        r"model `[^`]*` does not exist",
        "the server answers to other names than planned",
        "Something overrides --served-model-name: look at vllmArgs and at the image's entry point.",
    ),
)
_BY_CONDITION = (
    Cause(
        r"\bquota\b",
        "other services, or revisions of this one that serve no longer, hold the region's GPUs, memory or CPUs",
        "The plan's Quota row says what it needs; delete what holds it, or ask for more.",
    ),
    Cause(
        r"secret",
        "the server's account may not read the Hugging Face token yet: a fresh grant needs minutes to count",
        "Wait some minutes.",
    ),
    Cause(
        r"\bimage\b.*(not found|not exist|unauthori[sz]ed|permission|denied|failed to (import|pull|fetch))",
        "Cloud Run cannot fetch the image",
        "Look at images.serving, at the repository's upstream, and whether it may be read.",
    ),
)
_BY_STAGE = {
    "ready": Cause(
        "",
        "the server is still loading, or it crashes at its start",
        "Raise serving.readyTimeout if its log shows it loading; else the log holds its first error.",
    ),
    "models": Cause(
        "",
        "the server was started with other arguments than planned",
        "Something overrides the command: look at vllmArgs, at serving.env and at the image's entry point.",
    ),
    "chat": Cause(
        "",
        "damaged weights, or a dtype that overflows (float16), so that only special tokens come out",
        "Check the checkpoint, that it is an instruction-tuned one (-it), and serving.dtype.",
    ),
    "adapters": Cause(
        "",
        "a damaged adapter, or one that was trained for another checkpoint of this size",
        "Ask the adapter where it was trained, and look at its base model; take it out of serving.adapters meanwhile.",
    ),
    "tools": Cause(
        "",
        "this image's vLLM does not parse Gemma 4's tool calls",
        "Take one that knows the parser gemma4 (0.19 or later), or write serving.tools: false.",
    ),
}
_STILL_OLD = Cause(
    "",
    "the new server did not come up and the old one went on, or the old one still takes the traffic",
    "Read the new server's log for its first error, change what it names, then run `pulumi up`.",
)
_BROKE = Cause(
    "",
    "the engine breaks on its first computation, as an fp8 KV cache without scales or an unsupported kernel does",
    "Read the log for the engine's first error; serving.kvCacheDtype: auto is the first thing to try.",
)
_BUSY = Cause(
    "", "every instance is busy and no further one may start", "Raise scaling.maxInstances, or run it again later."
)
_UNKNOWN = Cause("", "the server does not do what was planned", "Read its log for the first error.")
_SLOW = Cause(
    "",
    "the engine hangs, or it compiles for this input for the first time",
    "Run `pulumi up` again: what is compiled stays; if it is silent again, read the log.",
)


def check_failure(stage: str, error: ServingError, log: Sequence[str] = (), platform: str = "") -> ServingError:
    """Return the error that a user reads: stage, the server's answer, likely cause, fix. `log` helps to find the cause.

    `platform` is the platform's own reason why the server did not come up, with what to do: then no other is guessed.
    """
    kind = error.kind if isinstance(error, AnswerError) else None
    broke = stage not in _WAITING and (kind in _DIED or (kind is FailureKind.FAILED and stage == "chat"))
    fact = f"{CANNOT_GENERATE}: {error}" if broke else str(error)
    parts = [f"serving check, stage {stage}: {sentence(fact)}"]
    if error.status not in (401, 403):  # such an answer already says which role is missing
        # A healthy server's log is full of warnings that do not explain a wrong answer.
        words = "\n".join((str(error), *(log if broke or stage == "ready" else ())))
        cause = _first(_BY_WORDS, words) if platform else _cause(stage, kind, broke, words)
        parts += [f"Likely: {cause.likely}. {cause.fix}"] if cause else []
        parts += [platform] if platform else []
    return ServingError(" ".join(parts), stage=stage, status=error.status)


def start_failure(about: str, problem: str, log: Sequence[str], *, busy: str = "", serving: str = "") -> ServingError:
    """Return the error for a new server that Cloud Run gave up: `problem` (Google's), cause, fix, last log lines.

    `busy` is what the server did last, `serving` the older revision that goes on serving.
    """
    lines = error_lines(log)
    cause = _of_start(problem, lines, busy)
    parts = [
        f"{about} did not come up: {sentence(problem)}",
        f"{serving} goes on serving." if serving else "",
        f"Likely: {cause.likely}. {cause.fix}" if cause else "Its log holds the first error.",
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
    earlier = {found.group(): line for line in lines[:-TAIL] if (found := _ERROR.search(line))}
    shown = [*list(earlier.values())[-3:], *lines[-TAIL:]]
    if re.search("driver", "\n".join(shown), re.IGNORECASE):
        shown = [*[line for line in lines[:-TAIL] if "start_on_gpu" in line][-1:], *shown]
    return shown


def _of_start(problem: str, lines: Sequence[str], busy: str) -> Cause | None:
    words = "\n".join(lines)
    found = _first(_BY_WORDS, words) or _first(_BY_CONDITION, problem)
    if found or not busy or any(_ERROR.search(line) for line in lines):
        return found
    return Cause(
        "",
        f"it was not ready within the startup probe's window; the last thing it did: {busy}",
        "The plan's Start row says what takes the time and what shortens it.",
    )


def _first(causes: Sequence[Cause], words: str) -> Cause | None:
    return next((cause for cause in causes if re.search(cause.pattern, words, re.IGNORECASE)), None)


def _cause(stage: str, kind: FailureKind | None, broke: bool, words: str) -> Cause:
    if found := _first(_BY_WORDS, words):
        return found
    if stage == "models" and "still served" in words:
        return _STILL_OLD
    if broke:
        return _BROKE
    if kind is FailureKind.BUSY:
        return _BUSY
    if kind is FailureKind.SILENT:
        return _SLOW
    return _BY_STAGE.get(stage, _UNKNOWN)
