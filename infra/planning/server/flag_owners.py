"""Which setting owns which flag of `vllm serve`, read off the declarations of settings.

The command carries these flags, and `vllmArgs` may not write them a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from infra.planning.settings.declarations import Settings
from infra.planning.settings.paths import known_paths

PROGRAM_FLAGS: Mapping[str, str] = {
    "--host": "the program",
    "--port": "the program",
    "--uds": "the program",
    "--grpc": "the program",
    "--headless": "the program",
    "--ssl-keyfile": "the program",
    "--ssl-certfile": "the program",
    "--config": "the stack file",
    "--served-model-name": "the program",
    "--shutdown-timeout": "the program",
    "--disable-custom-all-reduce": "the program",
}
"""Flags that no setting declares, and who decides them."""

SHARED_FLAGS = frozenset(
    {"--disable-custom-all-reduce", "--hf-overrides", "--mm-processor-kwargs", "--shutdown-timeout"}
)
"""Flags with an owner that `vllmArgs` may write all the same: what is written there takes the place of the owner's."""


@dataclass(frozen=True)
class OwnedFlags:
    """What one setting says of flags: the one that it becomes, the value that leaves it out, and what else it decides."""

    path: str
    """The setting as a stack file spells it, e.g. serving.maxModelLen."""
    flag: str
    """Empty where the setting only decides other flags."""
    off: Any
    decides: tuple[str, ...]

    def value_in(self, settings: BaseModel) -> Any:
        """Return the setting's own value as the flag's, None where the flag is left out."""
        value: Any = settings
        for part in self.path.split("."):
            fields = type(value).model_fields
            value = getattr(value, next(name for name, field in fields.items() if part in (name, field.alias)))
        return None if self.off is not None and value == self.off else value


@cache
def owned_flags(settings: type[BaseModel] = Settings) -> tuple[OwnedFlags, ...]:
    """Return what the settings declare of flags, in the order of their declarations."""
    declarations = ((path, field.json_schema_extra or {}) for path, field in known_paths(settings))
    return tuple(
        OwnedFlags(path, declared["flag"], declared["off"], tuple(declared["owns"]))
        for path, declared in declarations
        if "flag" in declared
    )


def own_values(settings: Settings) -> dict[str, Any]:
    """Return the value of each flag that a setting becomes, None where the flag is left out."""
    return {one.flag: one.value_in(settings) for one in owned_flags(type(settings)) if one.flag}


def flag_owners(settings: type[BaseModel] = Settings) -> dict[str, str]:
    """Return the owner of every flag that has one: a setting's path, or who else decides it."""
    owners = dict(PROGRAM_FLAGS)
    for one in owned_flags(settings):
        owners |= dict.fromkeys((*filter(None, (one.flag,)), *one.decides), one.path)
    return owners


MANAGED_FLAGS: Mapping[str, str] = {flag: owner for flag, owner in flag_owners().items() if flag not in SHARED_FLAGS}
"""Flags that `vllmArgs` may not write, by their main spelling, and what decides each: a setting, or the program."""
