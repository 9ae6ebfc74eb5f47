"""The commands that `vllm serve` gets: of every stack that ships, with every profile, for every version with a flag table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import get_args

from infra.catalog import Profile, catalog
from infra.catalog.flags import TABLES
from infra.planning.planner import make_plan
from infra.planning.settings.stackfile import read_stack, stack_names
from tests.projects import ROOT

PROFILES = get_args(Profile)


def planned_commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a command is for, and its words; on a TPU only the catalog's version, the others do not exist."""
    for stack in stack_names(ROOT):
        written = read_stack(ROOT, stack).settings
        for profile in PROFILES:
            plan = make_plan(stack, written, {"profile": profile})
            yield f"{stack}, {profile}", plan.command.argv
            if plan.accelerator.device.value != "gpu":
                continue
            for version in set(TABLES) - {plan.server.image_version}:
                image = f"{catalog().images['gpu'].repository}:v{version}"
                newer = make_plan(stack, written, {"profile": profile, "images.serving": image})
                yield f"{stack}, {profile}, {version}", newer.command.argv


def flags_of(argv: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """The flags behind `vllm serve MODEL`, each with the words of its value."""
    starts = [place for place, word in enumerate(argv) if word.startswith("--")]
    for start, end in pairwise([*starts, len(argv)]):
        yield argv[start], list(argv[start + 1 : end])
