"""What people ask `gemma4 explain` for beside settings: models, machines, flags of vLLM, and the words of the plan."""

from __future__ import annotations

import re
from typing import Any

from infra.catalog import GIB, catalog
from infra.catalog.flags import REMOVED, TABLES, flag_table, normal_spelling
from infra.ops.commands.glossary import GLOSSARY, SYNONYMS
from infra.planning.server.flag_owners import MANAGED_FLAGS
from infra.planning.settings.paths import known_paths


def word_rows(word: str) -> list[dict[str, Any]]:
    """Return what is known of a word that is not a setting, in the form of a setting's row; empty where nothing is."""
    found = _catalog(word) or _flag(word) or _term(word)
    return [{"key": word, "required": False, "default": None, "range": "", "example": None, **found}] if found else []


def choices(path: str) -> list[str]:
    """Return the ids that the setting at `path` takes from the catalog; empty for any other setting."""
    known = {"model": catalog().models, "accelerator": catalog().accelerators}.get(path, {})
    return list(known)


def known_words() -> list[str]:
    """Return everything that may be asked for: settings, ids of the catalog, and words of the glossary."""
    return [*(path for path, _ in known_paths()), *choices("model"), *choices("accelerator"), *GLOSSARY]


def _catalog(word: str) -> dict[str, Any]:
    facts, word = catalog(), word.lower()
    if model := facts.models.get(word):
        size = model.checkpoint_bytes / GIB
        by = f" (by {model.maker}, a third party)" if model.third_party else ""
        meaning = f"{model.title}: {model.hub_id}{by}, weights of {size:.1f} GiB, from vLLM {model.min_vllm} on."
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
    key = normal_spelling(word)
    found = {version: flag for version in TABLES if (flag := flag_table(version).find(word))}
    if not found:
        gone = {
            "meaning": f"Is no longer a flag. {REMOVED.get(key)}",
            "type": f"a flag before vLLM {next(iter(TABLES))}",
        }
        return gone if key in REMOVED else {}
    kind = f"a flag of vLLM {' and '.join(found)}"
    *_, flag = found.values()
    owner = MANAGED_FLAGS.get(flag.name, "")
    if owner.startswith("the "):
        return {"meaning": f"Set by {owner}; nothing here changes it.", "type": kind}
    if owner:
        return {"meaning": f"Set by {owner}. See: gemma4 explain {owner}", "type": kind}
    name = flag.name.lstrip("-")
    return {
        "meaning": "Goes to the server as it is written under vllmArgs.",
        "type": kind,
        "example": f"gemma4:vllmArgs: {{{name}: {'true' if flag.kind == 'switch' else 'VALUE'}}}",
    }


def _term(word: str) -> dict[str, Any]:
    entries = {name.lower(): meaning for name, meaning in GLOSSARY.items()}
    plain = " ".join(re.split(r"[\s_]+", word.lower().strip()))
    tried = (SYNONYMS.get(plain, plain).lower(), plain.replace("-", " "), plain.removesuffix("s"))
    meaning = next((entries[name] for name in tried if name in entries), None)
    return {"meaning": meaning, "type": "a word of the plan"} if meaning else {}
