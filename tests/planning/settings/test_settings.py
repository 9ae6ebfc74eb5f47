"""Settings: which layer wins, where each value comes from, and that all ways of writing a value mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import SettingsError
from infra.ops.commands.explain import describe_setting
from infra.ops.plan_inputs import parse_assignments
from infra.planning.planner import make_plan
from infra.planning.settings.declarations import Settings
from infra.planning.settings.paths import known_paths, leaf_paths
from infra.planning.settings.resolve import Origin, Resolved, laid_over, resolve
from infra.planning.settings.stackfile import read_stack, split_config, stack_names
from tests.projects import ROOT, write_stack

PAIR = {"model": "gemma-4-31b-it-qat-w4a16", "accelerator": "l4"}
"""A pair with a recipe of its own and another one for the latency profile."""
BARE = {"model": "gemma-4-31b-it", "accelerator": "g4-8"}
"""A pair without a recipe."""
DESCRIBED = [describe_setting(path, field) for path, field in known_paths()]
LEAVES = [row for row in DESCRIBED if row["type"] != "group"]


def value_of(resolved: Resolved, path: str) -> Any:
    """The value at a dotted path, as the settings hold it."""
    value: Any = resolved.settings
    for part in path.split("."):
        value = value[part] if isinstance(value, Mapping) else getattr(value, _snake(part))
    return value


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


class TestALaterLayerWins:
    def test_a_value_is_taken_from_the_last_of_default_recipe_profile_file_and_command_line(self) -> None:
        path = "serving.cpuOffloadGb"
        file = {**PAIR, "profile": "latency", "serving": {"cpuOffloadGb": 3}}
        ladder = [
            (resolve(BARE), 0, Origin.DEFAULT),
            (resolve(PAIR), 5, Origin.RECIPE),
            (resolve({**PAIR, "profile": "latency"}), 2, Origin.PROFILE),
            (resolve(file), 3, Origin.STACK_FILE),
            (resolve(file, {path: 4}), 4, Origin.COMMAND_LINE),
        ]
        assert [(value_of(resolved, path), resolved.origins[path]) for resolved, _, _ in ladder] == [
            (value, origin) for _, value, origin in ladder
        ]

    def test_a_written_value_changes_no_other_value_of_its_group(self) -> None:
        before, after = resolve(PAIR), resolve({**PAIR, "serving": {"maxNumSeqs": 3}})
        changed = {path for path in leaf_paths(after.settings) if value_of(before, path) != value_of(after, path)}
        assert changed == {"serving.maxNumSeqs"}
        assert {path for path in after.origins if after.origins[path] != before.origins[path]} == changed

    def test_a_recipe_belongs_to_its_pair_and_its_profile(self) -> None:
        assert resolve(BARE).recipes == ()
        assert [recipe.profile for recipe in resolve(PAIR).recipes] == [None]
        assert [recipe.profile for recipe in resolve({**PAIR, "profile": "latency"}).recipes] == [None, "latency"]
        assert [recipe.profile for recipe in resolve(PAIR, {"profile": "latency"}).recipes] == [None, "latency"]

    def test_every_value_has_an_origin_and_nothing_else_has(self) -> None:
        for file in (PAIR, BARE, {**PAIR, "labels": {"team": "ml"}, "vllmArgs": {"max-log-len": 5}}):
            resolved = resolve(file)
            assert list(resolved.origins) == list(leaf_paths(resolved.settings))

    def test_the_model_and_accelerator_may_come_from_the_command_line(self) -> None:
        resolved = resolve({}, PAIR)
        assert resolved.origins["model"] is Origin.COMMAND_LINE
        assert resolved.recipes


class TestANull:
    def test_a_null_lets_the_default_stand_again_with_its_origin(self) -> None:
        for file, typed in (
            ({**PAIR, "serving": {"kvCacheDtype": None}}, {}),
            ({**PAIR, "serving": {"kvCacheDtype": "bfloat16"}}, {"serving.kvCacheDtype": None}),
        ):
            resolved = resolve(file, typed)
            assert resolved.settings.serving.kv_cache_dtype == "auto"
            assert resolved.origins["serving.kvCacheDtype"] is Origin.DEFAULT

    def test_a_null_takes_an_entry_of_a_map_away(self) -> None:
        moe = {"model": "gemma-4-26b-a4b-it", "accelerator": "v6e-4"}
        variable = next(iter(resolve(moe).settings.serving.env))
        resolved = resolve({**moe, "serving": {"env": {variable: None, "OTHER": "1"}}})
        assert dict(resolved.settings.serving.env) == {"OTHER": "1"}
        assert f"serving.env.{variable}" not in resolved.origins

    def test_a_group_without_members_changes_nothing(self) -> None:
        assert resolve({**PAIR, "serving": None, "labels": None}).settings == resolve(PAIR).settings

    def test_a_null_for_the_model_is_a_missing_model(self) -> None:
        with pytest.raises(SettingsError, match=r"^model: is missing"):
            resolve(PAIR, {"model": None})

    @pytest.mark.parametrize("path", ["profile", "region", "hfToken", "deletionProtection"])
    def test_a_null_takes_a_value_of_the_first_level_away(self, path: str) -> None:
        assert resolve({**PAIR, path: None}).settings == resolve(PAIR).settings
        assert resolve(PAIR, {path: None}).settings == resolve(PAIR).settings


class TestMaps:
    def test_the_entries_of_a_map_come_together_from_all_layers_with_their_origins(self) -> None:
        resolved = resolve({**PAIR, "labels": {"team": "ml", "cost": "a"}}, {"labels.cost": "b"})
        assert dict(resolved.settings.labels) == {"team": "ml", "cost": "b"}
        assert resolved.origins["labels.team"] is Origin.STACK_FILE
        assert resolved.origins["labels.cost"] is Origin.COMMAND_LINE

    def test_a_flag_of_vllm_may_carry_a_group_or_a_dot_of_its_own(self) -> None:
        args = {"structured-outputs-config": {"backend": "xgrammar"}, "compilation-config.mode": 3}
        assert resolve({**PAIR, "vllmArgs": args}).settings.vllm_args == args

    def test_an_assignment_to_a_path_reaches_the_entry_of_a_map(self) -> None:
        typed = parse_assignments(["serving.env.A=x", "serving.speculation.method=ngram", "tpu.slices=[blue, green]"])
        settings = resolve({**PAIR, "serving": {"env": {"B": "y"}}}, typed).settings
        assert dict(settings.serving.env) == {"A": "x", "B": "y"}
        assert settings.serving.speculation.method == "ngram"
        assert settings.tpu.slices == ("blue", "green")


class TestAllWaysOfWritingMeanTheSame:
    @pytest.mark.parametrize("row", [row for row in LEAVES if row["example"] is not None], ids=lambda row: row["key"])
    def test_the_example_of_every_setting_means_the_same_in_file_command_line_and_pulumi(
        self, row: dict[str, Any], tmp_path: Path
    ) -> None:
        path, example = row["key"], row["example"]
        if path in ("model", "accelerator"):
            example = PAIR[path]
        if path == "hfTokenSecret":
            assert resolve({**PAIR, path: example}).settings.hf_token_secret == example
        typed = (
            {f"{path}.{key}": value for key, value in example.items()} if isinstance(example, dict) else {path: example}
        )
        from_line = resolve(PAIR, typed).settings
        as_words = [f"{key}={json.dumps(value)}" for key, value in typed.items()]
        assert resolve(PAIR, parse_assignments(as_words)).settings == from_line
        tree = laid_over(PAIR, typed)
        assert resolve(tree).settings == from_line
        write_stack(tmp_path, "\n".join(f"gemma4:{key}: {json.dumps(value)}" for key, value in tree.items()))
        assert resolve(read_stack(tmp_path, "mine").settings).settings == from_line
        config = {
            f"gemma4:{key}": value if isinstance(value, str) else json.dumps(value) for key, value in tree.items()
        }
        assert resolve(split_config(config)[0]).settings == from_line

    @pytest.mark.parametrize("row", [row for row in LEAVES if row["example"] is not None], ids=lambda row: row["key"])
    def test_a_dotted_key_is_a_member_of_its_group(self, row: dict[str, Any], tmp_path: Path) -> None:
        """As messages spell it, and as `pulumi config set` without --path writes it: as text."""
        path, example = row["key"], PAIR.get(row["key"], row["example"])
        text = example if isinstance(example, str) else json.dumps(example)
        head = "\n".join(f"gemma4:{key}: {value}" for key, value in PAIR.items() if key != path)
        write_stack(tmp_path, f"{head}\ngemma4:{path}: {json.dumps(text)}")
        assert resolve(read_stack(tmp_path, "mine").settings).settings == resolve({**PAIR, path: example}).settings
        assert resolve({**PAIR, path: example}).origins == resolve(laid_over(PAIR, {path: example})).origins

    def test_a_dotted_key_stands_beside_its_group(self) -> None:
        file = {**PAIR, "serving": {"maxNumSeqs": 7, "speculation.method": "ngram"}, "serving.maxModelLen": "4096"}
        serving = resolve({**file, "serving.env.A": "x"}).settings.serving
        assert (serving.max_num_seqs, serving.max_model_len, serving.speculation.method) == (7, 4096, "ngram")
        assert dict(serving.env) == {"A": "x"}

    @pytest.mark.parametrize(
        ("twice", "path"),
        [
            ({"serving": {"maxModelLen": 4096}, "serving.maxModelLen": 8192}, "serving.maxModelLen"),
            ({"serving.maxModelLen": 4096, "serving": {"maxModelLen": 4096}}, "serving.maxModelLen"),
            ({"labels": {"team": "a"}, "labels.team": "b"}, "labels.team"),
            (
                {"serving": {"speculation": {"tokens": 4}}, "serving.speculation.tokens": 2},
                "serving.speculation.tokens",
            ),
        ],
    )
    def test_a_value_set_in_both_ways_is_one_fault(self, twice: dict[str, Any], path: str) -> None:
        said = f"{path}: is set twice, once by its dotted name and once under its group. One of the two would win. Keep one."
        for in_file, typed in ((twice, None), ({}, twice)):
            with pytest.raises(SettingsError) as caught:
                resolve({**PAIR, **in_file}, typed)
            assert str(caught.value) == said

    @pytest.mark.parametrize("key", ["serving.", ".serving", "serving..maxModelLen", "a.b", "."])
    def test_a_key_of_dots_alone_is_not_a_setting(self, key: str) -> None:
        with pytest.raises(SettingsError) as caught:
            resolve({**PAIR, key: "x"})
        assert [fault.fact for fault in caught.value.faults] == ["no such setting."]

    @pytest.mark.parametrize(
        ("written", "meant"),
        [("machine.zone", "machine.zones"), ("tpu.zones", "tpu.zone"), ("tpu.slice", "tpu.slices")],
    )
    def test_a_key_that_lacks_an_s_is_looked_for_in_its_own_group_first(self, written: str, meant: str) -> None:
        with pytest.raises(SettingsError) as caught:
            resolve({**PAIR, written: "x"})
        assert [fault.fix for fault in caught.value.faults] == [f"Did you mean {meant}?"]

    @pytest.mark.parametrize("key", ["hfToken.secure", "hfToken.x.y"])
    def test_a_token_under_a_dotted_key_is_a_token_in_clear(self, key: str) -> None:
        for value in ("hf_1", {"secure": "hf_1"}):
            with pytest.raises(SettingsError) as caught:
                resolve({**PAIR, key: value})
            assert [str(fault).partition(" It")[0] for fault in caught.value.faults] == [
                "hfToken: is written in clear."
            ]

    def test_a_true_is_not_a_number(self) -> None:
        for path in ("serving.maxModelLen", "serving.maxNumSeqs", "serving.cpuOffloadGb"):
            with pytest.raises(SettingsError, match="true is true or false, not a number"):
                resolve(PAIR, {path: True})

    def test_a_key_without_namespace_belongs_to_the_project_as_for_pulumi(self, tmp_path: Path) -> None:
        write_stack(tmp_path, "model: gemma-4-31b-it\naccelerator: g4-8\ngcp:project: my-project")
        file = read_stack(tmp_path, "mine")
        assert (dict(file.settings), dict(file.gcp)) == (BARE, {"project": "my-project"})

    def test_the_order_in_which_a_file_names_keys_changes_no_server(self, tmp_path: Path) -> None:
        """Pulumi sorts the keys of an object before the program gets it; another order would be another specification."""
        rows = ("tone: acme/tone", "style: acme/style"), ("--seed: 3", "--max-log-len: 10")

        def argv(*, backwards: bool) -> tuple[str, ...]:
            adapters, flags = (tuple(reversed(row)) if backwards else row for row in rows)
            groups = f"serving: {{adapters: {{{', '.join(adapters)}}}}}\nvllmArgs: {{{', '.join(flags)}}}"
            write_stack(tmp_path, f"model: gemma-4-12b-it\naccelerator: l4\n{groups}")
            return make_plan("mine", read_stack(tmp_path, "mine").settings).command.argv

        written = argv(backwards=False)
        assert written == argv(backwards=True)
        assert written.index("--max-log-len") < written.index("--seed")

    def test_the_namespaces_of_other_programs_are_left_alone(self, tmp_path: Path) -> None:
        write_stack(tmp_path, "aws:region: eu-west-1\npulumi:tags: {a: b}\ngcp:zone: us-east5-a", **PAIR)
        assert dict(read_stack(tmp_path, "mine").settings) == PAIR

    def test_an_encrypted_project_is_not_known_here(self, tmp_path: Path) -> None:
        write_stack(tmp_path, "gcp:project: {secure: AAABA}\ngcp:region: us-east4", **PAIR)
        assert dict(read_stack(tmp_path, "mine").gcp) == {"region": "us-east4"}

    def test_the_token_is_only_ever_known_to_be_there(self) -> None:
        file = {**PAIR, "hfToken": {"secure": "AAABADr0"}}
        assert resolve(file).settings.hf_token is True
        assert "AAABADr0" not in repr(resolve(file))
        assert laid_over(file, {})["hfToken"] == {"secure": ""}

    @given(
        st.dictionaries(
            st.sampled_from(["serving.maxModelLen", "serving.maxNumSeqs", "workload.outputTokens", "scaling.cpu"]),
            st.one_of(st.none(), st.integers(300, 400)),
        ),
        st.dictionaries(
            st.sampled_from(
                ["serving.maxModelLen", "serving.maxNumSeqs", "workload.outputTokens", "scaling.memoryGib"]
            ),
            st.one_of(st.none(), st.integers(300, 400)),
        ),
    )
    def test_assignments_laid_over_a_file_resolve_as_if_they_had_been_written(
        self, file: dict[str, int | None], typed: dict[str, int | None]
    ) -> None:
        tree: dict[str, Any] = dict(PAIR)
        for path, value in file.items():
            group, key = path.split(".")
            tree.setdefault(group, {})[key] = min(value, 64) if path == "scaling.cpu" and value else value
        assert resolve(laid_over(tree, typed)).settings == resolve(tree, typed).settings


class TestTheModelOfSettings:
    def test_the_defaults_alone_are_valid_and_every_one_is_reported(self) -> None:
        settings = resolve(BARE).settings
        defaults = {row["key"]: row["default"] for row in LEAVES if not row["required"]}
        for path, default in defaults.items():
            value = value_of(Resolved(settings, {}, ()), path)
            assert (list(value) if isinstance(value, tuple) else value) == default, path

    def test_every_setting_says_what_it_means_and_shows_a_good_value(self) -> None:
        for row in DESCRIBED:
            assert row["meaning"].endswith("."), row["key"]
            assert row["type"] == "group" or row["example"] is not None or row["key"] == "hfToken", row["key"]

    def test_settings_cannot_be_changed(self) -> None:
        with pytest.raises((TypeError, ValueError, AttributeError), match=r"frozen|cannot"):
            resolve(PAIR).settings.model = "gemma-5"  # type: ignore[misc]

    def test_every_recipe_of_the_catalog_is_made_of_settings(self) -> None:
        from infra.catalog import catalog

        for recipe in catalog().recipes:
            pair = {"model": recipe.model, "accelerator": recipe.accelerator}
            resolved = resolve({**pair, **({"profile": recipe.profile} if recipe.profile else {})})
            assert recipe in resolved.recipes
            assert set(recipe.settings) <= set(resolved.origins)


class TestAPatternHoldsForTheWholeValue:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("weights.revision", "../../x y;z"),
            ("weights.revision", ".."),
            ("weights.revision", ".hidden"),
            ("weights.revision", "-x"),
            ("weights.revision", "main\n"),
            ("weights.revision", "a" * 65),
            ("hfTokenSecret", "a b/c;rm -rf"),
            ("hfTokenSecret", "projects//secrets/hf-token"),
            ("hfTokenSecret", "projects/p/secrets/hf-token/versions/1"),
            ("serving.chatTemplate", "templates/a.jinja"),
            ("serving.chatTemplate", "/templates/a b.jinja"),
            ("serving.chatTemplate", "/templates/../../etc/passwd"),
            ("serving.chatTemplate", "/templates/"),
            ("serving.chatTemplate", "{{ messages }}"),
        ],
    )
    def test_a_text_around_a_good_value_is_refused(self, key: str, value: str) -> None:
        with pytest.raises(SettingsError) as caught:
            resolve(PAIR, {key: value})
        assert [fault.key for fault in caught.value.faults] == [key]
        assert "has the wrong form; write it like " in str(caught.value)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("weights.revision", "a" * 40),
            ("weights.revision", "v1.0_final-2"),
            ("hfTokenSecret", "projects/my-project/secrets/hf-token"),
            ("hfTokenSecret", "projects/123456/secrets/HF_TOKEN"),
            ("serving.chatTemplate", "/vllm-workspace/examples/tool_chat_template_gemma4.jinja"),
            ("serving.chatTemplate", "tools"),
        ],
    )
    def test_a_good_value_at_the_edge_of_its_pattern_is_taken(self, key: str, value: str) -> None:
        assert value_of(resolve(PAIR, {key: value}), key) == value


def test_every_shipped_stack_resolves_and_uses_no_secret() -> None:
    names = stack_names(ROOT)
    assert {"l4", "l4-31b", "rtx6000", "v6e4", "v6e4-31b", "v6e1", "g4x2"} <= set(names)
    for name in names:
        assert isinstance(resolve(read_stack(ROOT, name).settings).settings, Settings)
