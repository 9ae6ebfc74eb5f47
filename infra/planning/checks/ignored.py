"""Settings that somebody wrote and that do nothing on the platform, by its own table: a warning for each key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infra.catalog import Accelerator, Profile
from infra.errors import Fault
from infra.planning.performance.speed import Knee
from infra.planning.platforms.base import Platform
from infra.planning.server.implementations import implementation_of
from infra.planning.settings.declarations import Settings
from infra.planning.settings.resolve import WRITTEN, Origin
from infra.planning.units import counted


def without_effect(
    settings: Settings, platform: Platform[Any], accelerator: Accelerator, origins: Mapping[str, Origin]
) -> Iterator[Fault]:
    """Yield a warning for every key of the stack file or the command line that changes nothing, or not what it says."""
    for path, origin in origins.items():
        why = next(
            (why for key, why in platform.without_effect.items() if path == key or path.startswith(f"{key}.")), ""
        )
        if why and origin in WRITTEN:
            yield Fault(path, f"has no effect {platform.where}: {why}.", "It would be ignored.", "Take it out.")
    if settings.serving.enforce_eager and not implementation_of(accelerator).eager_starts_sooner:
        wait = "The first requests of each size would wait for it, minutes each"
        consequence = f"{wait}, and the predicted start does not include it."
        yield Fault(
            "serving.enforceEager",
            f"on {accelerator.device.name} it only postpones the compilation.",
            consequence,
            "Take it out.",
        )
    if settings.serving.evaluation and settings.access.ingress == "internal":
        fact = "has no effect: access.ingress is internal, so no check is run."
        fix = "Take it out, and run gemma4 evaluate from inside the VPC."
        yield Fault("serving.evaluation", fact, "It would be ignored.", fix)
    modalities = settings.serving.modalities
    if settings.serving.vision_tokens is not None and not (modalities.image or modalities.video):
        fact = "has no effect: serving.modalities lets no image in."
        yield Fault("serving.visionTokens", fact, "It would be ignored.", "Take it out.")


_LIMITS = {
    "kv-cache": "the KV cache holds no more",
    "ceiling": "more are not recommended",
    "gain": "more would bring little",
    "stream-speed": "more would slow each stream down too far",
}


def profile_without_effect(
    settings: Settings, origins: Mapping[str, Origin], knee: Callable[[Profile], Knee]
) -> Iterator[Fault]:
    """Yield a warning where somebody wrote a profile and gets what balanced gives: no recipe of the profile says anything, and
    the number of running requests is set, or `knee`, the planner's choice by profile, is the same for both."""
    written = origins.get("profile") in WRITTEN and settings.profile != "balanced"
    if not written or Origin.PROFILE in origins.values():
        return
    seqs, fix = settings.serving.max_num_seqs, "Take it out, or write serving.maxNumSeqs yourself."
    if seqs is not None:
        by = origins["serving.maxNumSeqs"]
        why = f"serving.maxNumSeqs is {seqs} by the {by}"
        fix = "Take it out, or serving.maxNumSeqs, which the profile then chooses." if by in WRITTEN else fix
    else:
        chosen, balanced = knee(settings.profile), knee("balanced")
        if chosen.max_num_seqs != balanced.max_num_seqs:
            return
        why = f"balanced runs {counted(balanced.max_num_seqs, 'request')} at once as well, {_LIMITS[chosen.limited_by]}"
    fact = f"{settings.profile} changes nothing here: {why}."
    yield Fault("profile", fact, "It would be ignored.", fix)
