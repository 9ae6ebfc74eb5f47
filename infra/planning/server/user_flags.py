"""What `vllmArgs` may say: every fault of it, and the flags that are taken although the arithmetic does not follow them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from infra.catalog.flags import FlagTable, flag_table
from infra.errors import Fault
from infra.image_names import parse_image_name
from infra.planning.server.flag_owners import SHARED_FLAGS, flag_owners
from infra.planning.settings.declarations import Settings, VisionTokens

SPREADING_FLAGS = frozenset({"--data-parallel-size", "--pipeline-parallel-size"})
"""Flags by which one server takes more devices than share its model."""
UNPLANNED_FLAGS = frozenset(
    {
        "--data-parallel-size",
        "--decode-context-parallel-size",
        "--disable-hybrid-kv-cache-manager",
        "--disable-sliding-window",
        "--enable-mixed-moe-lora-format",
        "--enable-moe-shared-loras",
        "--enable-tower-connector-lora",
        "--fully-sharded-loras",
        "--hf-overrides",
        "--kv-cache-dtype-skip-layers",
        "--kv-cache-memory-bytes",
        "--kv-offloading-size",
        "--lora-dtype",
        "--mm-encoder-only",
        "--num-gpu-blocks-override",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
        "--quantization-config",
        "--skip-mm-profiling",
        "--specialize-active-lora",
    }
)
"""Flags that change memory or devices in ways that the plan's arithmetic does not follow: taken, with a warning."""


def serving_flags(settings: Settings) -> FlagTable:
    """Return the flags of the vLLM that `images.serving` says it holds; of the default images where it says none."""
    serving = settings.images.serving
    return flag_table(parse_image_name(serving).vllm_version if serving else None)


def check_arguments(settings: Settings) -> list[Fault]:
    """Return every fault of `vllmArgs`: unknown or removed flags, wrong values, flags that a setting owns, contradictions.

    Where the image holds another vLLM than the flag table, unknown flags are warnings instead: see `doubtful_arguments`.
    """
    table = serving_flags(settings)
    owners = flag_owners(type(settings))
    faults = []
    seen: dict[str, str] = {}
    for written, value in settings.vllm_args.items():
        key, main = f"vllmArgs.{written}", table.main_spelling(written)
        problems = table.check(written, value)
        if not _other_vllm(settings):
            faults += [Fault(key, problem.fact, problem.consequence, problem.fix) for problem in problems]
        if not problems and main in owners and main not in SHARED_FLAGS:
            owner = owners[main]
            fix = "Take it out." if owner.startswith("the ") else f"Write {owner} instead, once."
            faults.append(
                Fault(key, f"{main} is already decided by {owner}.", "The command would carry it twice.", fix)
            )
        elif not problems and main in seen:
            consequence = "The last one would win."
            faults.append(
                Fault(key, f"sets {main} a second time, after vllmArgs.{seen[main]}.", consequence, "Keep one.")
            )
        elif not problems and main == "--mm-processor-kwargs":
            faults += _vision(settings, key, f"{written} {value}")
        seen.setdefault(main, written)
    return faults


def doubtful_arguments(settings: Settings) -> Iterator[Fault]:
    """Yield a warning for each flag that the table does not have, where the image holds another vLLM or does not say."""
    if not (said := _other_vllm(settings)):
        return
    table = serving_flags(settings)
    for written, value in settings.vllm_args.items():
        for problem in table.check(written, value):
            consequence = (
                f"That is by the flags of vLLM {table.version}; the image says {said}, and its own are not on file. "
                "If it is wrong there too, the server stops at its command line, after the machine is paid for."
            )
            yield Fault(f"vllmArgs.{written}", problem.fact, consequence, problem.fix)


def _other_vllm(settings: Settings) -> str:
    """Return what the image's name says of its vLLM where that differs from the flag table; empty where it does not."""
    if settings.images.serving is None:
        return ""
    version = parse_image_name(settings.images.serving).vllm_version
    return "" if version == serving_flags(settings).version else version or "no version"


def _vision(settings: Settings, key: str, words: str) -> Iterator[Fault]:
    """Yield a fault where --mm-processor-kwargs says what serving.visionTokens says or should say."""
    if "max_soft_tokens" in words:
        *known, last = map(str, get_args(VisionTokens))
        fact = "max_soft_tokens is decided by serving.visionTokens."
        consequence = "vLLM would stop at a number that it does not know, and the plan would not count it."
        yield Fault(key, fact, consequence, f"Write serving.visionTokens instead: {', '.join(known)} or {last}.")
    elif settings.serving.vision_tokens is not None:
        fact, consequence = "stands beside serving.visionTokens.", "The flag would stand twice; the last one would win."
        yield Fault(key, fact, consequence, "Keep one of the two.")
