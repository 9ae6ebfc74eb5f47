"""What a LoRA adapter is, read from its two files, and whether vLLM can serve it beside the model: asked before a GPU starts.

Only adapter_config.json and adapter_model.safetensors are copied: neither can hold code. What vLLM refuses of an adapter is as
in its vllm/lora/peft_helper.py and vllm/lora/lora_model.py, 0.32 and 0.33.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .exit_codes import CopyFailure, ExitCode
from .hub import ListedFile

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MOST_HEADER_BYTES = 16 * 1024 * 1024
"""The longest list of tensors that is read; one of an adapter of all experts has about 2 MiB."""

DENSE = frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"})
OTHERS = frozenset({"per_layer_input_gate", "per_layer_projection", "per_layer_model_projection", "proj"})
"""Gates and projections of E2B and E4B, and the router of 26B-A4B."""
READ_FROM_HIDDEN = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
"""Modules of a decoder layer whose inputs are as many as the model's hidden size."""
MEANINGFUL_STARTS = frozenset({"gaussian", "eva", "orthogonal", "mica", "lora_ga"})
"""Ways to start training by name that leave the model's own weights as they are."""
NOT_SERVED = {
    "use_dora": "it is a DoRA adapter",
    "lora_bias": "it has biases (lora_bias)",
    "alora_invocation_tokens": "it is an activated LoRA (aLoRA)",
    "layer_replication": "it repeats layers (layer_replication)",
    "use_bdlora": "it is block-diagonal (BD-LoRA)",
    "use_qalora": "it is a QALoRA adapter",
    "modules_to_save": "it replaces whole modules (modules_to_save)",
}


class AdapterRules(NamedTuple):
    """What the server serves: the largest rank it has room for, and the model's size, layers and hidden size."""

    rank: int
    base: str
    """The model as its names hold it, e.g. gemma-4-12b."""
    layers: int
    hidden: int
    experts: bool
    """Whether there is room for adapters of experts."""


class AdapterFacts(NamedTuple):
    """What the two files say of an adapter; the manifest keeps it. Zero where no tensor tells."""

    rank: int
    base: str
    layers: int
    hidden: int
    experts: bool
    not_served: tuple[str, ...]
    """Why vLLM would refuse it, whatever it is served beside."""
    ignored: tuple[str, ...]
    """Parts of the model that it changes and that the server leaves as they are."""


def adapter_files(place: str, files: Sequence[ListedFile]) -> list[ListedFile]:
    """Return the two files of the adapter at `place`. Raises CopyFailure where one is missing: code is never copied."""
    wanted = [file for file in files if file.name in (CONFIG, WEIGHTS)]
    missing = {CONFIG, WEIGHTS} - {file.name for file in wanted}
    if missing:
        other = next((file.name for file in files if file.name.startswith("adapter_model.")), "")
        why = f"has no {' and no '.join(sorted(missing))}"
        fix = "Save it with PEFT's save_pretrained, which writes both, or correct the source."
        if other and WEIGHTS in missing:
            why = f"has {other} and no {WEIGHTS}, and pickled weights can hold code, so they are not copied"
            fix = "Save it again with save_pretrained(..., safe_serialization=True)."
        raise CopyFailure(ExitCode.ADAPTER, f"{place} {why}. {fix}")
    return wanted


