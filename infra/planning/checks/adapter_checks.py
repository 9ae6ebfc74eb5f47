"""What is known not to work with LoRA adapters, what is merely worth a warning, and what a reader should know of their figures.

What an adapter itself is (rank, modules, base model) is not known before its files are read: the weights copy judges that.
"""

from __future__ import annotations

from collections.abc import Iterator

from infra.errors import Fault, Findings
from infra.planning.artifacts import AdapterSet
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings
from infra.planning.units import counted

RUNTIME_UPDATES = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"


def check_adapters(settings: Settings, server: Server, adapters: tuple[AdapterSet, ...]) -> Findings:
    """Refuse adapters that the server could not load or serve; warn of room for them that nothing uses."""
    if not adapters:
        return Findings((*_runtime_updates(settings),), (*_without_adapters(settings),))
    refusals = [
        *_runtime_updates(settings),
        *_implementation(server),
        *_sources(settings, server, adapters),
        *_drafting(server),
    ]
    return Findings(tuple(refusals), (*_empty_slots(server), *_no_experts(server)))


def adapter_notes(settings: Settings, server: Server) -> Iterator[str]:
    """Yield what the plan's figures leave out where adapters are served."""
    if not server.adapters:
        return
    yield (
        "Speed is that of the base model: an answer by an adapter is slower, because each of its matrices is read and "
        "multiplied beside the model's; nobody has measured by how much here."
    )
    if server.speculation != "none":
        yield (
            "Drafts are made without the adapters: the more an adapter changes the answers, the fewer drafts are accepted, "
            "so that speculation gains less for it than for the base model."
        )
    if server.architecture.key_equals_value:
        yield (
            "The full-attention layers of this model make K and V with one projection, and vLLM gives an adapter's k_proj "
            "there to K alone (seen in 0.32, read in 0.33): an adapter trained on k_proj answers differently than in training, "
            "until its tensors say v_proj too: docs/tasks/serve-fine-tuned-adapters.md has the lines."
        )
    if settings.weights.from_hub:
        yield (
            "The server itself downloads the adapters at every start, the newest commit of each, and they are not looked at "
            "before: one of a larger rank than serving.adapterRank stops the start. weights.source: bucket checks them first."
        )


def _runtime_updates(settings: Settings) -> Iterator[Fault]:
    if settings.serving.env.get(RUNTIME_UPDATES, "0").lower() not in ("0", "false"):
        fact = "would let everybody who may call the server make it load any folder or repository as an adapter."
        consequence = "What is served would no longer be what was planned and checked."
        yield Fault(
            f"serving.env.{RUNTIME_UPDATES}", fact, consequence, "Take it out; list adapters in serving.adapters."
        )


def _implementation(server: Server) -> Iterator[Fault]:
    if not server.implementation.serves_adapters:
        device = server.accelerator.device.name
        fact = f"vLLM on {device} serves no LoRA adapters of Gemma 4."
        consequence = "The server would stop while it compiles."
        fix = "Take them out, serve on a GPU, or merge an adapter into its model and serve that."
        yield Fault("serving.adapters", fact, consequence, fix)


def _sources(settings: Settings, server: Server, adapters: tuple[AdapterSet, ...]) -> Iterator[Fault]:
    """Yield a refusal for each adapter that the server could not find where it looks for its weights."""
    weights = settings.weights
    if weights.access == "stream" and not weights.from_hub:
        fact = "stream leaves no mounted folder, and vLLM reads adapters from a folder."
        yield Fault(
            "weights.access", fact, "The server would stop at the first adapter.", "Write weights.access: mount."
        )
    for one in adapters:
        key, in_bucket = f"serving.adapters.{one.name}", bool(one.source_bucket)
        if one.source.lower() == server.model.hub_id.lower():
            fact = "names the repository of the model itself, which is no adapter."
            yield Fault(key, fact, "The copy of the weights would fail.", "Name the repository of a LoRA adapter.")
        elif weights.from_hub and in_bucket:
            fact = "is in a bucket, and weights.source: huggingface reads none."
            fix = "Write weights.source: bucket, or name a repository."
            yield Fault(key, fact, "The server would stop at this adapter.", fix)
        elif weights.from_hub and one.revision != "main":
            fact = f"names the revision {one.revision}, and vLLM downloads only the newest commit of an adapter."
            fix = "Write weights.source: bucket, or take @ and what follows out."
            yield Fault(key, fact, "Another adapter than the one named would be served.", fix)
        elif weights.source == "existing" and in_bucket and not one.source.startswith(f"gs://{weights.bucket}/"):
            fact = f"is in another bucket than {weights.bucket}, the only one that the server reads."
            fix = f"Copy it into gs://{weights.bucket}, or write weights.source: bucket, which copies it."
            yield Fault(key, fact, "The server would stop at this adapter.", fix)


def _drafting(server: Server) -> Iterator[Fault]:
    needed = server.max_num_seqs * (server.speculative_tokens + 1)
    if server.speculation != "none" and server.max_num_batched_tokens < needed:
        fact = (
            f"{server.max_num_batched_tokens:,} is less than a token and {server.speculative_tokens} drafts of each of "
            f"{server.max_num_seqs:,} requests: {needed:,}. With adapters, vLLM asks for that many."
        )
        held = max(1, server.max_num_batched_tokens // (server.speculative_tokens + 1))
        fix = f"Write at least {needed}, or serving.maxNumSeqs: {held}."
        yield Fault("serving.maxNumBatchedTokens", fact, "vLLM would refuse to start.", fix)


def _without_adapters(settings: Settings) -> Iterator[Fault]:
    serving = settings.serving
    for key, name in (
        ("adapterRank", "adapter_rank"),
        ("adapterSlots", "adapter_slots"),
        ("adapterExperts", "adapter_experts"),
    ):
        if getattr(serving, name) != type(serving).model_fields[name].default:
            fact = "has no effect: serving.adapters names none."
            yield Fault(f"serving.{key}", fact, "It would be ignored.", "Take it out.")


def _empty_slots(server: Server) -> Iterator[Fault]:
    if (empty := server.adapter_slots - server.adapters) > 0:
        fact = f"{server.adapter_slots} slots for {counted(server.adapters, 'adapter')} leave {empty} empty."
        yield Fault(
            "serving.adapterSlots", fact, "Their memory is set aside all the same.", f"Write {server.adapters}."
        )


def _no_experts(server: Server) -> Iterator[Fault]:
    if server.adapts_experts and not server.mixture:
        fact = f"has no effect: {server.model.id} has no experts."
        yield Fault("serving.adapterExperts", fact, "It would be ignored.", "Take it out.")
