"""What is written of machines on Compute Engine and cannot be read, cannot work, or is wasted."""

from __future__ import annotations

from collections.abc import Mapping

from tests.messages.case import Case, written

ON_G4 = ("gemma-4-31b-it", "g4-2")
ON_EIGHT = ("gemma-4-31b-it", "g4-8")


def machine(
    title: str, code: int, keys: str | tuple[str, ...], settings: str, *more: str, pair: tuple[str, str] = ON_G4
) -> Case:
    """Return the case of a stack file with `settings` under `machine`, and `more` lines; `keys` are what is at fault."""
    return written(
        title,
        code,
        (keys,) if isinstance(keys, str) else keys,
        "\n".join((f"gemma4:machine: {{{settings}}}", *more)),
        pair=pair,
    )


MACHINES: Mapping[str, tuple[Case, ...]] = {
    "Machines that cannot be read": (
        machine("one machine twice", 2, "machine.names", "names: [blue, blue]"),
        machine("one type twice", 2, "machine.shapes", "shapes: [g4-standard-96, g4-standard-96]"),
        machine("zones of two regions", 2, "machine.zones", "zones: [us-central1-b, us-west1-c]"),
        machine("a region for a zone of a machine", 2, "machine.zones[0]", "zones: [us-central1]"),
        machine("terms that nobody sells", 2, "machine.provisioning", "provisioning: reserved"),
        machine("another system", 2, "machine.image", "image: ubuntu-2404-lts"),
    ),
    "Machines that cannot work": (
        machine("a zone without the machine", 3, "machine.zones", "zones: [africa-south1-a]"),
        machine("a machine without such GPUs", 3, "machine.shapes", "shapes: [a2-highgpu-1g]"),
        machine("a machine with too few GPUs", 3, "machine.shapes", "shapes: [g4-standard-96, g4-standard-48]"),
        machine(
            "terms that Google leaves these machines out of", 3, "machine.provisioning", "provisioning: flex-start"
        ),
        machine("a disk without room for an image", 3, "machine.diskGb", "diskGb: 30"),
        machine(
            "a system that may change, where nothing may",
            3,
            ("machine.image", "images.requirePinned"),
            "image: cos-125-lts",
            "gemma4:images: {requirePinned: true}",
        ),
        written(
            "a server that spreads over the GPUs of the next one",
            3,
            ("vllmArgs.data-parallel-size",),
            """
            gemma4:serving: {tensorParallelSize: 2}
            gemma4:vllmArgs: {data-parallel-size: 2}
            """,
            pair=ON_EIGHT,
        ),
    ),
    "Machines that may fail or cost in vain": (
        machine("a zone of which nobody has told", 0, ("machine.zones", "accelerator"), "zones: [us-east4-a]"),
        machine("a lone machine that may be taken back", 0, ("machine.names", "accelerator"), "provisioning: spot"),
        machine(
            "a larger machine first", 0, ("machine.shapes", "accelerator"), "shapes: [g4-standard-192, g4-standard-96]"
        ),
        machine("a disk without room for a second image", 0, ("accelerator", "machine.diskGb"), "diskGb: 60"),
        machine(
            "an end for a machine that has none", 0, ("accelerator", "machine.maxRunDuration"), "maxRunDuration: 4h"
        ),
        machine(
            "a queue for a machine that waits in none",
            0,
            ("accelerator", "machine.validUntilDuration"),
            "validUntilDuration: 4h",
        ),
        machine("more GPUs than a new project has", 0, "accelerator", "names: [blue, green]"),
        written(
            "settings of another platform on a machine",
            0,
            ("accelerator", "scaling.minInstances", "probes.startup.periodSeconds", "tpu.zone", "weights.access"),
            """
            gemma4:tpu: {zone: us-east5-a}
            gemma4:scaling: {minInstances: 1}
            gemma4:probes: {startup: {periodSeconds: 5}}
            gemma4:weights: {access: stream}
            """,
            pair=ON_G4,
        ),
        written(
            "settings of machines on Cloud Run", 0, ("machine.provisioning",), "gemma4:machine: {provisioning: spot}"
        ),
    ),
}
