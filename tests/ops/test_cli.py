"""The command line: exit codes, help that teaches, completion, and what each verb prints."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from infra.catalog import catalog
from infra.errors import GoogleError
from infra.ops.cli import run
from infra.planning.planner import make_plan
from infra.planning.settings.paths import known_paths
from infra.planning.settings.stackfile import read_stack, stack_names
from infra.planning.units import Band, read_cell, read_count, read_rate, read_usd
from tests.projects import ROOT, Capture, Command, command, write_stack

VERBS = ("plan", "stacks", "models", "machines", "explain", "recommend")


@pytest.fixture
def gemma4(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Command:
    """The command in the checkout."""
    monkeypatch.chdir(ROOT)
    return command(capsys)


class TestExitCodes:
    @pytest.mark.parametrize("name", stack_names(ROOT))
    def test_every_shipped_stack_is_planned_with_0(self, gemma4: Command, name: str) -> None:
        answer = gemma4("plan", name, "--no-resources")
        assert (answer.code, answer.err) == (0, "")

    def test_bad_settings_end_with_2_and_a_refusal_with_3(self, gemma4: Command) -> None:
        assert gemma4("plan", "l4", "--no-resources", "--set", "profile=fast").code == 2
        assert gemma4("plan", "l4", "--no-resources", "--set", "region=europe-north1").code == 3

    def test_they_are_the_same_in_every_form(self, gemma4: Command) -> None:
        for form in ([], ["--json"], ["--markdown"]):
            assert gemma4("plan", "l4", "--no-resources", "--set", "region=europe-north1", *form).code == 3

    def test_a_process_of_its_own_ends_alike_and_keeps_its_outputs_apart(self) -> None:
        start = "from infra.ops.cli import main; main()"
        words = [sys.executable, "-c", start, "plan", "l4", "--set", "profile=fast"]
        ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("bad settings; nothing was planned or created:\n  profile: 'fast' is not one of")


class TestAFaultThatIsNobodysSettings:
    def test_is_one_line_and_ends_with_1(self, gemma4: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(**_: object) -> None:
            raise GoogleError("run.googleapis.com did not answer; try again.", status=503)

        monkeypatch.setattr("infra.ops.commands.stack_list.show_stacks", fail)
        answer = gemma4("stacks")
        assert (answer.code, answer.err) == (1, "failed: run.googleapis.com did not answer; try again.\n")


class TestHelp:
    def test_it_names_every_verb_and_the_exit_codes(self, gemma4: Command) -> None:
        answer = gemma4("--help")
        assert answer.code == 0
        assert all(f"  {verb} " in answer.out for verb in VERBS)
        assert "Exit codes: 0 answered, 1 failed outside, 2 bad input, 3 refused" in answer.out
        assert "..." not in answer.out.partition("Commands:")[2], "a summary is cut off"

    @pytest.mark.parametrize("verb", VERBS)
    def test_every_verb_teaches_with_examples_that_work(self, gemma4: Command, verb: str) -> None:
        shown = gemma4(verb, "--help").out
        examples = [line.strip() for line in shown.partition("Examples:")[2].splitlines() if line.strip()]
        assert examples
        for line in examples:
            words = line.partition("|")[0].split()
            assert words[:2] == ["gemma4", verb]
            more = ["--no-resources"] if verb == "plan" and "--no-resources" not in words else []
            assert gemma4(*words[1:], *more).code == 0, line

    @pytest.mark.parametrize("verb", VERBS)
    def test_every_option_is_explained(self, gemma4: Command, verb: str) -> None:
        options = gemma4(verb, "--help").out.partition("Options:")[2].partition("Examples:")[0]
        entries = [entry for entry in options.split("\n  -") if entry.strip()]
        assert all(len(entry.split()) > 2 for entry in entries)

    def test_without_a_verb_it_is_shown(self, gemma4: Command) -> None:
        assert "What runs:" in gemma4().err + gemma4().out


class TestCompletion:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("gemma4 pl", {"plan"}),
            ("gemma4 plan l4", {"l4", "l4-26b", "l4-31b"}),
            ("gemma4 plan l4 --diff v6e4", {"v6e4", "v6e4-31b"}),
            ("gemma4 plan l4 --set serving.maxM", {"serving.maxModelLen="}),
            ("gemma4 explain tpu.wait", {"tpu.waitForCapacity"}),
            ("gemma4 explain v6e-4", {"v6e-4"}),
            (
                "gemma4 plan l4 --set serving.modalities",
                {f"serving.modalities.{kind}=" for kind in ("image", "audio", "video")},
            ),
            ("gemma4 plan l4 --set accelerator=v6e-", {f"accelerator=v6e-{chips}" for chips in (1, 4, 8)}),
            (
                "gemma4 plan l4 --set serving.kvCacheDtype=fp8_",
                {f"serving.kvCacheDtype=fp8_{e}" for e in ("e4m3", "e5m2")},
            ),
            ("gemma4 plan l4 --set serving.blockSize=1", {"serving.blockSize=16", "serving.blockSize=128"}),
            ("gemma4 plan l4 --set serving.asyncScheduling=t", {"serving.asyncScheduling=true"}),
            ("gemma4 recommend --model gemma-4-12b-it-qat", {"gemma-4-12b-it-qat-w4a16"}),
            ("gemma4 zones --accelerator v6e-8", {"v6e-8"}),
            ("gemma4 pin gate", {"gateway"}),
            ("gemma4 explain kn", {"knee"}),
            ("gemma4 explain new", {"new-prompt"}),
        ],
    )
    def test_it_offers_what_there_is(
        self, monkeypatch: pytest.MonkeyPatch, gemma4: Command, line: str, expected: set[str]
    ) -> None:
        monkeypatch.setenv("_GEMMA4_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
        assert set(gemma4().out.split()) == expected


class TestPlan:
    def test_all_forms_tell_the_same_plan(self, gemma4: Command) -> None:
        as_data = gemma4("plan", "l4", "--no-resources", "--json").data
        tokens = f"{as_data['capacity']['tokens']:,} tokens"
        assert tokens in gemma4("plan", "l4", "--no-resources", "--full").out
        assert tokens in gemma4("plan", "l4", "--no-resources", "--markdown").out

    def test_each_part_is_printed_alone_and_all_of_them_in_full(self, gemma4: Command) -> None:
        full = "".join(gemma4("plan", "v6e4", "--full").out.split())
        for part in ("--command", "--resources", "--notes"):
            alone = gemma4("plan", "v6e4", part)
            assert alone.code == 0
            assert "".join(alone.out.split()) in full, part
        assert len(gemma4("plan", "v6e4", "--notes").out) < len(gemma4("plan", "v6e4", "--full").out) / 3

    def test_a_plan_that_is_refused_has_no_command_to_paste(self, gemma4: Command) -> None:
        for part in ("--command", "--notes", "--resources"):
            answer = gemma4("plan", "l4", "--set", "region=europe-north1", part)
            assert (answer.code, "vllm serve" in answer.out, "Refused" in answer.out) == (3, False, True), part

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (("--command",), ("--resources",)),
            (("--notes",), ("--resources",)),
            (("--notes",), ("--full",)),
            (("--diff", "v6e4"), ("--command",)),
            (("--diff", "v6e4"), ("--notes",)),
            (("--diff", "v6e4"), ("--resources",)),
            (("--diff", "v6e4"), ("--full",)),
        ],
    )
    def test_two_forms_at_once_are_one_fault_and_neither_is_left_out_silently(
        self, gemma4: Command, one: tuple[str, ...], other: tuple[str, ...]
    ) -> None:
        answer = gemma4("plan", "l4", *one, *other)
        assert (answer.code, answer.out) == (2, "")
        assert one[0] in answer.err
        assert other[0] in answer.err

    def test_without_a_stack_the_stacks_are_listed(self, gemma4: Command) -> None:
        answer = gemma4("plan")
        assert (answer.code, answer.out) == (2, "")
        assert gemma4("stacks").out in answer.err

    def test_a_difference_is_all_that_is_printed_of_two_plans(self, gemma4: Command) -> None:
        changed = gemma4("plan", "l4", "--diff", "rtx6000", "--no-resources").out
        assert "against rtx6000" in changed
        assert [word for word in ("Next:", "Notes", "More ", " \\\n") if word in changed] == []

    def test_a_value_set_on_the_line_is_planned_and_says_where_it_comes_from(self, gemma4: Command) -> None:
        data = gemma4("plan", "l4", "--no-resources", "--json", "--set", "serving.maxModelLen=4096").data
        assert data["capacity"]["maxModelLen"] == 4096
        assert data["origins"]["serving.maxModelLen"] == "command line"

    def test_it_compares_with_a_stack_or_with_a_file(self, gemma4: Command, tmp_path: Path) -> None:
        saved = tmp_path / "before.json"
        saved.write_text(gemma4("plan", "rtx6000", "--no-resources", "--json").out, "utf-8")
        by_name = gemma4("plan", "l4", "--no-resources", "--json", "--diff", "rtx6000").data["diff"]
        assert by_name == gemma4("plan", "l4", "--no-resources", "--json", "--diff", str(saved)).data["diff"]
        assert {"Model", "Accelerator", "$/hour, whole stack"} <= {change["subject"] for change in by_name}
        assert "change" in gemma4("plan", "l4", "--no-resources", "--diff", "rtx6000").out
        shown = " ".join(gemma4("plan", "l4", "--no-resources", "--diff", "l4").out.split())
        assert "No change against l4 in what can be compared. Not compared: resources (not listed" in shown

    def test_without_resources_pulumi_is_not_even_imported(self) -> None:
        code = (
            "import sys; from infra.ops.cli import run; code = run(['plan', 'l4', '--no-resources']);"
            "sys.exit(code or any(name.split('.')[0] in ('pulumi', 'pulumi_gcp', 'grpc') for name in sys.modules))"
        )
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False).returncode == 0

    def test_in_words_it_does_not_pay_for_the_models_of_its_json(self) -> None:
        code = (
            "import sys; from infra.ops.cli import run; code = run(['plan', 'l4', '--no-resources']);"
            "sys.exit(code or 'infra.planning.report.data_models' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False).returncode == 0

    def test_it_works_from_a_folder_below_and_from_anywhere(
        self, monkeypatch: pytest.MonkeyPatch, gemma4: Command, tmp_path: Path
    ) -> None:
        here = gemma4("plan", "l4", "--no-resources").out
        for folder in (ROOT / "docs", tmp_path):
            monkeypatch.chdir(folder)
            assert gemma4("plan", "l4", "--no-resources").out == here

    def test_another_projects_stacks_are_listed_with_our_program(
        self, monkeypatch: pytest.MonkeyPatch, gemma4: Command, tmp_path: Path
    ) -> None:
        write_stack(tmp_path, "", model="gemma-4-12b-it", accelerator="l4")
        monkeypatch.chdir(tmp_path)
        assert len(gemma4("plan", "mine", "--json").data["resources"]) > 10


class TestStacks:
    def test_there_is_a_line_for_every_file(self, gemma4: Command) -> None:
        rows = gemma4("stacks", "--json").data["stacks"]
        assert [row["stack"] for row in rows] == stack_names(ROOT)
        for row in rows:
            plan = make_plan(row["stack"], read_stack(ROOT, row["stack"]).settings)
            assert (row["kvTokens"], row["verdict"]) == (plan.capacity.tokens, plan.verdict.value)
        shown = gemma4("stacks").out
        assert all(row["model"] in shown and row["accelerator"] in shown for row in rows)


class TestModelsAndMachines:
    def test_there_is_a_line_for_every_model_and_every_machine(self, gemma4: Command) -> None:
        for verb, ids in (("models", catalog().models), ("machines", catalog().accelerators)):
            data = gemma4(verb, "--json").data
            assert (data["schema"], [row["id"] for row in data[verb]]) == (1, list(ids))
            lines = gemma4(verb).out.splitlines()
            assert all(any(line.startswith(f"{one} ") for line in lines) for one in ids)

    def test_the_cheapest_machine_of_a_model_is_one_that_it_fits_and_nothing_is_cheaper(self, gemma4: Command) -> None:
        for row in gemma4("models", "--json").data["models"]:
            plans = {one: make_plan("x", {"model": row["id"], "accelerator": one}) for one in catalog().accelerators}
            fits = [one for one, plan in plans.items() if not plan.refused and plan.accelerator.deployable]
            assert row["fitsOn"] == fits
            assert row["usdPerHour"] == pytest.approx(min(plans[one].cost.usd_per_hour for one in fits))
            assert plans[row["cheapestMachine"]].cost.usd_per_hour == pytest.approx(row["usdPerHour"])

    def test_a_machine_lists_the_models_that_fit_it_the_largest_first(self, gemma4: Command) -> None:
        for row in gemma4("machines", "--json").data["machines"]:
            sizes = [catalog().architecture_of(model).parameters.total for model in row["models"]]
            assert sizes == sorted(sizes, reverse=True)
            refused = {m: make_plan("x", {"model": m, "accelerator": row["id"]}).refused for m in catalog().models}
            assert set(row["models"]) == {model for model, no in refused.items() if not no}


FIGURES = {
    "stacks": ("usdPerHour", "kvTokens", "requestsHeld"),
    "recommend": ("usdPerHour", "holds"),
    "models": ("usdPerHour", "largestMaxModelLen"),
    "machines": ("usdPerHour", "devices"),
}


@pytest.fixture
def in_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A command line's output in a terminal of so many columns, as the terminal gets it."""

    def printed(*words: str, width: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm-256color")
        screen = io.StringIO()
        screen.isatty = lambda: True  # type: ignore[method-assign]
        with contextlib.redirect_stdout(screen):
            assert run(words) in (0, 3)
        return screen.getvalue()

    return printed


_STYLES = re.compile(r"\x1b\[([\d;]*)m")


@pytest.mark.parametrize("verb", FIGURES)
@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_table_loses_a_figure_in_a_terminal(
    gemma4: Command, in_terminal: Callable[..., str], verb: str, width: int
) -> None:
    rows = next(value for value in gemma4(verb, "--json").data.values() if isinstance(value, list))
    shown = _STYLES.sub("", in_terminal(verb, width=width))
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for row in rows:
        for key in FIGURES[verb]:
            figure = f"{row[key]:,.2f}" if key.startswith("usd") else f"{row[key]:,}"
            if band := row.get(f"{key}Band"):
                figure = read_cell(Band(**band), read_count)
            assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d.,])", shown), (row, key)


