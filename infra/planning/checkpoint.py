"""Which checkpoint is served: the model's own, or another one of its architecture that the stack file names.

The size of a checkpoint decides whether it fits, so one that nobody has counted is refused: a wrong size is found out by
vLLM, ten paid minutes after the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from infra.catalog import Accelerator, Architecture, Assistant, Catalog, Model
from infra.catalog.checkpoint_lock import NAME, Checkpoints, PinnedCheckpoint
from infra.errors import Fault
from infra.planning.settings.declarations import Settings

BUCKET_SCHEME = "gs://"


@dataclass(frozen=True)
class ServedCheckpoint:
    """The model row that memory, speed and the command are made from, and what is known of the checkpoint."""

    model: Model
    """The model of the settings; where another checkpoint is served, with that one's repository, format and sizes."""
    pinned: PinnedCheckpoint | None = None
    """What `gemma4 pin` read of it; None where nobody pinned it."""
    folder: str | None = None
    """Its folder in the bucket; None: by repository and revision."""
    faults: tuple[Fault, ...] = ()
    """Why it cannot be served."""


def served_checkpoint(settings: Settings, facts: Catalog, checkpoints: Checkpoints) -> ServedCheckpoint:
    """Return what is served under `settings`: of `checkpoints` if it is pinned there, else of the catalog."""
    model, named = facts.model(settings.model), settings.checkpoint
    name = named or model.hub_id
    folder = name.removeprefix(BUCKET_SCHEME).partition("/")[2] if name.startswith(BUCKET_SCHEME) else None
    pinned = checkpoints.get(name)
    row: Model | None = model
    if named is not None:
        row = next((row for row in facts.models.values() if row.hub_id.lower() == named.lower()), None)
    if pinned is not None:
        served = _of_pin(row or model, pinned)
        architecture = pinned.architecture
    elif row is not None:
        served, architecture = row, row.architecture
    else:
        title = f"{model.title.partition(',')[0]} as {name}"
        served = model.model_copy(update={"hub_id": folder or name, "maker": _owner(folder or name), "title": title})
        return ServedCheckpoint(served, folder=folder, faults=(_uncounted(name, model),))
    faults = [*_elsewhere(name, settings)] if folder is not None else []
    faults += [_other_architecture(name, architecture, model, facts)] if architecture != model.architecture else []
    if pinned is not None:
        faults += _unknown_format(name, pinned, facts)
        faults += _other_place(settings, pinned)
    if faults:  # planned as the model itself, which another architecture's sizes would not fit
        return ServedCheckpoint(model, faults=tuple(faults))
    return ServedCheckpoint(served, pinned, folder)


def checkpoint_notes(
    model: Model, accelerator: Accelerator, assistant: Assistant | None, facts: Catalog
) -> Iterator[str]:
    """Yield what a reader should know of a checkpoint that is not Google's, and of its format on this machine.

    `assistant` is the drafter where one is used.
    """
    if model.third_party:
        yield (
            f"{model.hub_id} is a third party's ({model.maker}): Google does not answer for its quality, and nobody here has "
            "run it. Try your own prompts on it before users do."
        )
        if assistant is not None:
            yield (
                f"{assistant.hub_id} was trained for Google's own checkpoint. It loads beside another one of the same "
                "architecture, and answers stay those of the model, which checks every draft; fewer drafts may be accepted, so "
                "the speed with drafts is an upper bound."
            )
    native, here = facts.weight_formats[model.weight_format].native_compute_capability, accelerator.compute_capability
    if native is not None and here is not None and here < native:
        yield (
            f"GPUs compute in {model.weight_format} from compute capability {native} on; this one has {here}. vLLM unpacks the "
            "weights to bf16 at every step: memory is saved all the same, prompts gain nothing."
        )


def check_format(model: Model, accelerator: Accelerator, facts: Catalog) -> Iterator[Fault]:
    """Yield a refusal where the GPU is too old for the format of the checkpoint."""
    least, here = facts.weight_formats[model.weight_format].min_compute_capability, accelerator.compute_capability
    if least is not None and here is not None and here < least:
        fact = f"{model.weight_format} needs a GPU of compute capability {least}; {accelerator.id} has {here}."
        yield Fault("checkpoint", fact, "vLLM would refuse to load it.", "Use a newer GPU, or another checkpoint.")


