"""The plan as data, text, comment and difference: nothing is lost, nothing judged twice, and two ways round agree."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.report.data import as_json
from infra.planning.report.diff import compare
from infra.planning.report.markdown import MARKER, as_markdown
from infra.planning.report.resources import ResourceList, ResourceRow
from infra.planning.report.rows import command_lines, plan_rows, resource_lines
from infra.planning.report.terminal import WIDTH
from infra.planning.report.text import text
from infra.planning.settings.stackfile import read_stack, stack_names
from infra.planning.units import BAND_CLAIM, read_duration, read_minutes, read_predicted, read_usd
from tests.projects import ROOT

NAMES = stack_names(ROOT)
RESOURCES = ResourceList(
    (
        ResourceRow("pulumi:pulumi:Stack", "gemma4-l4", ""),
        ResourceRow("gemma4:components:Network", "network", ""),
        ResourceRow("gcp:compute/network:Network", "network-vpc", "network"),
        ResourceRow("gcp:compute/subnetwork:Subnetwork", "network-subnet", "network"),
    )
)


def shipped(name: str, **typed: Any) -> Plan:
    return make_plan(name, read_stack(ROOT, name).settings, {k.replace("__", "."): v for k, v in typed.items()})


def data(name: str, resources: ResourceList | None = None, **typed: Any) -> dict[str, Any]:
    return as_json(shipped(name, **typed), resources)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


class TestData:
    @pytest.mark.parametrize("name", ["l4", "v6e4", "g4x2", "g4x8"])
    def test_the_speed_of_all_servers_is_that_of_one_times_their_number(self, name: str) -> None:
        one = data(name)
        planned, every, count = one["speed"]["planned"], one["speed"]["allServers"], one["cost"]["replicas"]
        assert every["requests"] == count * planned["requests"]
        assert every["tokensPerSecondEach"] == planned["tokensPerSecondEach"]
        for key in ("tokensPerSecond", "withNewPrompts"):
            assert every[key] == pytest.approx({end: count * value for end, value in planned[key].items()})

    def test_the_whole_plan_says_what_is_of_one_server_and_what_of_all(self) -> None:
        several, one = dict(plan_rows(shipped("g4x8"))), dict(plan_rows(shipped("g4x2")))
        assert several["Capacity"][-1].endswith("at once on each of 4 servers")
        assert " on each server: " in several["Speed"][0]
        assert any(line.startswith("all 4 servers: ≈ ") and "with 224 running" in line for line in several["Speed"])
        cost = shipped("g4x8").cost
        hour = f"{read_usd(cost.usd_per_hour)}/h a server while running, {read_usd(cost.usd_per_hour_together)}/h for the 4"
        assert several["Cost"][0].startswith(f"{hour} on a machine")
        assert not any("server" in line for name in ("Capacity", "Speed", "Cost") for line in one[name][:1])

    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_json_without_loss_and_without_numbers_that_json_lacks(self, name: str) -> None:
        one = data(name)
        assert json.loads(json.dumps(one, allow_nan=False)) == one
        assert list(numbers(one))

    @pytest.mark.parametrize("name", NAMES)
    def test_small_prices_are_not_rounded_away(self, name: str) -> None:
        plan = shipped(name, workload__promptTokens=1)
        price = data(name, workload__promptTokens=1)["cost"]["usdPerMillionOutputTokens"]["plannedWithNewPrompts"]
        for end in ("low", "mid", "high"):
            assert price[end] == pytest.approx(getattr(plan.cost.usd_per_million_new_prompts, end), rel=1e-9)

    def test_all_stacks_have_the_same_keys(self) -> None:
        assert {tuple(data(name)) for name in NAMES} == {tuple(data(NAMES[0]))}

    def test_a_band_never_falls(self) -> None:
        def bands(value: Any) -> Iterator[Mapping[str, float]]:
            if isinstance(value, Mapping) and {"low", "mid", "high"} == set(value):
                yield value
            elif isinstance(value, Mapping | list):
                for item in value.values() if isinstance(value, Mapping) else value:
                    yield from bands(item)

        for name in NAMES:
            found = list(bands(data(name)))
            assert len(found) > 10
            assert all(band["low"] <= band["mid"] <= band["high"] for band in found)

    def test_what_was_not_asked_for_is_null_and_what_there_is_none_of_is_empty(self) -> None:
        assert data("l4")["resources"] is None
        assert data("l4", ResourceList((), "refused"))["resources"] == []
        assert data("l4", ResourceList((), "refused"))["resourcesMissing"] == "refused"

    def test_deployable_means_that_up_would_begin(self) -> None:
        assert data("l4")["deployable"] is True
        assert data("l4", region="europe-north1")["deployable"] is False
        assert data("g4x2")["deployable"] is True

    def test_the_cost_is_the_sum_of_its_lines(self) -> None:
        for name in NAMES:
            cost = data(name)["cost"]
            assert sum(line["usd"] for line in cost["lines"]["hour"]) == pytest.approx(cost["usdPerHour"], abs=0.001)
            idle = sum(line["usd"] for line in cost["lines"]["idleMonth"])
            assert idle == pytest.approx(cost["usdPerMonthIdle"], abs=0.01)
            assert all(line["source"] and line["read"] for lines in cost["lines"].values() for line in lines)


class TestTheQuotaRow:
    def test_names_each_quota_and_its_place_once(self) -> None:
        rows = dict(plan_rows(shipped("rtx6000")))["Quota"]
        assert rows == [
            "1 GPU of NvidiaRtxPro6000GpuAllocNoZonalRedundancyPerProjectRegion (usual: 1) in us-central1",
            "80 GiB of MemAllocPerProjectRegion (usual: 40), 20 vCPU of CpuAllocPerProjectRegion (usual: 20)",
        ]
        zone, region = dict(plan_rows(shipped("v6e4", tpu__slices=["blue", "green"])))["Quota"]
        assert zone == "8 chips of TPUV6EPreemptiblePerProjectPerZoneForTPUAPI in us-east5-a"
        assert "1 chip of TPUV6EPreemptible" in text(shipped("v6e1"))
        assert region.endswith("PerRegionForTPUAPI in us-east5")
        own, all_regions = dict(plan_rows(shipped("g4x8")))["Quota"]
        assert own == "8 GPU of PREEMPTIBLE-NVIDIA-RTX-PRO-6000-GPUS-per-project-region in us-central1"
        assert all_regions == "8 GPU of GPUS-ALL-REGIONS-per-project (usual: 1) in global"


class TestTheSlicesRow:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"tpu__slices": ["blue"]}, "is an outage of"),
            ({"tpu__slices": ["blue", "green"]}, "one after the other"),
            ({"tpu__slices": ["blue", "green"], "access__ingress": "internal"}, "is an outage of"),
        ],
    )
    def test_says_what_a_changed_flag_costs(self, settings: dict[str, Any], said: str) -> None:
        plan = shipped("v6e4", **settings)
        (line,) = (line for line in dict(plan_rows(plan))["Slices"] if line.startswith("a changed flag"))
        assert said in line
        assert read_predicted(plan.startup.restart, read_duration, ends=read_minutes) in line

    def test_says_where_the_machines_are(self) -> None:
        lines = dict(plan_rows(shipped("v6e4")))["Slices"]
        assert "machines in 10.8.0.64/26, the range beside the gateway's 10.8.0.0/26" in lines
        assert data("v6e4", network__subnetCidr="10.9.0.0/24")["slices"]["subnetCidr"] == "10.9.1.0/24"


class TestTheMachineRow:
    @pytest.mark.parametrize(
        ("stack", "settings", "said"),
        [
            ("g4x2", {}, "is an outage of"),
            ("g4x2", {"machine__names": ["blue", "green"]}, "one after the other"),
            ("g4x2", {"machine__names": ["blue", "green"], "access__ingress": "internal"}, "is an outage of"),
            ("g4x8", {"access__ingress": "internal"}, "one after the other"),
        ],
    )
    def test_says_what_a_changed_flag_costs(self, stack: str, settings: dict[str, Any], said: str) -> None:
        plan = shipped(stack, **settings)
        (line,) = (line for line in dict(plan_rows(plan))["Machine"] if line.startswith("a changed flag"))
        assert said in line
        assert read_predicted(plan.startup.restart, read_duration, ends=read_minutes) in line


class TestText:
    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_narrow_plain_and_without_blanks_at_the_ends(self, name: str) -> None:
        plan = shipped(name)
        pasted = {f"  {line}" for line in command_lines(plan)}
        lines = text(plan, RESOURCES).splitlines()
        assert max(len(line) for line in lines if line not in pasted) <= WIDTH
        assert pasted <= set(lines), "a line for pasting is folded"
        assert [line for line in lines if line != line.rstrip()] == []
        assert "\x1b" not in "".join(lines)

    @pytest.mark.parametrize("name", NAMES)
    def test_it_holds_every_row_every_flag_every_note(self, name: str) -> None:
        one = shipped(name)
        squeezed = "".join(text(one, RESOURCES).split())
        rows = [line for _, lines in plan_rows(one) for line in lines]
        resources = [line.replace(": ", " ", 1) for line in resource_lines(RESOURCES)]
        for line in (*rows, *command_lines(one), *one.notes, *resources):
            assert "".join(line.split()) in squeezed, line

    def test_every_prediction_says_that_it_is_one(self) -> None:
        for name in NAMES:
            rows = dict(plan_rows(shipped(name)))
            assert all(subject in rows for subject in ("Fits", "Capacity", "Speed", "Start", "Cost", "Basis"))
            for subject in ("Capacity", "Speed", "Start"):
                assert re.match(r"≈ |\S+ to \S+ ", rows[subject][0])
            assert re.search(r"\(±\d+ %\)|\([\d,.]+ to [\d,.]+\)|[\d,.]+ to [\d,.]+ tok/s", rows["Speed"][0])
            assert any(BAND_CLAIM in line for line in rows["Basis"])

    @pytest.mark.parametrize("page", ["README.md", "docs/glossary.md", "docs/scorecard.md", "docs/plan-schema.md"])
    def test_what_a_band_claims_is_said_wherever_a_reader_meets_one(self, page: str) -> None:
        assert BAND_CLAIM in " ".join((ROOT / page).read_text("utf-8").split())

    def test_only_one_place_writes_a_prediction_so_that_none_is_without_its_band(self) -> None:
        """Elsewhere no text of the program puts the sign of a prediction before a value."""
        for path in sorted((ROOT / "infra").rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr) and path.name != "units.py":
                    texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
                    assert not any(str(text).rstrip(" $").endswith("≈") for text in texts), f"{path}:{node.lineno}"

    @pytest.mark.parametrize("name", NAMES)
    def test_callers_and_deployers_are_spoken_of_only_where_something_is_deployed(self, name: str) -> None:
        plan = shipped(name)
        told = [note for note in plan.notes if "access.deployers" in note or "access.invokers" in note]
        assert (len(told), "Access" in dict(plan_rows(plan))) == (
            (2, True) if plan.accelerator.deployable else (0, False)
        )

    def test_the_command_can_be_pasted_into_a_shell(self) -> None:
        import shlex

        one = shipped("l4", vllmArgs={"max-log-len": 5}, serving__env={"A": "b c"})
        words = shlex.split("\n".join(command_lines(one)).replace("\\\n", " "))
        environment, argv = words[: len(one.command.env)], words[len(one.command.env) :]
        assert tuple(argv) == one.command.argv
        assert dict(word.split("=", 1) for word in environment) == dict(one.command.env)

    def test_a_path_with_a_blank_stays_one_word_wherever_the_command_is_printed(self) -> None:

        plain = shipped("l4")
        argv = (*plain.command.argv[:2], "/mnt/my weights/a;b", *plain.command.argv[3:])
        one = replace(plain, command=replace(plain.command, argv=argv))
        assert "vllm serve '/mnt/my weights/a;b' \\" in command_lines(one)
        assert "vllm serve '/mnt/my weights/a;b' \\" in as_markdown(one, None)

    def test_refusals_stand_before_everything(self) -> None:
        refused = text(shipped("l4", region="europe-north1"), ResourceList((), "refused: nothing would be created"))
        assert refused.index("Refused") < refused.index("Memory")
        assert "refused: nothing would be created" in refused

    def test_who_measured_a_recipe_or_nobody_is_said(self) -> None:
        assert "unverified" in text(shipped("l4"))
        assert "the author of Turbo-Stable" in text(shipped("v6e4"))
        bare = make_plan("bare", {"model": "gemma-4-e2b-it", "accelerator": "g4-1"})
        assert "no recipe for this pair: unverified" in text(bare)


class TestRefusals:
    """A refused plan says why and where its memory would go; what only a running server has is not there."""

    REFUSED: ClassVar[dict[str, dict[str, Any]]] = {
        "too large": {"model": "gemma-4-31b-it"},
        "too long": {"serving__kvCacheDtype": "auto", "serving__cpuOffloadGb": 0, "model": "gemma-4-31b-it-qat-w4a16"},
        "elsewhere": {"region": "europe-north1"},
        "host too small": {
            "model": "gemma-4-31b-it-qat-w4a16",
            "serving__cpuOffloadGb": 14,
            "scaling__memoryGib": 16,
            "scaling__cpu": 4,
        },
    }

    @pytest.mark.parametrize("name", REFUSED)
    def test_have_no_figure_that_cannot_be_had(self, name: str) -> None:
        plan = shipped("l4", **self.REFUSED[name])
        assert plan.refused
        for shown in (text(plan), as_markdown(plan, None)):
            assert not re.search(r"≈ 0 |\(\)|-\d+\.\d GiB|tok/s|\$\d|Fits|vllm serve", shown), shown
        assert len(text(plan).splitlines()) < 24

    @pytest.mark.parametrize("name", REFUSED)
    def test_are_null_in_json_and_keep_their_keys(self, name: str) -> None:
        refused, fitting = data("l4", **self.REFUSED[name]), data("l4")
        per_million = refused["cost"]["usdPerMillionOutputTokens"]
        for group in ("capacity", "speed", "cost"):
            assert [*refused[group]] == [*fitting[group]]
        assert [*per_million] == [*fitting["cost"]["usdPerMillionOutputTokens"]]
        nothing = [refused["speed"][key] for key in ("alone", "planned", "ttftS")]
        nothing += [per_million[key] for key in per_million if key != "predicted"]
        nothing += [refused["capacity"][key] for key in ("tokens", "tokensBand", "requestsOfWorkload")]
        assert nothing == [None] * 11

    def test_memory_that_would_do_is_no_contradiction(self) -> None:
        shown = text(shipped("l4", region="europe-north1"))
        assert re.search(r"fits, but refused for another reason: ≈ 1\d\.\d GiB for KV cache \(", shown)

    @pytest.mark.parametrize("name", REFUSED)
    def test_a_diff_with_one_has_no_figure_of_it(self, name: str) -> None:
        found = {c.subject: c for c in compare(data("l4"), data("l4", **self.REFUSED[name])).changes}
        assert found["Verdict"].after == "refused"
        for subject in ("KV cache", "Requests held", "Speed as planned", "Start from zero", "$/hour, whole stack"):
            assert (found[subject].after, found[subject].tone) == ("", "")


class TestMoreThanFits:
    """No speed and no price is quoted for more requests than the KV cache holds."""

    @pytest.mark.parametrize(
        ("name", "typed"),
        [("l4", {"serving__maxNumSeqs": 200}), ("v6e4", {"serving__tensorParallelSize": 2})],
    )
    def test_is_quoted_for_what_is_held_and_warned_of_with_the_number_that_is(
        self, name: str, typed: dict[str, Any]
    ) -> None:
        plan = shipped(name, **typed)
        held = plan.requests_held
        assert held < plan.server.max_num_seqs
        assert plan.speed.planned.requests == plan.cost.planned_requests == held
        one = data(name, **typed)
        assert one["speed"]["planned"]["requests"] == one["capacity"]["requestsOfWorkload"] == held
        for shown in (text(plan), as_markdown(plan, None)):
            assert f"tok/s with {held} running" in shown
            assert f"with {plan.server.max_num_seqs} running" not in shown
        (warning,) = (fault for fault in plan.warnings if fault.key == "serving.maxNumSeqs")
        assert f"holds {held} of 1,280 tokens" in warning.fact
        mended = shipped(name, **{**typed, "serving__maxNumSeqs": int(re.findall(r"\d+", warning.fix)[0])})
        assert "serving.maxNumSeqs" not in {fault.key for fault in mended.warnings}
        assert mended.speed.planned.requests == mended.server.max_num_seqs >= held

    @pytest.mark.parametrize("name", NAMES)
    def test_no_shipped_stack_is_warned_of_it(self, name: str) -> None:
        plan = shipped(name)
        assert plan.speed.planned.requests == plan.server.max_num_seqs <= plan.requests_held
        assert "serving.maxNumSeqs" not in {fault.key for fault in plan.warnings}

    @pytest.mark.parametrize(
        ("name", "typed", "reaching"),
        [
            ("l4", {"scaling__concurrency": 8}, 8),
            ("v6e4", {"scaling__concurrency": 100}, 100),
            ("v6e4", {"tpu__slices": [f"s{n}" for n in range(8)], "scaling__concurrency": 112}, 112),
            ("rtx6000", {"model": "gemma-4-e2b-it", "serving__maxNumSeqs": 2000, "serving__maxModelLen": 2048}, 1000),
        ],
    )
    def test_is_not_quoted_for_what_never_reaches_a_server(
        self, name: str, typed: dict[str, Any], reaching: int
    ) -> None:
        plan = shipped(name, **typed)
        assert reaching < plan.server.max_num_seqs <= plan.requests_held
        assert plan.speed.planned.requests == plan.cost.planned_requests == reaching
        found = {c.subject: c for c in compare(data(name), data(name, **typed)).changes}
        assert found["Requests at once"].after.split()[0].replace(",", "") == str(reaching)
        assert f"runs {reaching:,} of maxNumSeqs {plan.server.max_num_seqs:,} at once" in " ".join(text(plan).split())


class TestPricesOfAnotherRegion:
    @pytest.mark.parametrize("name", NAMES)
    def test_are_told_in_words_once(self, name: str) -> None:
        plan = shipped(name)
        assert plan.cost.notes
        for note in plan.cost.notes:
            assert dict(plan_rows(plan))["Cost"].count(note) == 1
            assert as_markdown(plan, None).count(note) == 1

    def test_are_told_of_chips_as_well(self) -> None:
        assert "none on file for asia-northeast1: chips" in text(shipped("v6e4", tpu__zone="asia-northeast1-b"))


class TestBasis:
    @pytest.mark.parametrize("name", NAMES)
    def test_what_was_changed_in_a_published_command_is_told_everywhere(self, name: str) -> None:
        plan = shipped(name)
        shown, comment = " ".join(text(plan).split()), as_markdown(plan, None)
        for recipe, row in zip(plan.recipes, as_json(plan)["recipes"], strict=True):
            assert row["corrections"] == list(recipe.corrections)
            for correction in recipe.corrections:
                assert f"· changed: {correction}" in shown
                assert correction in comment

    def test_a_measured_recipe_that_somebody_changes_is_not_the_measured_one(self) -> None:
        def told(name: str, **typed: Any) -> list[str]:
            return [line for line in dict(plan_rows(shipped(name, **typed)))["Basis"] if "not as measured" in line]

        assert not told("rtx6000")
        assert not told("rtx6000", serving__maxModelLen=32767), "written out, but the same"
        assert told("rtx6000", serving__maxModelLen=16384) == ["· not as measured here: serving.maxModelLen"]
        assert not told("l4", serving__maxModelLen=4096), "nobody measured that recipe"
        overridden = data("g4x2", profile="latency")["recipes"]
        assert [row["overridden"] for row in overridden] == [["serving.speculation.tokens"], []]


class TestComment:
    def test_it_begins_with_the_mark_by_which_it_is_found_again(self) -> None:
        assert as_markdown(shipped("l4"), None).splitlines()[0] == MARKER.format(stack="l4")
        assert MARKER.format(stack="l4") != MARKER.format(stack="l4-31b")

    @pytest.mark.parametrize("name", NAMES)
    def test_its_tables_are_whole_and_its_folds_are_closed(self, name: str) -> None:
        comment = as_markdown(shipped(name), RESOURCES, data("l4", RESOURCES))
        rows = [line for line in comment.splitlines() if line.startswith("|")]
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
        assert widths <= {3, 4}
        assert comment.count("<details>") == comment.count("</details>") >= 2

    def test_the_change_comes_before_the_plan(self) -> None:
        comment = as_markdown(shipped("l4", serving__maxModelLen=4096), None, data("l4"))
        assert comment.index("| change |") < comment.index("The whole plan")
        assert "| --max-model-len | 8192 | 4096 |" in comment

    def test_no_change_is_a_sentence(self) -> None:
        assert "No change against l4" in as_markdown(shipped("l4"), None, data("l4"))