SCREENS = (
    ("plan", "l4"),
    ("plan", "l4-31b"),
    ("plan", "v6e4", "--full", "--no-resources"),
    ("plan", "v6e4", "--notes"),
)
REFUSED = ("plan", "l4", "--set", "model=gemma-4-31b-it")
CHANGED = ("plan", "l4", "--diff", "rtx6000", "--no-resources")


@pytest.mark.parametrize(
    "words", [*SCREENS, REFUSED, CHANGED, ("stacks",), ("recommend",), ("models",), ("explain", "tpu")]
)
def test_colours_say_good_warning_or_bad_and_nothing_else(
    in_terminal: Callable[..., str], words: tuple[str, ...]
) -> None:
    bold, dim, bad, good, warning = "1", "2", "31", "32", "33"
    codes = {code for style in _STYLES.findall(in_terminal(*words)) for code in style.split(";")}
    assert codes <= {"0", "", bold, dim, bad, good, warning}


@pytest.mark.parametrize("words", [*SCREENS[:2], REFUSED, ("stacks",)])
def test_no_colour_is_printed_where_nobody_wants_any(
    monkeypatch: pytest.MonkeyPatch, in_terminal: Callable[..., str], words: tuple[str, ...]
) -> None:
    assert {"31", "32", "33"} & set(re.split(r"[;,]", ";".join(_STYLES.findall(in_terminal(*words)))))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not {"31", "32", "33"} & set(";".join(_STYLES.findall(in_terminal(*words))).split(";"))


