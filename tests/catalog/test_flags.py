"""The flag table of vLLM: what it takes, what it refuses, and that every refusal says what to write instead.

The cases marked as tried were run against the argument parser of vLLM 0.32.0 itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.catalog.flag_values import Flag
from infra.catalog.flags import REMOVED, TABLES, FlagTable, flag_table, read_flags
from infra.errors import CatalogError

TABLE, NEWER = flag_table("0.32.0"), flag_table("0.33.0")


def problem(spelling: str, value: Any, table: FlagTable = TABLE) -> str:
    """The one problem of a flag, as a user reads it."""
    problems = table.check(spelling, value)
    assert len(problems) == 1
    return str(problems[0])


class TestTheTable:
    def test_it_is_of_the_version_that_was_tried_and_whole(self) -> None:
        assert TABLE.version == "0.32.0"
        assert len(TABLE.flags) == 316  # 318 parser actions without the model and --help
        assert sum(len(flag.spellings) for flag in TABLE.flags.values()) == 428

    def test_a_flag_is_found_by_each_of_its_spellings(self) -> None:
        for table in (TABLE, NEWER):
            for flag in table.flags.values():
                for spelling in flag.spellings:
                    assert table.find(spelling) is flag
                    assert table.main_spelling(spelling) == flag.name
                assert table.find(flag.name.removeprefix("--").replace("-", "_")) is flag

    def test_a_default_is_a_value_that_passes(self) -> None:
        defaults = {flag.name: flag.default for flag in TABLE.flags.values() if flag.default not in (None, "", False)}
        assert len(defaults) > 80
        assert {name: TABLE.check(name, value) for name, value in defaults.items() if TABLE.check(name, value)} == {}

    def test_every_flag_whose_names_are_looked_up_late_has_its_names(self) -> None:
        assert set(TABLE.values) == {"--tool-call-parser", "--reasoning-parser", "--load-format", "--quantization"}
        assert "gemma4" in TABLE.values["--tool-call-parser"]
        assert "runai_streamer" in TABLE.values["--load-format"]

    def test_what_goes_in_the_next_version_is_marked(self) -> None:
        deprecated = {"--disable-cascade-attn", "--log-config-file"}
        assert {flag.name for flag in TABLE.flags.values() if flag.deprecated} == deprecated
        assert {flag.name for flag in NEWER.flags.values() if flag.deprecated} == {*deprecated, "--mamba-cache-mode"}

    def test_a_malformed_file_is_an_error_of_the_catalog(self, tmp_path: Path) -> None:
        (tmp_path / "flags.json").write_text('{"version": "0.1", "flags": [{"nome": "--x"}], "values": {}}', "utf-8")
        with pytest.raises(CatalogError, match=r"flags\.json cannot be read"):
            read_flags(tmp_path / "flags.json")


class TestVersions:
    def test_each_file_is_of_the_version_in_its_name(self) -> None:
        assert list(TABLES) == ["0.32.0", "0.33.0"]
        for version in TABLES:
            assert flag_table(version).version == version

    @pytest.mark.parametrize(
        ("asked", "table"),
        [("0.19.0", "0.32.0"), ("0.31.1", "0.32.0"), ("0.32.1rc1", "0.32.0"), ("0.33", "0.33.0"), ("1.0", "0.33.0")],
    )
    def test_a_version_without_a_file_gets_the_nearest(self, asked: str, table: str) -> None:
        assert flag_table(asked).version == table

    def test_the_flags_that_only_one_version_has_are_these(self) -> None:
        assert set(TABLE.flags) - set(NEWER.flags) == set()
        assert set(NEWER.flags) - set(TABLE.flags) == {
            *("--monokernel", "--reasoning-effort-map", "--sleep-mode-backend", "--watchdog-config"),
        }

    def test_the_flags_that_differ_beside_their_twins_are_these(self) -> None:
        differing = {}
        for name, old in TABLE.flags.items():
            new = NEWER.flags[name]
            changed = {field for field in Flag.__slots__ if getattr(old, field) != getattr(new, field)}
            if changed - {"negatives"}:
                differing[name] = changed
        assert differing == {
            "--attention-config": {"members"},
            "--gdn-prefill-backend": {"choices"},
            "--kernel-config": {"members"},
            "--kv-cache-dtype": {"choices"},
            "--mamba-cache-mode": {"default", "deprecated"},
            "--moe-backend": {"choices"},
            "--spec-method": {"choices"},
            "--tool-strict-level": {"default", "optional"},
        }

    def test_the_values_that_only_the_older_version_takes_are_these(self) -> None:
        lost = {
            name: gone
            for name, old in TABLE.flags.items()
            if (gone := set(old.choices) - set(NEWER.flags[name].choices or NEWER.values.get(name, old.choices)))
        }
        assert lost == {"--spec-method": {"medusa", "mlp_speculator"}}
        assert {name: set(names) - set(NEWER.values[name]) for name, names in TABLE.values.items()} == {
            name: set() for name in TABLE.values
        }

    def test_since_0_33_what_enables_has_a_twin_that_disables_and_keeps_the_old_one(self) -> None:
        for name, flag in NEWER.flags.items():
            old = TABLE.flags.get(name)
            expected = list(old.negatives if old else flag.negatives)
            for begins, twin in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
                if expected and name.startswith(begins):
                    expected.append(name.replace(begins, twin, 1))
            assert list(flag.negatives) == expected
        assert NEWER.check("disable-prefix-caching", True) == []
        assert "negates twice" in problem("disable-prefix-caching", False, NEWER)

    def test_no_spelling_of_the_older_version_is_unknown_to_the_newer(self) -> None:
        """So that a command that is planned for one of the two starts the other as well."""
        spellings = {spelling for flag in TABLE.flags.values() for spelling in flag.spellings}
        assert {spelling for spelling in spellings if NEWER.find(spelling) is None} == set()

    def test_a_flag_that_came_later_says_since_when(self) -> None:
        said = problem("monokernel", True)
        assert said.startswith("is a flag of vLLM 0.33.0 and later, not of 0.32.0.")
        assert said.endswith("Leave it out, or name an image of that version under images.serving.")
        assert "is a flag of vLLM 0.33.0 and later" in problem("disable-prefix-caching", True)
        assert NEWER.check("monokernel", True) == []

    def test_a_flag_that_is_gone_says_until_when(self) -> None:
        gone = FlagTable("0.99.0", NEWER.flags.values(), NEWER.values, NEWER.source)
        del gone.flags["--monokernel"]
        said = problem("monokernel", True, gone)
        assert said.startswith("is a flag of vLLM 0.33.0 and before, not of 0.99.0.")

    def test_a_kv_type_is_refused_though_the_newer_parser_takes_any_word(self) -> None:
        assert NEWER.flags["--kv-cache-dtype"].choices == ()
        assert "would only notice while it starts" in problem("kv-cache-dtype", "fp9", NEWER)
        assert NEWER.check("kv-cache-dtype", "fp8_e4m3") == []
        assert set(NEWER.values["--kv-cache-dtype"]) - set(TABLE.flags["--kv-cache-dtype"].choices) == {
            *("octave_k3v3", "octave_k3v3_compact", "octave_k3v4"),
        }


class TestAccepted:
    @pytest.mark.parametrize(
        ("spelling", "value"),
        [
            ("max-log-len", 100),
            ("--max_num_seqs", 16),
            ("max-model-len", "16K"),
            ("max-model-len", "16k"),
            ("max-model-len", "2.5k"),
            ("max-model-len", "auto"),
            ("max-num-batched-tokens", "8K"),
            ("gpu-memory-utilization", 0.9),
            ("device-memory-utilization", "0.9"),
            ("disable_chunked_mm_input", True),
            ("no-enable-prefix-caching", True),
            ("enable-prefix-caching", False),
            ("-tp", 4),
            ("limit-mm-per-prompt", {"image": 4, "audio": 0}),
            ("limit-mm-per-prompt", '{"image":4,"audio":0}'),
            ("limit-mm-per-prompt.image", 0),
            ("compilation-config.cudagraph_mode", "NONE"),
            ("speculative-config", {"method": "ngram", "num_speculative_tokens": 3}),
            ("kv-cache-dtype", "fp8_e4m3"),
            ("safetensors-load-strategy", "prefetch"),
            ("max-lora-rank", 16),
            ("lora-modules", ["a=/adapters/a", "b=/adapters/b"]),
            ("max-log-len", "None"),
            ("quantization", "compressed-tensors"),
            ("load-format", "runai_streamer"),
            ("reasoning-parser", "gemma4"),
            ("model-loader-extra-config", {"concurrency": 16}),
        ],
    )
    def test_what_vllm_takes_passes(self, spelling: str, value: Any) -> None:
        assert TABLE.check(spelling, value) == []


class TestUnknownFlags:
    def test_a_misspelt_flag_offers_the_nearest(self) -> None:
        assert "is not a flag of vLLM 0.32.0." in problem("max-modle-len", 10)
        assert "Did you mean max-model-len" in problem("max-modle-len", 10)

    def test_an_abbreviation_is_refused_though_vllm_takes_it(self) -> None:
        assert problem("max-model", 10) == (
            "is an abbreviation. "
            "vLLM would read it as --max-model-len, until another flag begins with the same letters. "
            "Write max-model-len in full."
        )

    def test_an_abbreviated_twin_stays_a_twin(self) -> None:
        assert problem("no-enforce-eag", True).endswith("Write no-enforce-eager in full.")

    def test_a_beginning_of_several_flags_offers_them(self) -> None:
        assert "max-num-active-seqs or max-num-batched-tokens" in problem("max-num", 8)

    def test_a_short_form_with_two_dashes_offers_the_flag(self) -> None:
        assert "Did you mean tensor-parallel-size?" in problem("tp", 4)

    def test_a_twin_that_does_not_exist_is_unknown(self) -> None:
        assert "is not a flag" in problem("no-max-model-len", True)

    def test_a_value_in_the_name_is_taken_apart(self) -> None:
        assert problem("max-model-len=8192", True).endswith("Write max-model-len: 8192.")

    @pytest.mark.parametrize("flag", REMOVED)
    def test_a_flag_of_older_versions_says_what_to_write_now(self, flag: str) -> None:
        assert TABLE.find(flag) is None
        came_back = flag == "--disable-log-requests"  # 0.33 has it again, as the twin of --enable-log-requests
        assert ("is no longer a flag in vLLM 0.32.0." in problem(flag, 1)) is not came_back
        assert problem(flag, 1).endswith(REMOVED[flag])

    def test_all_flags_that_were_tried_and_gone_are_known_as_such(self) -> None:
        assert set(REMOVED) == {
            *("--swap-space", "--disable-log-requests", "--speculative-model", "--num-speculative-tokens"),
            *("--guided-decoding-backend", "--enable-reasoning", "--num-scheduler-steps", "--use-v2-block-manager"),
            *("--task", "--expert-parallel-size"),
        }

    def test_advice_names_flags_that_exist(self) -> None:
        named = ["enable-log-requests", "enable-expert-parallel", "structured-outputs-config", "kv-offloading-size"]
        for flag in [*named, "runner", "convert", "reasoning-parser"]:
            assert TABLE.find(flag) is not None
            assert any(flag in advice for advice in REMOVED.values())


class TestValues:
    @pytest.mark.parametrize(
        ("spelling", "value", "message"),
        [
            ("kv-cache-dtype", "fp9", "Write fp8."),
            ("dtype", "int3", "Write one of: auto, bfloat16, float, float16, float32, half."),
            ("block-size", 1.5, "1.5 is not a whole number."),
            ("block-size", True, "true is not a whole number."),
            ("max-num-seqs", None, "null is not a value. "),
            ("max-model-len", "16Q", '"16Q" is not a whole number.'),
            ("max-model-len", "2.5K", '"2.5K" is not a whole number.'),
            ("max-num-seqs", "16K", '"16K" is not a whole number.'),
            ("cpu-offload-gb", "much", '"much" is not a number.'),
            ("chat-template", "--reasoning", "begins without a dash"),
            ("speculative-config", "ngram", "is not a JSON object, the only form that this flag takes."),
            ("compilation-config", {"cudagraph_mod": "NONE"}, "Did you mean cudagraph_mode"),
            ("compilation-config.cudagraph_mod", "NONE", "Did you mean cudagraph_mode"),
            ("max-num-seqs.most", 3, "has no members to set with a dot."),
        ],
    )
    def test_a_value_that_vllm_refuses_is_refused_in_its_words(self, spelling: str, value: Any, message: str) -> None:
        assert message in problem(spelling, value)
        assert "after the machine is paid for" in problem(spelling, value)

    def test_pairs_are_rewritten_as_the_object_that_vllm_wants(self) -> None:
        assert problem("limit-mm-per-prompt", "image=0,audio=0").endswith("Write {image: 0, audio: 0}.")

    @pytest.mark.parametrize(
        ("spelling", "value", "fix"),
        [
            ("tool-call-parser", "gemma9", "gemma4"),
            ("reasoning-parser", "gema4", "gemma4"),
            ("load-format", "runai", "runai_streamer"),
            ("load-format", "nope", "Write one of: auto, dummy"),
            ("quantization", "fp_8", "fp8"),
        ],
    )
    def test_a_name_that_vllm_looks_up_late_is_looked_up_now(self, spelling: str, value: str, fix: str) -> None:
        assert "would only notice while it starts" in problem(spelling, value)
        assert fix in problem(spelling, value)


class TestSwitches:
    def test_a_switch_takes_true_or_false_only(self) -> None:
        for value in (None, 1, "true", "yes"):
            assert problem("enforce-eager", value).endswith("Write enforce-eager: true.")

    def test_a_switch_without_a_twin_cannot_be_switched_off(self) -> None:
        assert TABLE.check("disable-log-stats", True) == []
        assert problem("disable-log-stats", False).endswith("Leave it out: off is the default.")

    def test_a_twin_is_not_negated_again(self) -> None:
        assert problem("no-enforce-eager", False).endswith("Write enforce-eager: true.")