def check_towers(settings: Settings, model: Model, architecture: Architecture) -> Iterator[Fault]:
    """Yield a refusal for each kind of input that is let in and whose tower the checkpoint lacks, as text-only repacks do."""
    if model.sizes is None:
        return
    modalities = settings.serving.modalities
    wanted = {"image": modalities.image, "video": modalities.video, "audio": modalities.audio}
    held = {"image": model.sizes.vision, "video": model.sizes.vision, "audio": model.sizes.audio}
    for kind in architecture.input_modalities:
        if wanted[kind] and not held[kind]:
            fact = f"{model.hub_id} holds no weights for {kind} input."
            yield Fault(f"serving.modalities.{kind}", fact, "Such requests would be an error.", "Write 0.")


def _of_pin(model: Model, pinned: PinnedCheckpoint) -> Model:
    same = model.hub_id == pinned.name
    title = model.title if same else f"{model.title.partition(',')[0]} as {pinned.name}"
    return model.model_copy(
        update={
            "hub_id": pinned.name,
            "maker": model.maker if same else _owner(pinned.name),
            "title": title,
            "weight_format": pinned.weight_format,
            "checkpoint_bytes": pinned.checkpoint_bytes,
            "sizes": pinned.sizes,
            "gated": pinned.gated,
        }
    )


def _owner(name: str) -> str:
    """Return who is named as the maker of a repository or folder."""
    owner = name.partition("/")[0]
    return "Google" if owner == "google" else owner


def _uncounted(name: str, model: Model) -> Fault:
    return Fault(
        "checkpoint",
        f"{name} is not in {NAME}, so its size, its format and whether it is a {model.architecture.upper()} are not known.",
        f"If it is larger than {model.id}, vLLM runs out of memory after minutes that are paid for.",
        f"Run: gemma4 pin {name}, and commit {NAME}.",
    )


def _other_architecture(name: str, architecture: str, model: Model, facts: Catalog) -> Fault:
    fitting = next((row.id for row in facts.models.values() if row.architecture == architecture), architecture)
    fact = f"{name} has the architecture {architecture}; {model.id} has {model.architecture}."
    return Fault("checkpoint", fact, "Memory, speed and flags would be another model's.", f"Write model: {fitting}.")


def _unknown_format(name: str, pinned: PinnedCheckpoint, facts: Catalog) -> Iterator[Fault]:
    if pinned.weight_format not in facts.weight_formats:
        fact = f"{NAME} says that {name} holds {pinned.weight_format}, which the catalog does not have."
        known = ", ".join(facts.weight_formats)
        yield Fault("checkpoint", fact, "It cannot be planned.", f"Pin it anew. Known: {known}.")


def _elsewhere(name: str, settings: Settings) -> Iterator[Fault]:
    """Yield a refusal where the weights are to come from another place than the bucket that the checkpoint names."""
    bucket = name.removeprefix(BUCKET_SCHEME).partition("/")[0]
    for key, said, wanted in (
        ("weights.source", settings.weights.source, "existing"),
        ("weights.bucket", settings.weights.bucket, bucket),
    ):
        if said != wanted:
            fact = f"{said} contradicts checkpoint: {name}, which lies in a bucket that is filled."
            yield Fault(key, fact, "The server would look elsewhere.", f"Leave it out, or write {wanted}.")


def _other_place(settings: Settings, pinned: PinnedCheckpoint) -> Iterator[Fault]:
    """Yield a refusal where other files would be deployed than were counted."""
    wanted = settings.weights.revision
    if wanted is not None and wanted != pinned.revision:
        fact = f"is {wanted}, and what was counted of {pinned.name} is {pinned.revision[:12]}."
        fix = f"Leave it out, or run: gemma4 pin {pinned.name}@{wanted}"
        yield Fault("weights.revision", fact, "Files would be served whose size nobody knows.", fix)
    if pinned.origin == "folder" and settings.weights.source != "existing":
        fact = f"is {settings.weights.source}, and {pinned.name} was counted in a folder of yours."
        consequence = f"Hugging Face would be asked for {pinned.revision[:12]}, which it does not have."
        fix = f"Copy the folder to gs://BUCKET/{pinned.name}/{pinned.revision}, and write weights.source: existing."
        yield Fault("weights.source", fact, consequence, fix)
