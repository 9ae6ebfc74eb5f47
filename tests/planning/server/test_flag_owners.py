"""Each flag has one owner, and a setting that says its flag is all that a new flag takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from infra.catalog import catalog
from infra.catalog.flags import flag_table
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.server.command import FLAG_ORDER, planned_flags
from infra.planning.server.flag_owners import PROGRAM_FLAGS, SHARED_FLAGS, flag_owners, owned_flags
from infra.planning.server.user_flags import check_arguments
from infra.planning.settings.declarations import ServingSettings, Settings, setting

MODEL = next(iter(catalog().models))
MACHINES = list(catalog().accelerators)
SWITCHED_ON: dict[str, Any] = {
    "serving.enforceEager": True,
    "serving.cpuOffloadGb": 2.5,
    "serving.quantization": "fp8",
    "serving.speculation.method": "mtp",
    "serving.visionTokens": 280,
    "serving.blockSize": 32,
    "serving.asyncScheduling": False,
    "serving.chatTemplate": "/templates/a.jinja",
    "serving.safetensorsLoadStrategy": "lazy",
    "weights.source": "huggingface",
}


class ServingWithLogprobs(ServingSettings):
    """The server's settings and one more, declared as in settings/declarations.py."""

    max_logprobs: int | None = setting(None, "Most log probabilities a token.", 20, ge=0, flag="--max-logprobs")
    log_outputs: bool = setting(False, "Log answers.", True, flag="--enable-log-outputs", off=False)


class SettingsWithLogprobs(Settings):
    """All settings, with the further ones."""

    serving: ServingWithLogprobs = setting(ServingWithLogprobs(), "The vLLM server.")


def plan(machine: str, **settings: Any) -> Plan:
    return make_plan("test", {"model": MODEL, "accelerator": machine}, settings)


def flags_of(one: Plan, settings: Settings | None = None) -> dict[str, Any]:
    drafting = {"method": one.server.speculation} if one.server.speculation != "none" else None
    return planned_flags(settings or one.settings, one.server, drafting=drafting, revision="main")


def extended(one: Plan, **more: Any) -> SettingsWithLogprobs:
    """The settings of a plan with values of the two further ones."""
    settings = one.settings.model_dump(by_alias=True)
    settings["serving"] |= more
    return SettingsWithLogprobs.model_validate(settings)


class TestEachFlagHasOneOwner:
    def test_no_flag_is_declared_twice(self) -> None:
        declared = Counter(list(PROGRAM_FLAGS))
        for one in owned_flags():
            declared.update(filter(None, (one.flag, *one.decides)))
        assert [flag for flag, times in declared.items() if times > 1] == []

    def test_every_flag_of_every_command_has_one(self) -> None:
        """Not by looking at commands, which leave flags out, but at all that they may carry."""
        for machine in MACHINES:
            assert set(flags_of(plan(machine))) <= set(flag_owners())

    def test_every_flag_that_a_setting_declares_is_one_that_commands_may_carry(self) -> None:
        declared = {one.flag for one in owned_flags() if one.flag}
        for machine in MACHINES:
            assert declared <= set(flags_of(plan(machine)))

    def test_all_exist_in_the_flag_table_by_their_main_spelling(self) -> None:
        assert set(flag_owners()) <= set(flag_table().flags)

    def test_the_order_of_a_command_names_no_flag_that_is_gone(self) -> None:
        assert set(FLAG_ORDER) <= set(flags_of(plan(MACHINES[0])))
        assert len(set(FLAG_ORDER)) == len(FLAG_ORDER)

    @pytest.mark.parametrize("machine", MACHINES)
    def test_what_a_command_carries_is_what_the_flag_table_takes(self, machine: str) -> None:
        for flag, value in {**flags_of(plan(machine)), **flags_of(plan(machine, **SWITCHED_ON))}.items():
            if value is not None:
                spelled = list(value) if isinstance(value, tuple) else value
                assert flag_table().check(flag, spelled) == [], (flag, value)

    def test_a_setting_becomes_its_flag_unless_its_value_leaves_it_out(self) -> None:
        switched = flags_of(plan(MACHINES[0], **SWITCHED_ON))
        assert [
            path for path in SWITCHED_ON if path.startswith("serving.") and path not in flag_owners().values()
        ] == []
        for one in owned_flags():
            if one.path in SWITCHED_ON and one.off is not None:
                assert switched[one.flag] == SWITCHED_ON[one.path]
                assert flags_of(plan(MACHINES[0]))[one.flag] is None

    def test_vllm_args_may_write_none_of_them_but_those_that_are_shared(self) -> None:
        one = plan(MACHINES[0])
        for flag, owner in flag_owners().items():
            taken = {"switch": True, "integer": 1, "number": 0.5, "size": 1, "length": 256}
            kind = flag_table().flags[flag].kind
            choices = (*flag_table().flags[flag].choices, *flag_table().values.get(flag, ()))
            value = choices[0] if choices else taken.get(kind, {} if kind in ("json", "object") else "text")
            written = one.settings.model_copy(update={"vllm_args": {flag: value}})
            refused = [fault for fault in check_arguments(written) if f"already decided by {owner}" in fault.fact]
            assert bool(refused) == (flag not in SHARED_FLAGS), (flag, check_arguments(written))


class TestANewFlagIsOneDeclaration:
    """Nothing but the declarations above says anything of these two settings."""

    def test_it_is_in_the_command_with_the_settings_value(self) -> None:
        one = plan(MACHINES[0])
        carried = flags_of(one, extended(one, maxLogprobs=5, logOutputs=True))
        assert (carried["--max-logprobs"], carried["--enable-log-outputs"]) == (5, True)

    def test_it_is_left_out_where_nobody_set_it(self) -> None:
        one = plan(MACHINES[0])
        carried = flags_of(one, extended(one))
        assert (carried["--max-logprobs"], carried["--enable-log-outputs"]) == (None, None)
        assert list(flags_of(one)) == [flag for flag in carried if flag in flags_of(one)], "commands of today change"

    @pytest.mark.parametrize("spelling", ["max-logprobs", "--max_logprobs"])
    def test_vllm_args_may_not_write_it(self, spelling: str) -> None:
        settings = extended(plan(MACHINES[0])).model_copy(update={"vllm_args": {spelling: 9}})
        (fault,) = check_arguments(settings)
        assert fault.fact == "--max-logprobs is already decided by serving.maxLogprobs."
        assert fault.fix == "Write serving.maxLogprobs instead, once."
