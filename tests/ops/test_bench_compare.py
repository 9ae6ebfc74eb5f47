"""`gemma4 bench compare`: what it prints, refuses, and how it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.benchmark.stored_run import BenchmarkRun, store
from tests.benchmark.runs import cell, stored
from tests.benchmark.test_run_comparison import STEADY, repeats
from tests.projects import Capture, Command, command

WILD = (1.0, 1.1, 0.93, 1.05, 0.96)


@pytest.fixture
def gemma4(capsys: Capture, tmp_path: Path) -> Iterator[Command]:
    """The command line in a folder of its own."""
    with contextlib.chdir(tmp_path):
        yield command(capsys)


def keep(name: str, *, slow: float = 1.0, levels: tuple[float, ...] = STEADY, start: int = 0, **changed: Any) -> None:
    """Store a run of two cells in this folder."""
    cells = [
        cell(
            *repeats(levels, slow=slow, start=start, requests=40), concurrency=one, input_tokens=512, output_tokens=128
        )
        for one in (1, 8)
    ]
    run = stored(*cells, id=name, **{"started_at": f"2026-11-22T0{8 + start // 60}:00:00Z", **changed})
    store(run, Path(f"{name}.json"))


def with_settings(run: BenchmarkRun, **changed: Any) -> dict[str, Any]:
    return {"settings": run.settings.model_copy(update=changed)}


class TestTheScreen:
    def test_says_what_is_compared_then_the_verdict_then_the_figures(self, gemma4: Command) -> None:
        keep("before")
        keep("after", slow=1.1, start=60, versions=stored().versions.model_copy(update={"vllm": "0.33.0"}))
        answer = gemma4("bench", "compare", "before.json", "after.json")
        assert answer.code == 0
        order = [
            "A  before",
            "B  after",
            "vLLM: 0.32.0 in A, 0.33.0 in B",
            "B is slower than A: throughput −9.1 %",
            "95 %",
        ]
        places = [answer.out.index(text) for text in order]
        assert places == sorted(places)
        assert "end-to-end p50" in answer.out
        assert "+10.0 %" in answer.out

    @pytest.mark.parametrize("form", [(), ("--cells",)])
    def test_fits_into_80_columns(self, gemma4: Command, form: tuple[str, ...]) -> None:
        keep("20261122T080000Z-gemma4-production")
        keep("20261122T090000Z-gemma4-production", slow=1.1, start=60)
        keep("20261122T100000Z-gemma4-production", levels=WILD, start=120)
        names = [f"20261122T{hour}0000Z-gemma4-production.json" for hour in ("08", "09", "10")]
        for other in names[1:]:
            lines = gemma4("bench", "compare", names[0], other, *form).out.splitlines()
            assert [line for line in lines if len(line) > 80] == []

    def test_every_cell_is_shown_on_demand(self, gemma4: Command) -> None:
        keep("a")
        keep("b", start=60)
        assert gemma4("bench", "compare", "a.json", "b.json").out.count("512/128") == 0
        assert gemma4("bench", "compare", "a.json", "b.json", "--cells").out.count("end-to-end p50") == 4

    def test_says_what_it_would_take_where_too_little_was_measured(self, gemma4: Command) -> None:
        keep("a", levels=WILD)
        keep("b", levels=WILD, start=60)
        said = " ".join(gemma4("bench", "compare", "a.json", "b.json").out.split())
        assert "Too few measurements: a difference of 10 % may hide in throughput" in said
        assert "repeats of each would show it (--repeats" in said

    def test_one_repeat_is_never_enough(self, gemma4: Command) -> None:
        keep("a", levels=(1.0,))
        keep("b", levels=(1.0,), slow=2.0, start=60)
        answer = gemma4("bench", "compare", "a.json", "b.json")
        assert "one repeat cannot show what is noise" in " ".join(answer.out.split())
        assert "not known" in answer.out

    def test_markdown_has_the_same_sentence_and_tables(self, gemma4: Command) -> None:
        keep("a")
        keep("b", slow=1.1, start=60)
        sentence = gemma4("bench", "compare", "a.json", "b.json", "--json").data["sentence"]
        said = gemma4("bench", "compare", "a.json", "b.json", "--markdown").out
        assert sentence in said
        assert said.startswith("### 🔴 Benchmark: slower")
        assert {line.count("|") for line in said.splitlines() if line.startswith("|")} == {7, 8}


class TestData:
    def test_has_what_the_screen_has(self, gemma4: Command) -> None:
        keep("a")
        keep("b", slow=1.1, start=60)
        data = gemma4("bench", "compare", "a.json", "b.json", "--json").data
        assert data["verdict"] == "slower"
        assert [row["metric"] for row in data["overall"]] == [
            "throughput",
            "ttftP50",
            "ttftP99",
            "itlP50",
            "itlP99",
            "e2eP50",
        ]
        throughput = data["overall"][0]
        assert throughput["changePercent"] == pytest.approx(-9.091, abs=0.01)
        assert throughput["jointLowPercent"] < throughput["lowPercent"] < throughput["changePercent"]
        assert data["tooSlow"] is None

    def test_of_a_large_grid_is_short_enough_for_a_context(self, gemma4: Command) -> None:
        cells = [cell(*repeats(STEADY), concurrency=2**one, input_tokens=512) for one in range(10)]
        for name in "ab":
            store(stored(*cells, id=name), Path(f"{name}.json"))
        assert len(gemma4("bench", "compare", "a.json", "b.json", "--json").out) < 4_500

    def test_a_run_is_found_by_its_id(self, gemma4: Command, tmp_path: Path) -> None:
        (tmp_path / "bench").mkdir()
        with contextlib.chdir(tmp_path / "bench"):
            keep("a")
            keep("b", start=60)
        assert gemma4("bench", "compare", "a", "b", "--json").data["a"]["ids"] == ["a"]

    def test_runs_of_a_side_are_taken_together(self, gemma4: Command) -> None:
        for at, name in enumerate(("a1", "b1", "a2", "b2")):
            keep(name, levels=STEADY[:3], start=10 * at)
        words = ("a1.json", "b1.json", "--also-a", "a2.json", "--also-b", "b2.json", "--json")
        data = gemma4("bench", "compare", *words).data
        assert (data["a"]["ids"], data["a"]["repeats"], data["b"]["repeats"]) == (["a1", "a2"], 6, 6)


class TestUnlikeRuns:
    def test_other_prompts_are_refused_unless_wanted(self, gemma4: Command) -> None:
        keep("a")
        keep("b", start=60, **with_settings(stored(), prefix_cache="shared"))
        refused = gemma4("bench", "compare", "a.json", "b.json")
        assert refused.code == 3
        assert "--prefix-cache unique" in refused.err
        wanted = gemma4("bench", "compare", "a.json", "b.json", "--anyway")
        assert wanted.code == 0
        assert "Warning: prompts: A was measured with unique prompts" in " ".join(wanted.out.split())

    def test_no_common_cell_is_refused(self, gemma4: Command) -> None:
        keep("a")
        store(stored(cell(*repeats(STEADY)), id="b"), Path("b.json"))
        answer = gemma4("bench", "compare", "a.json", "b.json")
        assert answer.code == 3
        assert "1 × 512/128" in answer.err
        assert "1 × 1000/101" in answer.err

    def test_a_cell_of_one_side_is_named_with_the_other_s_reason(self, gemma4: Command) -> None:
        keep("a")
        half = [
            cell(*repeats(STEADY), input_tokens=512, output_tokens=128),
            cell(
                concurrency=8, input_tokens=512, output_tokens=128, status="skipped", why="needs 5,120 tokens of 4,000"
            ),
        ]
        store(stored(*half, id="b"), Path("b.json"))
        data = gemma4("bench", "compare", "a.json", "b.json", "--json").data
        assert [(one["side"], one["concurrency"], one["why"]) for one in data["loneCells"]] == [
            ("A", 8, "skipped: needs 5,120 tokens of 4,000")
        ]

    def test_what_weakens_a_comparison_is_said(self, gemma4: Command) -> None:
        keep("a", complete=False)
        versions = stored().versions.model_copy(update={"aiperf": "9.9"})
        failing = [one.model_copy(update={"failed": 2}) for one in repeats(STEADY)]
        longer = [one.model_copy(update={"output_tokens": [160] * 40}) for one in failing]
        b = stored(cell(*longer, input_tokens=512, output_tokens=128), id="b", versions=versions)
        store(b, Path("b.json"))
        warnings = gemma4("bench", "compare", "a.json", "b.json", "--json").data["warnings"]
        for words in (
            "A was interrupted",
            "10 of 200 requests failed",
            "B with 9.9",
            "101 tokens in A and 160 in B",
        ):
            assert sum(words in warning for warning in warnings) == 1, words

    def test_servers_that_differ_are_what_is_compared_and_no_warning(self, gemma4: Command) -> None:
        keep("a")
        keep("b", start=60, server=stored().server.model_copy(update={"prefix_caching": False, "kv_tokens": 9}))
        data = gemma4("bench", "compare", "a.json", "b.json", "--json").data
        assert data["warnings"] == []
        assert {one["what"]: (one["a"], one["b"]) for one in data["servers"]} == {
            "KV cache, tokens": ("30000", "9"),
            "prefix caching": ("on", "off"),
        }

    def test_runs_of_different_servers_are_not_one_side(self, gemma4: Command) -> None:
        keep("a1")
        keep("b", start=60)
        keep("a2", start=120, versions=stored().versions.model_copy(update={"vllm": "0.33.0"}))
        answer = gemma4("bench", "compare", "a1.json", "b.json", "--also-a", "a2.json")
        assert answer.code == 3
        assert "differ in vLLM" in answer.err

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("a.json", "a.json"), "is named twice"),
            (("a.json", "nowhere.json"), "cannot be read"),
            (("a.json", "broken.json"), "is not a stored benchmark"),
            (("a.json", "b.json", "--fail-if-slower", "0"), "is not between 1 and 90"),
            (("a.json", "b.json", "--json", "--markdown"), "cannot be combined"),
        ],
    )
    def test_what_cannot_be_read_is_one_clean_error(self, gemma4: Command, words: tuple[str, ...], said: str) -> None:
        keep("a")
        keep("b", start=60)
        Path("broken.json").write_text('{"schema": 1}')
        answer = gemma4("bench", "compare", *words)
        assert answer.code == 2
        assert said in answer.out + answer.err


class TestAsAGate:
    @pytest.mark.parametrize(
        ("slow", "levels", "percent", "code"),
        [
            (1.1, STEADY, "5", 1),
            (1.1, STEADY, "15", 0),
            (1.0, STEADY, "5", 0),
            (0.8, STEADY, "5", 0),
            (1.0, WILD, "5", 3),
        ],
    )
    def test_ends_as_it_is_slower(
        self, gemma4: Command, slow: float, levels: tuple[float, ...], percent: str, code: int
    ) -> None:
        keep("a", levels=levels)
        keep("b", levels=levels, slow=slow, start=60)
        assert gemma4("bench", "compare", "a.json", "b.json", "--fail-if-slower", percent).code == code
        assert gemma4("bench", "compare", "a.json", "b.json").code == 0

    def test_more_failures_fail_it_too(self, gemma4: Command) -> None:
        keep("a")
        failing = [one.model_copy(update={"failed": 4}) for one in repeats(STEADY)]
        store(stored(cell(*failing, input_tokens=512, output_tokens=128), id="b"), Path("b.json"))
        assert gemma4("bench", "compare", "a.json", "b.json", "--fail-if-slower", "5").code == 1
