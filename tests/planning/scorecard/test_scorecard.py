"""Rows of published runs: read, predicted from their description alone, scored as sets, and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.catalog import GIB, catalog
from infra.errors import SettingsError
from infra.planning.memory.budget import device_budget
from infra.planning.memory.verdict import Verdict
from infra.planning.scorecard.predict import ComparedFigure, ComparedRow, compare, server_of_run
from infra.planning.scorecard.published_runs import SHIPPED, FileRow, PublishedRun, read_runs
from infra.planning.scorecard.sets import SETS, SetScore, score_sets, score_verdicts, sets_of, unclaimed
from infra.planning.units import Band
from tests.golden import SCORECARD, output, scorecard

MEMORY: dict[str, Any] = {
    "id": "one",
    "what": "memory",
    "model": "gemma-4-e2b-it",
    "hardware": "l4",
    "backend": "gpu",
    "vllm": "0.30.0",
    "max_model_len": 8192,
    "gpu_memory_utilization": 0.9,
    "published": {"tokens": 700_000, "outcome": "boots"},
}
SPEED: dict[str, Any] = {
    "id": "two",
    "what": "speed",
    "model": "gemma-4-e2b-it",
    "hardware": "a-card-of-mine",
    "backend": "gpu",
    "device_memory_gib": 24.0,
    "bandwidth_gb_s": 300.0,
    "flops_tf_s": 121.0,
    "running": 1,
    "prompt_tokens": 1024,
    "output_tokens": 128,
    "prompts": "cached",
    "published": {"tokens_per_second": 50.0},
}


def without(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


def written(folder: Path, content: Any) -> list[tuple[str, FileRow]]:
    path = folder / "rows.json"
    path.write_text(json.dumps(content), "utf-8")
    return read_runs(path)


def run_of(**changes: Any) -> PublishedRun:
    return PublishedRun.model_validate({**MEMORY, **changes})


def compared(**changes: Any) -> ComparedRow:
    return compare("one", run_of(**changes))


class TestReading:
    def test_an_object_of_lists_and_one_list_are_read_alike(self, tmp_path: Path) -> None:
        apart = written(tmp_path, {"about": "x", "memory": [without(MEMORY, "what")], "speed": [SPEED]})
        assert apart == written(tmp_path, [MEMORY, SPEED])

    def test_rows_of_starts_and_verdicts_are_told_apart_in_one_list(self, tmp_path: Path) -> None:
        rows = [{"what": "L4 E2B", "engine_init_s": 120.0}, {"config": "31B", "published": "serves"}, MEMORY]
        assert [name for name, _ in written(tmp_path, rows)] == ["start-1", "verdicts-1", "one"]

    @pytest.mark.parametrize(
        ("row", "key"),
        [
            ({**MEMORY, "published": {"tokns": 1}}, "one.published"),
            ({**MEMORY, "devices": 3}, "one.devices"),
            ({**MEMORY, "devices": "1"}, "one.devices"),
            ({**MEMORY, "model": "gemma-5"}, "one.model"),
            ({**MEMORY, "hardware": "unheard-of"}, "one.device_memory_gib"),
            ({**MEMORY, "quantization": "fp7"}, "one.quantization"),
            ({**MEMORY, "kv_cache_dtype": "fp7"}, "one.kv_cache_dtype"),
            ({**MEMORY, "vllm": "newest"}, "one.vllm"),
            ({**MEMORY, "published": {}}, "one.published"),
            (without(MEMORY, "id"), "memory-1.id"),
            (without(MEMORY, "max_model_len"), "one.max_model_len"),
            (without(SPEED, "bandwidth_gb_s"), "two.bandwidth_gb_s"),
            (without(SPEED, "prompts"), "two.prompts"),
            ({**SPEED, "published": {"first_token_ms": 2.0}}, "two.published.tokens_per_second"),
            ("text", "memory-1"),
        ],
    )
    def test_a_fault_names_row_and_key(self, tmp_path: Path, row: Any, key: str) -> None:
        with pytest.raises(SettingsError) as raised:
            written(tmp_path, [row])
        assert [fault.key for fault in raised.value.faults] == [key]

    def test_all_faults_of_a_file_are_named_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError) as raised:
            written(tmp_path, [{**MEMORY, "devices": 3, "vllm": "newest"}, {**SPEED, "running": "8", "x": 1}])
        assert [fault.key for fault in raised.value.faults] == ["one.devices", "one.vllm", "two.running", "two.x"]

    def test_a_row_that_cannot_be_read_is_said_and_the_others_are_scored(self, tmp_path: Path) -> None:
        rows = dict(written(tmp_path, [{**MEMORY, "vllm": "newest"}, SPEED, 7]))
        found = {name: compare(name, row) for name, row in rows.items()}
        assert found["one"].reason == "one.vllm is 'newest', not a version"
        assert found["memory-2"].reason == "memory-2 is 7, not a row"
        assert [name for name, row in found.items() if row.figures] == ["two"]

    def test_a_key_that_rows_do_not_have_is_said_and_the_rest_counts(self, tmp_path: Path) -> None:
        more = {**MEMORY, "max_modell_len": 1, "published": {**MEMORY["published"], "tokns": 1}}
        (name, row), (_, plain) = written(tmp_path, [more, MEMORY])
        found = compare(name, row)
        assert found.figures == compare(name, plain).figures != ()
        assert "one.max_modell_len is not a key of such a row: Did you mean max_model_len?" in found.reason
        assert "one.published.tokns is not a key" in found.reason

    def test_what_tables_of_data_write_of_a_row_is_read(self, tmp_path: Path) -> None:
        floats = {key: float(value) if isinstance(value, int) else value for key, value in MEMORY.items()}
        spelled = {**floats, "block_size": None, "kv_cache_dtype": "bf16"}
        (_, row), (_, plain) = written(tmp_path, [spelled, {**MEMORY, "kv_cache_dtype": "bfloat16"}])
        assert row == plain

    def test_an_id_that_comes_again_is_told_apart(self, tmp_path: Path) -> None:
        assert [name for name, _ in written(tmp_path, [SPEED, SPEED])] == ["two", "two (2)"]


class TestPrediction:
    def test_a_machine_of_the_catalog_keeps_its_facts_and_the_row_wins(self) -> None:
        machine = server_of_run(run_of(device_memory_gib=20.0)).accelerator
        assert machine.measured == catalog().accelerator("l4").measured
        assert machine.bandwidth == catalog().accelerator("l4").bandwidth
        assert machine.device_memory_gib == 20.0

    def test_another_machine_is_one_that_nobody_measured(self) -> None:
        described = run_of(hardware="l4-elsewhere", device_memory_gib=21.96)
        assert server_of_run(described).accelerator.measured == ()
        assert server_of_run(run_of(hardware="v6e-1", device_memory_gib=31.24)).accelerator.measured == ()

    def test_the_name_of_a_machine_does_not_change_what_its_memory_holds(self) -> None:
        (mine,) = compared(hardware="mine", device_memory_gib=21.96).figures
        assert mine == compared().figures[0]

    @pytest.mark.parametrize(
        ("note", "warm"),
        [
            ("second start", True),
            ("warm compile cache", True),
            ("36 tokens per second", False),
            ("measured after warm-up", False),
        ],
    )
    def test_a_note_tells_a_start_that_finds_its_programs_compiled(self, note: str, warm: bool) -> None:
        assert server_of_run(run_of(note=note)).compile_cache_warm is warm

    def test_given_weights_replace_the_count_on_each_device(self) -> None:
        weights = device_budget(server_of_run(run_of(weights_gib_given=5.5))).weights
        assert (weights.low / GIB, weights.mid / GIB, weights.high / GIB) == pytest.approx((5.49, 5.5, 5.51))

    def test_given_weights_choose_the_format_that_a_rate_is_read_in(self) -> None:
        row = {**SPEED, "model": "gemma-4-26b-a4b-it", "weights_gib_given": 15.0}
        server = server_of_run(PublishedRun.model_validate(row))
        assert server.weight_format.id == "w4a16"
        assert server_of_run(PublishedRun.model_validate({**row, "weights_gib_given": 48.0})).weight_format.id == "bf16"

    def test_the_main_figure_is_tokens_from_card_and_flags_then_from_bytes_then_weights(self) -> None:
        def names(**published: Any) -> list[str]:
            end_to_end = published.pop("end_to_end", True)
            return [figure.name for figure in compared(published=published, end_to_end=end_to_end).figures]

        everything = {"tokens": 700_000, "kv_gib": 7.0, "weights_gib": 9.8}
        assert names(**everything) == ["kv_tokens", "kv_gib", "kv_tokens_from_bytes", "weights_gib"]
        assert names(kv_gib=7.0) == ["kv_gib"]
        assert names(**everything, end_to_end=False)[0] == "kv_tokens_from_bytes"
        assert names(weights_gib=9.8) == ["weights_gib"]

    def test_requests_that_find_no_place_wait(self) -> None:
        def rate(running: int, **changes: Any) -> Band:
            described = {"model": "gemma-4-12b-it", "hardware": "v6e-1", "backend": "tpu", "device_memory_gib": 31.24}
            row = {**SPEED, **described, "prompt_tokens": 2048, "running": running, **changes}
            return compare("two", PublishedRun.model_validate(row)).figures[0].predicted

        assert rate(64).mid == rate(4).mid > rate(3).mid  # 10,752 tokens of KV cache hold no more
        assert rate(64).low < rate(4).low
        assert rate(64, max_num_seqs=2) == rate(2)

    def test_new_prompts_are_compared_with_the_rate_that_pays_for_them(self) -> None:
        def rate(prompts: str) -> float:
            row = PublishedRun.model_validate({**SPEED, "running": 8, "prompts": prompts})
            return compare("two", row).figures[0].predicted.mid

        assert rate("new") < rate("cached")

    @pytest.mark.parametrize(("size", "inside"), [(0.744, False), (0.746, True), (0.754, True), (0.756, False)])
    def test_a_rounded_size_lies_in_a_band_that_its_rounding_reaches(self, size: float, inside: bool) -> None:
        assert ComparedFigure("kv_gib", "GiB", 0.75, Band.exactly(size), rounding=0.005).in_band is inside

    def test_a_start_is_compared_only_where_its_description_names_a_model(self, tmp_path: Path) -> None:
        rows = [
            {"what": "L4 g6 E2B bf16", "engine_init_s": 120.0},
            {"what": "L4 31B second start", "engine_init_s": 14.0},
            {"what": "L4 a fine-tune", "engine_init_s": 120.0},
            {"what": "a fine-tune", "model": "gemma-4-31b-it", "backend": "gpu", "engine_init_s": 120.0},
            {"what": "v6e-4 31B", "gcs_restore_s": 337, "gib": 58.3},
        ]
        found = [compare(name, row) for name, row in written(tmp_path, {"start": rows})]
        assert [[figure.name for figure in row.figures] for row in found] == [
            ["engine_start_s"],
            ["engine_start_s"],
            [],
            ["engine_start_s"],
            ["bucket_copy_s"],
        ]
        cold, warm = (row.figures[0].predicted for row in found[:2])
        assert warm.high < cold.low, "a second start finds its programs compiled"
        assert all(bool(row.reason) is not bool(row.figures) for row in found)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("verdict", "outcome", "holds"),
        [
            (Verdict.FITS, "boots", True),
            (Verdict.TIGHT, "boots", True),
            (Verdict.REFUSED, "boots", False),
            (Verdict.FITS, "dies", False),
            (Verdict.TIGHT, "dies", True),
            (Verdict.REFUSED, "dies", True),
            (Verdict.FITS, None, None),
            (None, "boots", None),
        ],
    )
    def test_only_fits_that_died_and_refused_that_booted_are_wrong(
        self, verdict: Verdict | None, outcome: str | None, holds: bool | None
    ) -> None:
        row = run_of(published={"outcome": outcome, "tokens": 1})
        assert ComparedRow("one", row, verdict=verdict).verdict_holds is holds

    def test_a_run_that_died_has_no_error_in_percent(self) -> None:
        row = compared(published={"kv_gib": -0.29, "outcome": "dies"})
        assert [figure.error_pct for figure in row.figures] == [None]
        assert row.verdict is not None

    def test_wrong_ones_are_named(self) -> None:
        rows = [
            compared(gpu_memory_utilization=0.9, published={"outcome": "dies"}),
            compared(device_memory_gib=4.0, published={"outcome": "boots"}),
        ]
        score = score_verdicts(rows)
        assert (score.died_though_fits, score.booted_though_refused) == (("one",), ("one",))


def figure_with(published: float, low: float, mid: float, high: float) -> ComparedFigure:
    return ComparedFigure("kv_tokens", "tokens", published, Band(low, mid, high))


class TestSets:
    def test_errors_and_bands_of_a_set(self) -> None:
        row = compared()
        figures = [figure_with(100, 80, 100 + error, 120) for error in (0, 10, -10, 20)]
        score = SetScore("a set", tuple((row, figure) for figure in [*figures, figure_with(200, 80, 100, 120)]))
        assert score.errors == pytest.approx([0, 10, 10, 20, 50])
        assert score.median == pytest.approx(10)
        assert score.p90 == pytest.approx(20 + 0.6 * 30)
        assert score.worst == pytest.approx(50)
        assert score.inside == 4
        assert [figure.published for _, figure in score.outside] == [200]
        assert score.half_width == pytest.approx(20)

    @pytest.mark.parametrize("name", ["mi300x", "MI355X", "rx7900xtx", "arc-b580", "b60", "intel-gaudi3"])
    def test_nothing_is_claimed_of_rocm_and_xpu(self, name: str) -> None:
        row = compared(hardware=name, device_memory_gib=24.0)
        assert unclaimed(row.row)
        assert sets_of(row, row.figures[0]) == ["not claimed (ROCm, XPU): memory"]

    @pytest.mark.parametrize("name", ["rtx-pro-6000", "rtx5090", "a100", "b200", "gb10", "t4", "v6e-1"])
    def test_other_machines_are_claimed(self, name: str) -> None:
        assert not unclaimed(run_of(hardware=name))

    @pytest.mark.parametrize(
        ("hardware", "backend", "among"),
        [
            ("l4", "gpu", "L4"),
            ("l4-aws", "gpu", "L4"),
            ("l40s", "gpu", "speed on other CUDA machines"),
            ("g4-2", "gpu", "RTX PRO 6000"),
            ("v6e-4", "tpu", "v6e"),
            ("v5e-1", "tpu", "speed on other TPUs"),
        ],
    )
    def test_a_machine_counts_where_its_name_belongs(self, hardware: str, backend: str, among: str) -> None:
        row = compare("two", PublishedRun.model_validate({**SPEED, "hardware": hardware, "backend": backend}))
        names = [name.strip() for name in sets_of(row, row.figures[0])]
        assert among in names
        assert ("speed on L4, RTX PRO 6000, v6e" in names) is not ("other" in among)

    def test_every_claimed_figure_from_card_and_flags_counts_in_one_part(self) -> None:
        parts = set(list(SETS)[1:5])
        for changes in (
            {},
            {"weights_gib_given": 9.0},
            {"text_only": True},
            {"text_only": True, "weights_gib_given": 9.0},
            {"backend": "tpu", "hardware": "v6e-1"},
            {"backend": "tpu", "hardware": "v6e-1", "weights_gib_given": 9.0},
        ):
            row = compared(**changes)
            names = sets_of(row, row.figures[0])
            assert names[0] == "memory from card and flags"
            assert len(parts & set(names)) == 1


class TestTheShippedRows:
    rows = tuple(compare(name, row) for name, row in read_runs(SHIPPED))

    def test_each_row_is_compared_or_says_why_not(self) -> None:
        for row in self.rows:
            assert bool(row.figures) is not bool(row.reason), row.id

    def test_each_figure_counts_in_a_set(self) -> None:
        counted = {(row.id, figure.name) for score in score_sets(self.rows) for row, figure in score.members}
        for row in self.rows:
            assert not row.figures or (row.id, row.figures[0].name) in counted, row.id

    def test_each_measured_row_names_its_source(self) -> None:
        assert [row.id for row in self.rows if isinstance(row.row, PublishedRun) and not row.row.source] == []

    def test_the_page_is_what_the_command_prints_but_for_its_date(self) -> None:
        assert SCORECARD.read_text("utf-8") == scorecard(), "make scorecard"

    def test_the_answer_has_one_element_for_each_row_in_the_order_of_the_file(self) -> None:
        answer = json.loads(output("scorecard", "--json"))
        content = json.loads(SHIPPED.read_text("utf-8"))
        ids = [row.get("id", f"{name}-{n}") for name in list(content)[1:] for n, row in enumerate(content[name], 1)]
        assert [row["id"] for row in answer["rows"]] == ids
        for row in answer["rows"]:
            if row["published"] is not None:
                assert row["in_band"] or not row["low"] <= row["published"] <= row["high"]
                error = None if row["published"] <= 0 else 100 * (row["predicted"] / row["published"] - 1)
                assert row["error_pct"] == pytest.approx(error)