def adapter_facts(place: str, config: bytes, header: bytes) -> AdapterFacts:
    """Return what the configuration and the list of tensors say. Raises CopyFailure where either cannot be read."""
    try:
        said, tensors = json.loads(config), json.loads(header)
        shapes = {name: tuple(row["shape"]) for name, row in tensors.items() if name != "__metadata__"}
        ranks = [int(said["r"]), *(int(rank) for rank in (said.get("rank_pattern") or {}).values())]
        base = str(said.get("base_model_name_or_path") or "")
        kind = str(said.get("peft_type"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        fact = f"{place}: {CONFIG} or the head of {WEIGHTS} cannot be read ({type(error).__name__})."
        raise CopyFailure(ExitCode.ADAPTER, f"{fact} Is it a PEFT adapter?") from None
    problems = [why for key, why in NOT_SERVED.items() if said.get(key)]
    if kind != "LORA":
        problems.append(f"it is of the kind {kind}, not LORA")
    if said.get("bias", "none") != "none":
        problems.append("it has biases (bias)")
    start = said.get("init_lora_weights", True)
    if isinstance(start, str) and start.lower() not in MEANINGFUL_STARTS:
        problems.append(f"its training changed the model's own weights (init_lora_weights: {start})")
    modules = {_module(name): name for name in shapes}
    problems += sorted(
        {f"it changes {_last(name)}, which vLLM does not adapt" for name in modules if not _adaptable(name)}
    )
    if any(name.endswith((".experts", ".experts.base_layer")) for name in modules):
        problems.append("its experts are stored as one (PEFT's target_parameters), and vLLM takes them one by one")
    decoder = {name: shape for name, shape in shapes.items() if not _in_tower(name)}
    ranks += [shape[0] for name, shape in decoder.items() if ".lora_A." in name and ".experts" not in name and shape]
    widths = {shape[-1] for name, shape in decoder.items() if ".lora_A." in name and _reads_hidden(name) and shape}
    layers = [int(found[1]) + 1 for found in (re.search(r"\.layers\.(\d+)\.", name) for name in decoder) if found]
    return AdapterFacts(
        rank=max(ranks),
        base=base,
        layers=max(layers, default=0),
        hidden=max(widths, default=0),
        experts=any(".experts." in f"{name}." for name in modules),
        not_served=tuple(problems),
        ignored=tuple(sorted({_tower(name) for name in shapes if _in_tower(name)})),
    )


def faults_of(facts: AdapterFacts, rules: AdapterRules) -> Iterator[str]:
    """Yield why the adapter cannot be served as the plan has it, each with what to do."""
    for why in facts.not_served:
        yield f"vLLM does not serve it: {why}. Merge it into its model, or train it as a plain LoRA adapter."
    if facts.rank > rules.rank:
        yield f"its rank is {facts.rank}, and the server has room for {rules.rank}. Raise serving.adapterRank."
    trained, served = _size(facts.base), _size(rules.base)
    if trained and served and trained != served:
        yield f"it was trained for {facts.base}, and {rules.base} is served. Name an adapter of that model."
    elif facts.hidden and facts.hidden != rules.hidden:
        yield (
            f"it was trained for a model of hidden size {facts.hidden} ({facts.base or 'it names none'}), and "
            f"{rules.base} has {rules.hidden}. Name an adapter of that model."
        )
    elif facts.layers > rules.layers:
        yield f"it changes layer {facts.layers}, and {rules.base} has {rules.layers}. Name an adapter of that model."
    if facts.experts and not rules.experts:
        yield "it changes experts, for which the server has no room. Write serving.adapterExperts: true."


def from_manifest(kept: object) -> AdapterFacts | None:
    """Return the facts that an earlier run wrote into a manifest; None where there are none, or of another form."""
    if not isinstance(kept, Mapping) or set(kept) != set(AdapterFacts._fields):
        return None
    facts: dict[str, Any] = dict(kept)
    return AdapterFacts(**{**facts, "not_served": tuple(kept["not_served"]), "ignored": tuple(kept["ignored"])})


def _module(tensor: str) -> str:
    """Return the module that a tensor of an adapter changes: `…q_proj` of `base_model.model.…q_proj.lora_A.weight`."""
    return re.sub(r"\.(lora_[AB](\.weight)?|lora_embedding_[AB]|lora_magnitude_vector.*|weight|bias)$", "", tensor)


def _last(module: str) -> str:
    return module.rpartition(".")[2]


def _adaptable(module: str) -> bool:
    in_tower = _in_tower(module) and _last(module) == "embedding_projection"
    return _last(module) in DENSE | OTHERS or ".experts" in module or in_tower


def _in_tower(name: str) -> bool:
    return any(
        f".{tower}" in f".{name}" for tower in ("vision_tower.", "audio_tower.", "embed_vision.", "embed_audio.")
    )


def _tower(name: str) -> str:
    return next(part for part in name.split(".") if part.startswith(("vision_", "audio_", "embed_")))


def _reads_hidden(name: str) -> bool:
    return ".experts" not in name and _last(_module(name)) in READ_FROM_HIDDEN


def _size(name: str) -> str:
    """Return the size in the name of a Gemma 4 model, e.g. 12b; empty where it is another model's, or a folder's."""
    found = re.search(r"gemma[-_ ]?4[-_ ]?(e2b|e4b|12b|26b|31b)", name.lower())
    return found[1] if found else ""