@pytest.mark.parametrize("words", [*SCREENS[:2], REFUSED])
def test_a_pipe_gets_what_a_terminal_of_80_columns_shows(
    gemma4: Command, in_terminal: Callable[..., str], words: tuple[str, ...]
) -> None:
    assert gemma4(*words).out == _STYLES.sub("", in_terminal(*words))


def test_the_command_is_printed_for_pasting_in_a_narrow_terminal_too(in_terminal: Callable[..., str]) -> None:
    shown = _STYLES.sub("", in_terminal("plan", "g4x2", "--command", width=60))
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
    plan = make_plan("g4x2", read_stack(ROOT, "g4x2").settings)
    words = shlex.split(shown.replace("\\\n", " "))
    assert tuple(words[len(plan.command.env) :]) == plan.command.argv
    head = next(number for number, line in enumerate(shown.splitlines()) if line.startswith("vllm serve"))
    assert all(line.startswith("  --") for line in shown.splitlines()[head + 1 :])


class TestExplain:
    @pytest.mark.parametrize("path", [path for path, _ in known_paths()])
    def test_every_setting_and_group_is_explained(self, gemma4: Command, path: str) -> None:
        answer = gemma4("explain", path)
        assert answer.code == 0
        assert path in answer.out
        assert all("object at" not in line and "typing." not in line for line in answer.out.splitlines())

    def test_the_line_to_copy_is_one_that_a_stack_file_takes(self, gemma4: Command, tmp_path: Path) -> None:
        for row in gemma4("explain", "--json").data["terms"]:
            if row["type"] == "group" or row["example"] is None:
                continue
            shown = gemma4("explain", row["key"]).out
            line = shown.partition("write")[2].strip()
            assert yaml.safe_load(line), row["key"]
            root = row["key"].split(".")[0]
            assert line.startswith(f"gemma4:{root}:")

    def test_without_a_key_all_are_listed_with_default_and_meaning(self, gemma4: Command) -> None:
        shown = gemma4("explain").out
        groups = {row["key"] for row in gemma4("explain", "--json").data["terms"] if row["type"] == "group"}
        assert all(path in shown for path, _ in known_paths() if path not in groups)

    def test_as_data_it_is_whole(self, gemma4: Command) -> None:
        rows = gemma4("explain", "--json").data["terms"]
        assert [row["key"] for row in rows] == [path for path, _ in known_paths()]


