"""What people ask `gemma4 explain` for beside settings: models, machines, flags of vLLM, and the words of the plan."""

from __future__ import annotations

import re
from typing import Any

from infra.catalog import GIB, catalog
from infra.catalog.flags import REMOVED, flag_table, normal_spelling
from infra.planning.server.flag_owners import MANAGED_FLAGS
from infra.planning.settings.resolve import known_paths

_TERMS = {
    "kv cache": "What the server remembers of each running request: a key and a value per token and layer. Its size says how "
    "many tokens, so how many requests, run at once. See serving.maxModelLen and serving.kvCacheDtype.",
    "mtp": "Multi-token prediction: a small assistant model drafts tokens that the model checks in one step. See "
    "serving.speculation.method.",
    "speculative decoding": "A cheap drafter proposes tokens, the model checks them in one step: faster alone, the same text. "
    "See serving.speculation.",
    "qat": "Quantization-aware training: the checkpoint was trained to lose little in 4 bits. Such models end in qat-w4a16.",
    "w4a16": "Weights of 4 bits, activations of 16: a quarter of the memory of bf16; on GPUs only.",
    "moe": "Mixture of experts: all weights are loaded, a part of them works on each token. gemma-4-26b-a4b-it is one.",
    "tensor parallelism": "Several devices share one model: each holds a part of every layer. See serving.tensorParallelSize.",
    "prefix caching": "What the KV cache holds of a prompt is used again by the next request that begins alike. See "
    "serving.prefixCaching.",
    "time to first token": "How long a caller waits until the answer begins; the plan's `first token`.",
    "slice": "A TPU machine of one to eight chips that serves one copy of the model. See tpu.slices.",
    "queued resource": "A request for a TPU slice, which waits in Google's queue until there is capacity. See "
    "tpu.validUntilDuration.",
    "flex-start": "Capacity from a queue, cheaper, for at most seven days. See tpu.provisioning and tpu.maxRunDuration.",
    "spot": "Capacity that Google may take back at any moment. See tpu.provisioning.",
    "husk": "A queued resource that has ended: it serves nothing and holds quota. See: gemma4 tpu husks",
    "gateway": "The Cloud Run service before TPU slices: lets callers in, spreads their requests. See scaling.concurrency.",
    "supervisor": "The program on a TPU machine that starts the server, watches it, and goes back to the last good one.",
    "invoker": "Who may call the endpoint. See access.invokers.",
    "deployer": "Who runs `pulumi up`, and so may take the invoker account's tokens for the check. See access.deployers.",
    "recipe": "Settings known to suit a model on a machine; they lie under the stack file. The plan's `Basis` names them.",
    "quota": "How much of a kind of machine Google lets a project have in a region or zone. The plan's `Quota` names each that "
    "the stack is counted against, what it needs, and what a new project usually has.",
    "tight": "The verdict on a plan that may fit or not: the known errors of the prediction reach beyond the memory.",
    "cold start": "The first request after a quiet time waits until an instance has started; the plan's `Start`. See "
    "scaling.minInstances.",
}
_SAME = {
    "kv": "kv cache",
    "speculation": "speculative decoding",
    "tp": "tensor parallelism",
    "ttft": "time to first token",
    "first token": "time to first token",
    "mixture of experts": "moe",
    "multi-token prediction": "mtp",
    "husks": "husk",
    "slices": "slice",
    "recipes": "recipe",
    "basis": "recipe",
    "quotas": "quota",
    "scale to zero": "cold start",
}


def word_rows(word: str) -> list[dict[str, Any]]:
    """What is known of a word that is no setting, in the form of a setting's row; empty where nothing is."""
    found = _catalog(word) or _flag(word) or _term(word)
    return [{"key": word, "required": False, "default": None, "range": "", "example": None, **found}] if found else []


def choices(path: str) -> list[str]:
    """The ids that the setting at `path` takes from the catalog; empty for any other setting."""
    known = {"model": catalog().models, "accelerator": catalog().accelerators}.get(path, {})
    return list(known)


def known_words() -> list[str]:
    """Everything that may be asked for: settings, ids of the catalog, and terms."""
    return [*(path for path, _ in known_paths()), *choices("model"), *choices("accelerator"), *_TERMS]


def _catalog(word: str) -> dict[str, Any]:
    facts, word = catalog(), word.lower()
    if model := facts.models.get(word):
        size = model.checkpoint_bytes / GIB
        meaning = f"{model.title}: {model.hub_id}, weights of {size:.1f} GiB, from vLLM {model.min_vllm} on."
        return {"meaning": meaning, "type": "a model", "example": f"gemma4:model: {model.id}"}
    if machine := facts.accelerators.get(word):
        built = "" if machine.deployable else " Planned and priced only."
        memory = f"{machine.device_memory_gib:.1f} GiB of memory each"
        places = ", ".join(machine.locations[:3])
        meaning = f"{machine.title}: {machine.devices} with {memory}; first in {places}.{built}"
        return {"meaning": meaning, "type": "an accelerator", "example": f"gemma4:accelerator: {machine.id}"}
    return {}


def _flag(word: str) -> dict[str, Any]:
    if not re.fullmatch(r"-{0,2}[A-Za-z][\w-]*", word) or ("-" not in word and "_" not in word):
        return {}
    flag, key = flag_table().find(word), normal_spelling(word)
    kind = f"a flag of vLLM {flag_table().version}"
    if flag is None:
        return {"meaning": f"Is no longer a flag. {REMOVED[key]}", "type": kind} if key in REMOVED else {}
    owner = MANAGED_FLAGS.get(flag.name, "")
    if owner.startswith("the "):
        return {"meaning": f"{flag.name} is set by {owner}; nothing here changes it.", "type": kind}
    if owner:
        return {"meaning": f"{flag.name} is what {owner} sets. See: gemma4 explain {owner}", "type": kind}
    name = flag.name.lstrip("-")
    return {
        "meaning": f"{flag.name} goes to the server as it is written under vllmArgs.",
        "type": kind,
        "example": f"gemma4:vllmArgs: {{{name}: {'true' if flag.kind == 'switch' else 'VALUE'}}}",
    }


def _term(word: str) -> dict[str, Any]:
    plain = " ".join(re.split(r"[\s_]+", word.lower().strip()))
    meaning = _TERMS.get(_SAME.get(plain, plain)) or _TERMS.get(plain.replace("-", " "))
    return {"meaning": meaning, "type": "a word of the plan"} if meaning else {}
