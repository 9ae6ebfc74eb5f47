"""From what a server answered to the likely cause and what to do about it."""

from __future__ import annotations

from infra.errors import ServingError

_BY_TEXT: tuple[tuple[str, str, str], ...] = (
    (
        "EngineCore",
        "the server is healthy but cannot generate: its engine died on the first request",
        "Read the log lines for the first error of EngineCore; with fp8 KV cache try serving.kvCacheDtype: auto.",
    ),
    (
        "k_scale",
        "the checkpoint has no usable scales for an fp8 KV cache",
        "Write serving.kvCacheDtype: auto, or use a checkpoint with calibrated scales.",
    ),
    (
        "out of memory",
        "the device ran out of memory on a request",
        "Lower serving.gpuMemoryUtilization or serving.maxNumBatchedTokens.",
    ),
    (
        "does not exist",
        "the server serves another model",
        "Look at images.serving and vllmArgs: something overrides the served name.",
    ),
    ("no slice answered", "no TPU slice is up behind the gateway", "See gemma4 tpu status."),
    ("multimodal", "the server was not started for this kind of input", "Raise serving.modalities, or set it to 0."),
)
_BY_STAGE: dict[str, tuple[str, str]] = {
    "chat": ("the model answers nothing", "Check that the checkpoint is an instruction-tuned one (-it) and whole."),
    "tools": (
        "tool calls are not parsed",
        "Check that the image knows the parser gemma4, or write serving.tools: false.",
    ),
    "models": (
        "the server was started with other arguments than planned",
        "Run `pulumi up` again; if it stays so, the image overrides the command.",
    ),
    "image": ("the server cannot take images", "Write serving.modalities.image: 0, or use another image version."),
    "audio": ("the image lacks vLLM's audio extra", "Write serving.modalities.audio: 0, or bake vllm[audio] in."),
}
_BY_STATUS: dict[int, tuple[str, str]] = {
    0: ("the server went away: it crashed, or the instance was stopped", "Read the log lines for its last error."),
    429: ("all instances are busy and no further one may start", "Raise scaling.maxInstances, or run again later."),
    503: ("the instance is not up, or has just died", "Read the log lines; a crash shows as an error of EngineCore."),
}


def explained(stage: str, error: ServingError) -> str:
    """The whole sentence for a stage that failed."""
    cause, fix = _cause(stage, error)
    return f"serving check, stage {stage}: {error}. Likely: {cause}. {fix}"


def not_allowed(status: int) -> str:
    """For an endpoint that goes on refusing us."""
    return (
        f"serving check, stage ready: the endpoint answers {status} for more than 5 minutes. Likely: the identity token's "
        "account may not call it. Grant it roles/run.invoker (access.invokers), and list who deploys under "
        "access.deployers; the token's audience must be the service's base URL."
    )


def not_ready(waited_s: float, why: str) -> str:
    """For a server that did not come up in time."""
    return (
        f"serving check, stage ready: not ready after {waited_s:.0f} s; last seen: {why}. Likely: the server is still "
        "loading, or it crashes at start. Read the log lines; raise serving.readyTimeout if it only needs longer."
    )


def _cause(stage: str, error: ServingError) -> tuple[str, str]:
    text = str(error)
    for mark, cause, fix in _BY_TEXT:
        if mark.lower() in text.lower():
            return cause, fix
    if error.status in (401, 403):
        return "the identity token's account may not call it", "Grant it roles/run.invoker (access.invokers)."
    if stage in _BY_STAGE and error.status in (0, 200, 400, 404) and "could not be reached" not in text:
        return _BY_STAGE[stage]
    return _BY_STATUS.get(error.status, ("the server failed inside", "Read the log lines for its first error."))