class TestRecommend:
    def test_the_first_row_comes_with_a_stack_file_that_plans(self, gemma4: Command, tmp_path: Path) -> None:
        shown = gemma4("recommend", "--model", "12b", "--users", "4").out
        body = shown.partition("plan it with: gemma4 plan STACK\n")[2]
        config = yaml.safe_load(body)["config"]
        plan = make_plan("best", {key.removeprefix("gemma4:"): value for key, value in config.items()})
        assert not plan.refused
        assert plan.model.id in shown

    def test_as_data_it_holds_what_the_table_shows(self, gemma4: Command) -> None:
        data = gemma4("recommend", "--model", "31b", "--users", "2", "--top", "3", "--json").data
        assert [*data] == ["schema", "candidates", "rejected", "cheapestTooDearUsdPerHour", "mostUsers"]
        assert len(data["candidates"]) == 3
        shown = gemma4("recommend", "--model", "31b", "--users", "2", "--top", "3").out
        assert all(one["model"] in shown for one in data["candidates"])

    def test_as_data_it_lacks_no_figure_of_the_table(self, gemma4: Command) -> None:
        words = ("recommend", "--model", "12b", "--users", "100", "--top", "1")
        (one,), shown = gemma4(*words, "--json").data["candidates"], gemma4(*words).out
        row = next(line for line in shown.splitlines() if line.startswith(f"1 {one['model']} "))
        copies = (str(one["replicas"]), "×") if one["replicas"] > 1 else ()
        assert row.split() == [
            "1",
            one["model"],
            *(*copies, one["accelerator"]),
            f"{one['usdPerHour']:.2f}",
            f"{one['quality']['percent']:.1f}{'' if one['quality']['ownScore'] else '~'}",
            *read_cell(Band(**one["tokensPerSecondEach"]), read_rate).split(),
            *read_cell(Band(**one["withNewPrompts"]), read_rate).split(),
            *read_cell(Band(**one["usdPerMillionOutputTokensWithNewPrompts"]), read_usd).replace("$", "").split(),
            *read_cell(Band(**one["holdsBand"]), read_count).split(),
            one["measured"],
        ]

    def test_cached_prompts_are_never_slower_or_dearer_than_new_ones(self, gemma4: Command) -> None:
        for one in gemma4("recommend", "--users", "8", "--top", "50", "--json").data["candidates"]:
            assert one["tokensPerSecond"]["mid"] > one["withNewPrompts"]["mid"]
            price = one["usdPerMillionOutputTokensWithNewPrompts"]["mid"]
            assert price > one["usdPerMillionOutputTokens"]["mid"]
            assert price == pytest.approx(one["usdPerHour"] * 1e6 / 3600 / one["withNewPrompts"]["mid"])

    def test_what_queues_and_ends_or_scales_to_zero_is_said(self, gemma4: Command) -> None:
        shown = " ".join(gemma4("recommend", "--model", "31b", "--users", "2", "--top", "40").out.split())
        assert re.search(r"v6e-\d[\w, -]*: flex-start, waits in a queue", shown)
        assert "ends after 24 h" in shown
        assert re.search(r"rtx-pro-6000[\w, -]*: scales to zero", shown)

    def test_whole_ids_are_shown_where_there_is_no_terminal(self, gemma4: Command) -> None:
        assert "gemma-4-31b-it-qat-w4a16" in gemma4("recommend", "--model", "31b-it-qat").out
        assert "…" not in gemma4("recommend").out

    def test_what_a_new_project_has_no_quota_for_is_named(self, gemma4: Command) -> None:
        shown = " ".join(gemma4("recommend", "--model", "31b", "--users", "100", "--top", "1").out.split())
        assert (
            "More than a new project's usual quotas hold, so ask Google for more first: gemma-4-31b-it-qat-w4a16 on "
            "rtx-pro-6000." in shown
        )
        assert "usual quotas" not in gemma4("recommend", "--model", "12b-it-qat", "--top", "1").out

    def test_what_may_not_fit_is_named(self, gemma4: Command) -> None:
        words = ("recommend", "--model", "gemma-4-12b-it", "--context", "32768", "--top", "20")
        rows = gemma4(*words, "--json").data["candidates"]
        tight = [number for number, row in enumerate(rows, 1) if row["verdict"] == "tight"]
        assert tight
        shown = gemma4(*words).out.splitlines()
        for number in tight:
            assert f"{number:>2}  may not fit, by the errors of the prediction" in shown
        assert "may not fit" not in gemma4("recommend", "--model", "12b-it-qat").out


def test_the_command_is_installed_under_its_name() -> None:
    found = Path(sys.executable).with_name("gemma4")
    if not found.exists():
        pytest.skip("the package is not installed here: make test does it")
    ended = subprocess.run([found, "stacks", "--json"], cwd=ROOT, capture_output=True, env=os.environ, check=False)
    assert ended.returncode == 0
    assert json.loads(ended.stdout)
