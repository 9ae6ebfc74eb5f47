"""The plan: what it chooses where nobody chose, what it says about it, and that its parts agree with each other."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.catalog import GIB, Catalog, Lock, catalog
from infra.errors import Fault, SettingsError
from infra.planning.checks.reading_pace import READING_SPEED
from infra.planning.memory.verdict import Verdict
from infra.planning.names import MAX_ACCOUNT_ID, UNKNOWN_PROJECT, check_stack_name, names_of
from infra.planning.plan import Plan
from infra.planning.planner import make_plan, own_labels
from infra.planning.platforms.cloud_run.instances import InstancesPlan
from infra.planning.platforms.registry import PLATFORMS
from infra.planning.platforms.tpu.slices import SlicesPlan
from infra.planning.report.text import text
from infra.planning.settings.paths import known_paths
from infra.planning.settings.resolve import Origin, resolve
from infra.planning.settings.stackfile import read_stack, stack_names
from infra.planning.units import Band, read_duration, read_minutes, read_predicted, read_tokens_per_second
from tests.projects import ROOT

L4 = {"model": "gemma-4-12b-it-qat-w4a16", "accelerator": "l4"}
RTX = {"model": "gemma-4-31b-it", "accelerator": "rtx-pro-6000"}
MOE = {"model": "gemma-4-26b-a4b-it", "accelerator": "v6e-4"}
G4 = {"model": "gemma-4-31b-it", "accelerator": "g4-2"}
E4B_ON_L4 = {"model": "gemma-4-e4b-it", "accelerator": "l4"}
DIGEST = "sha256:" + "0a" * 32
REVISION = "0b" * 20

SUFFIXES = [end for one in PLATFORMS.values() for end in one.part_suffixes]


def plan(base: Mapping[str, Any], **typed: Any) -> Plan:
    """The plan of a pair with dotted settings; `__` stands for the dot."""
    return make_plan("test", base, {path.replace("__", "."): value for path, value in typed.items()})


def shipped(name: str, **typed: Any) -> Plan:
    stack_file = read_stack(ROOT, name).settings
    return make_plan(name, stack_file, {path.replace("__", "."): value for path, value in typed.items()})


class PinnedCatalog(Catalog):
    """The catalog with a lock that pins everything."""

    @property
    def lock(self) -> Lock:
        models = dict.fromkeys((*self.models, *self.assistants), REVISION)
        return Lock(images=dict.fromkeys(self.images, DIGEST), models=models)


def gated_facts() -> Catalog:
    """The catalog as it would be if the Hub asked for an accepted licence."""
    facts = Catalog()
    gated = {name: model.model_copy(update={"gated": True}) for name, model in facts.models.items()}
    facts.__dict__["_models_file"] = (facts.architectures, facts.assistants, gated, facts.weight_formats)
    return facts


class TestTheVerdict:
    def test_every_shipped_stack_fits_or_is_tight(self) -> None:
        assert {name: shipped(name).refusals for name in stack_names(ROOT)} == dict.fromkeys(stack_names(ROOT), ())

    def test_one_refusal_refuses_the_whole_and_leaves_the_memory_its_own_word(self) -> None:
        refused = plan(L4, region="europe-north1")
        assert (refused.verdict, refused.fits, refused.refused) == (Verdict.REFUSED, Verdict.FITS, True)
        assert [fault.key for fault in refused.refusals] == ["region"]

    def test_a_warning_refuses_nothing(self) -> None:
        warned = plan(L4, region="us-central1")
        assert (warned.verdict, warned.refused) == (Verdict.FITS, False)
        assert warned.warnings

    def test_a_refused_plan_still_has_every_number(self) -> None:
        refused = plan({**L4, "model": "gemma-4-31b-it"})
        assert refused.refused
        assert refused.cost.usd_per_hour > 0
        assert refused.speed.alone.total.mid > 0
        assert refused.command.argv

    def test_the_band_of_tokens_holds_the_likeliest_number(self) -> None:
        for name in stack_names(ROOT):
            one = shipped(name)
            assert one.kv_tokens.low <= one.capacity.tokens <= one.kv_tokens.high
            assert one.kv_tokens.mid == one.capacity.tokens

    @settings(max_examples=40, deadline=None)
    @given(
        base=st.sampled_from([L4, RTX, MOE, G4]),
        lengths=st.lists(st.integers(512, 200_000), min_size=2, max_size=2, unique=True).map(sorted),
    )
    def test_a_longer_context_never_fits_better(self, base: Mapping[str, Any], lengths: list[int]) -> None:
        order = list(Verdict)
        fixed = {"serving__maxNumSeqs": 4, "workload__promptTokens": 200, "workload__outputTokens": 100}
        shorter, longer = (plan(base, serving__maxModelLen=length, **fixed) for length in lengths)
        assert order.index(shorter.fits) <= order.index(longer.fits)
        assert shorter.capacity.concurrency >= longer.capacity.concurrency

    @settings(max_examples=25, deadline=None)
    @given(
        base=st.sampled_from([L4, RTX, G4]), shares=st.lists(st.integers(30, 95), min_size=2, max_size=2).map(sorted)
    )
    def test_more_of_the_card_never_holds_less_on_gpu(self, base: Mapping[str, Any], shares: list[int]) -> None:
        less, more = (plan(base, serving__gpuMemoryUtilization=share / 100, serving__maxNumSeqs=2) for share in shares)
        assert less.capacity.tokens <= more.capacity.tokens


class TestMaxNumSeqsWhereNobodyChose:
    def test_the_planner_chooses_and_says_so(self) -> None:
        chosen = plan(RTX)
        assert chosen.settings.serving.max_num_seqs is None
        assert chosen.origins["serving.maxNumSeqs"] is Origin.PLANNER
        assert chosen.server.max_num_seqs > 8

    def test_somebodys_choice_stands(self) -> None:
        said = plan(RTX, serving__maxNumSeqs=8)
        assert said.origins["serving.maxNumSeqs"] is Origin.COMMAND_LINE
        assert said.server.max_num_seqs == 8

    def test_what_it_chooses_is_held_by_the_kv_cache(self) -> None:
        for name in stack_names(ROOT):
            one = shipped(name)
            if one.origins["serving.maxNumSeqs"] is Origin.PLANNER:
                workload = one.settings.workload
                held = one.capacity.requests_held(workload.prompt_tokens + workload.output_tokens)
                assert 1 <= one.server.max_num_seqs <= held

    def test_a_profile_for_latency_runs_no_more_than_one_for_throughput(self) -> None:
        counts = [plan(RTX, profile=profile).server.max_num_seqs for profile in ("latency", "balanced", "throughput")]
        assert counts == sorted(counts)

    def test_speed_and_cost_are_those_of_the_planned_number(self) -> None:
        for one in (plan(RTX), plan(RTX, serving__maxNumSeqs=3), plan(MOE)):
            assert one.speed.planned.requests == one.cost.planned_requests == one.server.max_num_seqs

    def test_a_published_recipe_costs_about_three_times_as_much_as_the_planners_number(self) -> None:
        published, planned = plan(RTX, serving__maxNumSeqs=8), plan(RTX)
        ratio = planned.cost.usd_per_million_planned.mid / published.cost.usd_per_million_planned.mid
        assert 0.25 < ratio < 0.45


class TestWhatWouldFit:
    """What a refusal offers fits as it would be planned: another machine has another recipe, and what is written stays."""

    offered = re.compile(r"What fits: (.*)\.$")

    def alternatives(self, base: Mapping[str, Any], **typed: Any) -> list[dict[str, Any]]:
        (fault,) = plan(base, **typed).refusals
        found = self.offered.search(fault.fix)
        assert found, fault
        pairs = [re.findall(r"([A-Za-z.]+): ([^,; ]+)", one) for one in found[1].split("; ")]
        return [{path: yaml.safe_load(value) for path, value in one} for one in pairs]

    @pytest.mark.parametrize(
        ("base", "typed"),
        [
            ({"model": "gemma-4-31b-it", "accelerator": "v6e-1"}, {"serving.tensorParallelSize": 1}),
            ({"model": "gemma-4-31b-it-qat-w4a16", "accelerator": "l4"}, {"serving.gpuMemoryUtilization": 0.27}),
            ({"model": "gemma-4-31b-it", "accelerator": "rtx-pro-6000"}, {"serving.gpuMemoryUtilization": 0.14}),
        ],
    )
    def test_fits_when_it_is_written(self, base: Mapping[str, Any], typed: dict[str, Any]) -> None:
        found = self.alternatives(base, **{path.replace(".", "__"): value for path, value in typed.items()})
        assert found
        for one in found:
            assert make_plan("test", base, {**typed, **one}).fits is not Verdict.REFUSED, one

    def test_says_of_what_may_not_fit_that_it_may_not(self) -> None:
        base, cramped = {"model": "gemma-4-31b-it-qat-w4a16", "accelerator": "l4"}, {"serving.cpuOffloadGb": 2}
        (fault,) = make_plan("test", base, cramped).refusals
        fuller = {"serving.gpuMemoryUtilization": 0.95}
        assert make_plan("test", base, {**cramped, **fuller}).fits is Verdict.TIGHT
        assert "; serving.gpuMemoryUtilization: 0.95 (perhaps); serving.cpuOffloadGb: 3.5; " in fault.fix

    def test_names_the_devices_that_a_stack_file_fixed(self) -> None:
        found = self.alternatives({"model": "gemma-4-31b-it", "accelerator": "v6e-1"}, serving__tensorParallelSize=1)
        assert {"accelerator": "v6e-4", "serving.tensorParallelSize": 4} in found
        assert {"accelerator": "v6e-4"} in self.alternatives({"model": "gemma-4-31b-it", "accelerator": "v6e-1"})

    def test_no_size_is_negative(self) -> None:
        tight = plan({"model": "gemma-4-e4b-it-qat-w4a16", "accelerator": "g4-1"}, serving__gpuMemoryUtilization=0.133)
        (fault,) = (fault for fault in (*tight.refusals, *tight.warnings) if fault.key == "serving.maxModelLen")
        assert tight.memory.kv.low < 0
        assert "; 0.0 to " in fault.fact


class TestTheLongestContext:
    """The ends of the longest context that the plan names are where its judgement changes."""

    @pytest.mark.parametrize(
        "base",
        [
            {**L4, "serving": {"kvCacheDtype": "auto", "gpuMemoryUtilization": 0.5, "maxNumSeqs": 4}},
            {**G4, "serving": {"gpuMemoryUtilization": 0.42, "maxNumSeqs": 4}},
            {"model": "gemma-4-12b-it", "accelerator": "v6e-1", "serving": {"maxNumSeqs": 4}},
        ],
    )
    def test_fits_up_to_the_low_end_is_doubted_up_to_the_high_end_and_refused_beyond(
        self, base: Mapping[str, Any]
    ) -> None:
        band = plan(base).largest_max_model_len
        lengths = (band.low, band.low + 1, band.mid, band.high, band.high + 1)
        verdicts = [plan(base, serving__maxModelLen=int(length)).fits.value for length in lengths]
        assert verdicts == ["fits", "tight", "tight", "tight", "refused"]

    def test_a_doubt_that_is_more_likely_a_stop_quotes_one_request(self) -> None:
        base = {**L4, "serving": {"kvCacheDtype": "auto", "gpuMemoryUtilization": 0.5, "maxNumSeqs": 4}}
        band = plan(base).largest_max_model_len
        doubted = plan(base, serving__maxModelLen=int(band.high), workload__promptTokens=int(band.high) - 256)
        assert (doubted.fits, doubted.capacity.fits, doubted.speed.planned.requests) == (Verdict.TIGHT, False, 1)
        assert "less than one request of" in text(doubted)
        assert "≈ 0 " not in text(doubted)


class TestAnIdleCard:
    note = re.compile(r"maxNumSeqs 8 leaves the card idle: (\d+) running requests would fit and give ≈ ([\d,]+) tok/s")

    def test_is_told_with_the_number_that_would_use_it(self) -> None:
        said = [found for note in plan(RTX, serving__maxNumSeqs=8).notes if (found := self.note.match(note))]
        assert len(said) == 1
        assert int(said[0][1]) == plan(RTX).server.max_num_seqs

    def test_is_not_told_to_be_left_out_where_a_recipe_says_it(self) -> None:
        (said,) = (note for note in plan(E4B_ON_L4).notes if "idle" in note)
        assert said.startswith("maxNumSeqs 8, by the recipe, leaves the card idle")
        assert "leave it out" not in said
        (typed,) = (note for note in plan(E4B_ON_L4, serving__maxNumSeqs=8).notes if "idle" in note)
        assert typed.endswith(", or leave it out.")

    def test_is_no_matter_where_the_card_is_used_or_the_planner_chose(self) -> None:
        for one in (plan(RTX), plan(RTX, serving__maxNumSeqs=32)):
            assert not [note for note in one.notes if "idle" in note]


class TestConcurrency:
    def test_is_twice_what_runs_and_the_planners(self) -> None:
        one = plan(L4, serving__maxNumSeqs=9)
        assert isinstance(one.deployment, InstancesPlan)
        assert one.deployment.concurrency == 18
        assert one.origins["scaling.concurrency"] is Origin.PLANNER

    def test_never_exceeds_what_cloud_run_takes(self) -> None:
        one = plan(RTX, serving__maxNumSeqs=900)
        assert isinstance(one.deployment, InstancesPlan)
        assert one.deployment.concurrency == 1000

    def test_is_what_somebody_said(self) -> None:
        one = plan(L4, scaling__concurrency=7)
        assert isinstance(one.deployment, InstancesPlan)
        assert one.deployment.concurrency == 7
        assert one.origins["scaling.concurrency"] is Origin.COMMAND_LINE


class TestWhatAGatewayTakesFromScaling:
    def test_requests_in_flight_for_a_slice_and_the_longest_of_them(self) -> None:
        one = plan(MOE, scaling__concurrency=40, scaling__requestTimeout="10m", tpu__slices=["blue", "green"])
        assert isinstance(one.deployment, SlicesPlan)
        assert one.deployment.gateway.requests_each == 40
        assert one.deployment.gateway.request_timeout_s == 600

    def test_the_default_is_what_the_reference_says(self) -> None:
        one = plan(MOE)
        assert isinstance(one.deployment, SlicesPlan)
        assert one.deployment.gateway.requests_each == 512
        meaning = dict(known_paths())["scaling.concurrency"].description
        assert "512" in meaning


class TestQuotas:
    @staticmethod
    def needs(one: Plan) -> dict[str, tuple[float, int, str]]:
        return {need.quota.id: (need.amount, need.value, need.place) for need in one.quotas}

    @pytest.mark.parametrize(("base", "times"), [(L4, 1), (L4, 3), (RTX, 1), (RTX, 2)])
    def test_every_instance_counts_whole_whatever_runs(self, base: Mapping[str, Any], times: int) -> None:
        one = plan(base, scaling__maxInstances=times)
        assert isinstance(one.deployment, InstancesPlan)
        (gpu, gpus), *rest = self.needs(one).items()
        per_gpu = {"l4": 1, "rtx-pro-6000": 1000}[base["accelerator"]]
        assert "NoZonalRedundancy" in gpu
        assert gpus == (times, times * per_gpu, one.region)
        memory, cpu = times * one.deployment.memory_gib, times * one.deployment.cpu
        assert dict(rest) == {
            "MemAllocPerProjectRegion": (memory, memory * 2**30, one.region),
            "CpuAllocPerProjectRegion": (cpu, 1000 * cpu, one.region),
        }

    def test_zonal_redundancy_is_another_pool_whose_size_nobody_published(self) -> None:
        first = plan(RTX, scaling__zonalRedundancy=True).quotas[0]
        assert first.quota.id == "NvidiaRtxPro6000GpuAllocPerProjectRegion"
        assert not first.beyond_default(times=100)

    def test_chips_count_by_zone_and_by_region_wherever_the_gateway_is(self) -> None:
        one = plan(MOE, tpu__slices=["blue", "green"], tpu__zone="europe-west4-a", region="us-east5")
        assert self.needs(one) == {
            "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI": (8, 8, "europe-west4-a"),
            "TPUV6EPreemptiblePerProjectPerRegionForTPUAPI": (8, 8, "europe-west4"),
        }
        assert "TPUV6EPerProjectPerZoneForTPUAPI" in self.needs(plan(MOE, tpu__provisioning="on-demand"))

    @pytest.mark.parametrize(
        ("base", "typed", "key", "beyond"),
        [
            (L4, {}, None, ()),
            (L4, {"scaling__maxInstances": 2, "scaling__memoryGib": 20}, None, ()),
            (L4, {"scaling__maxInstances": 2}, "scaling.maxInstances", ("64 GiB of Mem",)),
            (L4, {"scaling__maxInstances": 4}, "scaling.maxInstances", ("4 GPU", "128 GiB of Mem", "32 vCPU of Cpu")),
            (RTX, {}, "accelerator", ("80 GiB of Mem",)),
            (RTX, {"scaling__maxInstances": 2}, "scaling.maxInstances", ("2 GPU", "160 GiB of Mem", "40 vCPU of Cpu")),
            (MOE, {}, None, ()),
            (G4, {}, "accelerator", ("2 GPU of GPUS-ALL-REGIONS",)),
            ({**E4B_ON_L4, "accelerator": "g4-1"}, {}, None, ()),
        ],
    )
    def test_a_usual_project_that_cannot_hold_it_is_told_before_anything_is_paid(
        self, base: Mapping[str, Any], typed: dict[str, Any], key: str | None, beyond: tuple[str, ...]
    ) -> None:
        one = plan(base, **typed)
        told = [fault for fault in one.warnings if "a new project was seen to have" in fault.fact]
        assert [fault.key for fault in told] == ([key] if key else [])
        assert not one.refused, "what a project has is not known here"
        for fault in told:
            assert fault.fact.count(" of ") == len(beyond)
            assert all(amount in fault.fact for amount in beyond)
            assert "https://console.cloud.google.com/iam-admin/quotas" in fault.fix

    def test_a_size_that_somebody_chose_is_offered_to_be_left_out_where_that_suffices(self) -> None:
        (fault,) = (fault for fault in plan(RTX, scaling__cpu=44).warnings if fault.key == "accelerator")
        assert fault.fact.startswith("one instance needs 80 GiB of MemAllocPerProjectRegion, 44 vCPU of Cpu")
        assert fault.fix.endswith("ask for more, or leave scaling.cpu out.")
        assert "leave" not in next(fault.fix for fault in plan(RTX).warnings if fault.key == "accelerator")

    def test_the_number_of_instances_offered_instead_is_one_that_a_usual_project_holds(self) -> None:
        def offered(base: Mapping[str, Any], **typed: Any) -> str:
            return next(fault.fix for fault in plan(base, **typed).warnings if fault.key == "scaling.maxInstances")

        assert offered(L4, scaling__maxInstances=5).endswith("or write scaling.maxInstances: 1.")
        assert offered(L4, scaling__maxInstances=5, scaling__memoryGib=16).endswith("scaling.maxInstances: 2.")
        assert "maxInstances" not in offered(RTX, scaling__maxInstances=2), "not even one of them fits"

    def test_an_update_is_said_to_count_twice_only_where_twice_is_too_much(self) -> None:
        def said(**typed: Any) -> list[str]:
            return [note for note in plan(L4, **typed).notes if "old and new revision together" in note]

        assert "64 GiB (reported, not documented)" in said()[0]
        assert not said(scaling__memoryGib=20)


class TestAStreamSlowerThanReading:
    @staticmethod
    def told(one: Plan) -> list[Fault]:
        return [fault for fault in one.warnings if "slower than people read" in fault.fact]

    def test_offload_is_told_with_the_wait_and_what_is_faster(self) -> None:
        one = shipped("l4-31b")
        (fault,) = self.told(one)
        assert fault.key == "serving.cpuOffloadGb"
        stream = one.speed.planned.per_stream
        assert read_predicted(stream, read_tokens_per_second) in fault.fact
        assert read_predicted(stream.dividing(256), read_duration, ends=read_minutes) in fault.consequence
        assert re.findall(r"(?:model|accelerator): ([\w.-]+)", fault.fix) == [
            "gemma-4-12b-it-qat-w4a16",
            "rtx-pro-6000",
        ]

    def test_what_is_offered_instead_fits_and_keeps_up(self) -> None:
        (fault,) = self.told(shipped("l4-31b"))
        for model, machine in (("gemma-4-12b-it-qat-w4a16", "l4"), ("gemma-4-31b-it-qat-w4a16", "rtx-pro-6000")):
            other = plan({"model": model, "accelerator": machine})
            assert other.fits is Verdict.FITS
            assert other.speed.alone.total.mid >= READING_SPEED
            assert model in fault.fix or machine in fault.fix

    def test_no_offload_is_offered_first_where_all_weights_fit(self) -> None:
        (fault,) = self.told(plan(L4, serving__cpuOffloadGb=3))
        without = read_predicted(plan(L4).speed.alone.total, read_tokens_per_second, " alone")
        assert fault.fix.startswith(f"What is faster: serving.cpuOffloadGb: 0, {without};")

    def test_no_more_weights_cross_the_host_link_than_can_be_offloaded(self) -> None:
        one = shipped("l4-31b", serving__cpuOffloadGb=30)
        (fault,) = self.told(one)
        assert f": {one.memory.offloaded_bytes / GIB:.1f} GiB of weights cross the host link" in fault.fact

    def test_too_many_at_once_is_told_with_a_number_that_keeps_up(self) -> None:
        crowd = {
            "model": "gemma-4-31b-it-qat-w4a16",
            "accelerator": "g4-2",
            "serving": {"kvCacheDtype": "fp8", "speculation": {"method": "mtp"}},  # checking drafts is arithmetic
            "workload": {"promptTokens": 64, "outputTokens": 64},
        }
        crowded = plan(crowd, serving__maxNumSeqs=2500)
        (fault,) = self.told(crowded)
        assert fault.key == "serving.maxNumSeqs"
        offered = int(re.findall(r"serving.maxNumSeqs: (\d+)", fault.fix)[0])
        assert crowded.speed_model.tokens_per_second_at(offered).per_stream.mid >= READING_SPEED
        assert not self.told(plan(crowd, serving__maxNumSeqs=offered))

    def test_no_other_shipped_stack_is_that_slow(self) -> None:
        assert [name for name in stack_names(ROOT) if self.told(shipped(name))] == ["l4-31b"]


class TestIdleDevices:
    @pytest.mark.parametrize(
        ("base", "devices", "idle", "wasted", "offered"),
        [
            (MOE, 2, 2, "$2.70 of $5.40", "Write 4, or leave it out."),
            ({**MOE, "model": "gemma-4-e4b-it"}, 1, 3, "$4.05 of $5.40", "Write 4, or leave it out; v6e-1 has just 1."),
        ],
    )
    def test_are_counted_and_priced(
        self, base: Mapping[str, Any], devices: int, idle: int, wasted: str, offered: str
    ) -> None:
        one = plan(base, serving__tensorParallelSize=devices)
        (fault,) = (fault for fault in one.warnings if fault.key == "serving.tensorParallelSize")
        assert f"{devices} of the {one.accelerator.devices} devices" in fault.fact
        assert f"the rest ({idle}) is idle" in fault.fact
        assert wasted in fault.consequence
        assert fault.fix == offered

    def test_are_none_where_all_serve_or_something_else_uses_them(self) -> None:
        for one in (plan(MOE), plan(MOE, serving__tensorParallelSize=4)):
            assert "serving.tensorParallelSize" not in {fault.key for fault in one.warnings}
        several = plan({**G4, "accelerator": "g4-8"}, serving__tensorParallelSize=2)
        assert several.deployment.replicas == 4
        assert "serving.tensorParallelSize" not in {fault.key for fault in several.warnings}
        spread = plan(MOE, serving__tensorParallelSize=1, **{"vllmArgs__data-parallel-size": 4})
        assert "serving.tensorParallelSize" not in {fault.key for fault in spread.warnings}

    @pytest.mark.parametrize("accelerator", sorted(catalog().accelerators))
    @pytest.mark.parametrize("parallel", [3, 5, 6, 7, 8])
    def test_what_is_offered_for_a_wrong_number_works_on_this_machine(self, accelerator: str, parallel: int) -> None:
        base = {"model": "gemma-4-31b-it", "accelerator": accelerator}
        devices = catalog().accelerator(accelerator).devices
        try:
            faults = plan(base, serving__tensorParallelSize=parallel).refusals
        except SettingsError as error:
            faults = error.faults
        said = [fault.fix for fault in faults if fault.key == "serving.tensorParallelSize"]
        assert len(said) == (1 if parallel > devices or parallel in (3, 5, 6, 7) else 0)
        for fix in said:
            offered = [int(number) for number in re.findall(r"\d+", fix)]
            assert max(offered) == devices
            for number in offered:
                again = plan(base, serving__tensorParallelSize=number)
                assert "serving.tensorParallelSize" not in {fault.key for fault in again.refusals}


class TestAProfileWithoutEffect:
    @pytest.mark.parametrize("profile", ["latency", "throughput"])
    @pytest.mark.parametrize("name", stack_names(ROOT))
    def test_is_told_exactly_where_it_changes_nothing(self, name: str, profile: str) -> None:
        balanced, chosen = shipped(name), make_plan(name, {**read_stack(ROOT, name).settings, "profile": profile})
        told = [fault for fault in chosen.warnings if fault.key == "profile"]
        assert bool(told) == (chosen.command == balanced.command)

    def test_some_are_told_and_some_are_not(self) -> None:
        def told(name: str, profile: str) -> bool:
            one = make_plan(name, {**read_stack(ROOT, name).settings, "profile": profile})
            return any(fault.key == "profile" for fault in one.warnings)

        assert told("v6e4", "latency")
        assert told("l4-31b", "throughput")
        assert not told("l4-31b", "latency")
        assert not told("rtx6000", "throughput")

    def test_only_what_somebody_wrote_is_told_with_what_decides_instead(self) -> None:
        (fault,) = (one for one in plan(RTX, profile="latency", serving__maxNumSeqs=5).warnings if one.key == "profile")
        assert fault.fact == "latency changes nothing here: serving.maxNumSeqs is 5 by the command line."
        assert fault.fix == "Take it out, or serving.maxNumSeqs, which the profile then chooses."
        (fault,) = (one for one in plan(MOE, profile="latency").warnings if one.key == "profile")
        assert fault.fact.endswith("by the recipe.")
        assert fault.fix == "Take it out, or write serving.maxNumSeqs yourself."
        assert not [
            one for one in plan(RTX, profile="balanced", serving__maxNumSeqs=5).warnings if one.key == "profile"
        ]


class TestAPause:
    def test_is_also_an_empty_list_of_slices(self) -> None:
        """All figures are those of a stack with its default slice."""
        paused, empty = plan(MOE, paused=True), plan(MOE, tpu__slices=[])
        assert (paused.paused, empty.paused, plan(MOE).paused) == (True, True, False)
        assert (empty.deployment, empty.cost, empty.quotas) == (paused.deployment, paused.cost, paused.quotas)
        assert (empty.notes, empty.warnings) == (paused.notes, paused.warnings)


class TestARequestThatStands:
    """Longer than `pulumi up` waits, somebody pays for what nobody waits for."""

    @staticmethod
    def warned(**typed: Any) -> list[str]:
        return [str(one) for one in plan(MOE, **typed).warnings if one.key == "tpu.validUntilDuration"]

    @pytest.mark.parametrize(("wait", "stands_s"), [("20m", 1200), ("5h", 18_000), ("0s", 60)])
    def test_by_default_ends_with_the_wait(self, wait: str, stands_s: int) -> None:
        slices = plan(MOE, tpu__waitForCapacity=wait).deployment
        assert isinstance(slices, SlicesPlan)
        assert (slices.valid_until_duration_s, slices.unattended_s) == (stands_s, 0)
        assert not self.warned(tpu__waitForCapacity=wait)

    def test_for_longer_is_warned_of_with_time_and_price(self) -> None:
        (said,) = self.warned(tpu__validUntilDuration="4h", tpu__maxRunDuration="10h")
        assert "$54.00 until it ends, for what nobody waits for" in said
        assert "3 h 40 min after `pulumi up` has stopped waiting" in said
        (said,) = self.warned(tpu__validUntilDuration="4h", tpu__provisioning="on-demand")
        assert "$10.80 an hour until it is deleted" in said


class TestZonesOfSlices:
    def test_a_zone_is_refused_only_where_google_refused_or_has_no_such_machine(self) -> None:
        tpu = catalog().accelerator("v6e-4").tpu
        assert tpu is not None
        for zone in catalog().accelerator("v6e-4").locations:
            one = plan(MOE, tpu__zone=zone)
            told = [fault.key for fault in one.warnings if fault.key == "tpu.zone"]
            assert one.refused == (zone in tpu.flex_start_refused_zones)
            assert bool(told) == (zone not in (*tpu.flex_start_refused_zones, *tpu.flex_start_zones))
            assert not plan(MOE, tpu__zone=zone, tpu__provisioning="on-demand").refused
        assert not plan(MOE, tpu__zone="southamerica-west1-a").warnings
        assert plan(MOE, tpu__zone="us-west1-a").refused


class TestSettingsWithoutEffect:
    def test_every_one_in_the_tables_exists(self) -> None:
        known = {path for path, _ in known_paths()}
        assert {key for one in PLATFORMS.values() for key in one.without_effect} <= known
        assert {one.platform for one in catalog().accelerators.values()} <= set(PLATFORMS)

    @pytest.mark.parametrize("base", [L4, MOE, G4], ids=["GPU", "TPU", "machine"])
    def test_only_what_somebody_wrote_is_told(self, base: Mapping[str, Any]) -> None:
        assert [fault.fact for fault in plan(base).warnings if "no effect" in fault.fact] == []
        told = [fault.key for fault in plan(base, tpu__zone="us-east5-a", scaling__cpu=8).warnings]
        assert (
            told
            == {"l4": ["tpu.zone"], "v6e-4": ["scaling.cpu"], "g4-2": ["accelerator", "scaling.cpu", "tpu.zone"]}[
                base["accelerator"]
            ]
        )

    def test_a_budget_for_images_is_told_where_none_are_let_in(self) -> None:
        def told(**typed: Any) -> list[str]:
            return [fault.key for fault in plan(L4, serving__visionTokens=560, **typed).warnings]

        assert told(serving__modalities__image=0) == ["serving.visionTokens"]
        assert told() == told(serving__modalities__image=0, serving__modalities__video=1) == []

    @pytest.mark.parametrize("base", [L4, MOE], ids=["GPU", "TPU"])
    def test_nothing_in_the_tables_changes_what_is_deployed(self, base: Mapping[str, Any]) -> None:
        written: dict[str, dict[str, Any]] = {
            "l4": {"tpu__zone": "us-east5-b"},
            "v6e-4": {"scaling__maxInstances": 4, "weights__access": "stream"},
        }
        before, after = plan(base), plan(base, **written[base["accelerator"]])
        assert after.warnings
        assert (after.command, after.deployment) == (before.command, before.deployment)


class TestEachPlatformHasItsOwn:
    @pytest.mark.parametrize("base", [L4, MOE], ids=["GPU", "TPU"])
    def test_the_note_on_templates_offers_only_what_is_taken_there(self, base: Mapping[str, Any]) -> None:
        (note,) = (note for note in plan(base).notes if "own chat template" in note)
        assert ("chatTemplate: tools" in note) is not plan(base, serving__chatTemplate="tools").refused

    def test_a_gain_of_mtp_that_nobody_measured_says_so(self) -> None:
        def said(base: Mapping[str, Any]) -> bool:
            return any("No run of MTP" in note for note in plan(base, serving__speculation__method="mtp").notes)

        assert [said(base) for base in (L4, G4, MOE)] == [False, False, True]
        assert not any("No run of MTP" in note for note in plan(MOE).notes)

    def test_cloud_run_has_an_instance_and_a_probe(self) -> None:
        one = plan(L4)
        assert isinstance(one.deployment, InstancesPlan)
        assert (one.zone, one.region) == (None, "us-east4")
        assert (one.deployment.cpu, one.deployment.memory_gib) == (8, 32)
        assert set(one.images) == {"serving", "staging"}

    def test_a_slice_has_a_zone_and_its_gateway_the_zones_region(self) -> None:
        one = plan(MOE, tpu__zone="europe-west4-a")
        assert any("Write region: europe-west4 before" in note for note in one.notes)
        pinned = plan(MOE, tpu__zone="europe-west4-a", region="us-east5")
        assert not any("follows tpu.zone" in note for note in pinned.notes)
        assert (one.zone, one.region) == ("europe-west4-a", "europe-west4")
        assert set(one.images) == {"serving", "staging", "gateway"}
        assert plan(MOE, region="us-central1").region == "us-central1"

    def test_a_machine_is_planned_in_its_region(self) -> None:
        one = plan(G4)
        assert (one.region, one.accelerator.deployable) == ("us-central1", True)

    def test_time_outs_cover_the_start(self) -> None:
        for name in stack_names(ROOT):
            one = shipped(name)
            assert one.ready_timeout_s >= one.startup.from_zero.mid
            if (probe := one.deployment.startup_probe) is not None:
                assert one.deploy_timeout_s >= probe.window_s

    def test_every_pair_of_the_catalog_can_be_planned(self) -> None:
        facts = catalog()
        for model, accelerator in itertools.product(facts.models, facts.accelerators):
            one = plan({"model": model, "accelerator": accelerator})
            assert one.cost.usd_per_hour > 0
            assert (one.deployment.startup_probe is None) == (one.accelerator.cloud_run is None)


class TestPins:
    def test_what_is_loose_is_told(self) -> None:
        note = next(note for note in plan(L4).notes if note.startswith("Not pinned:"))
        for loose in ("vllm/vllm-openai:v0.32.0", "google-cloud-cli", "gemma-4-12B-it-qat-w4a16-ct@main"):
            assert loose in note

    def test_a_filled_lock_pins_images_and_weights_and_ends_the_note(self) -> None:
        one = make_plan("test", {**RTX, "images": {"requirePinned": True}}, facts=PinnedCatalog())
        assert one.refusals == ()
        assert all(image.pinned and image.upstream.endswith(f"@{DIGEST}") for image in one.images.values())
        assert [weights.revision for weights in one.weights] == [REVISION]
        assert not [note for note in one.notes if "pinned" in note]

    def test_an_override_by_tag_is_loose_again(self) -> None:
        settings = {**RTX, "images": {"requirePinned": True, "serving": "vllm/vllm-openai:nightly"}}
        one = make_plan("test", settings, facts=PinnedCatalog())
        assert [fault.key for fault in one.refusals] == ["images.requirePinned"]
        assert "image vllm/vllm-openai:nightly" in one.refusals[0].fact

    def test_a_drafter_is_pinned_as_well(self) -> None:
        one = make_plan("test", G4, facts=PinnedCatalog())
        assert [weights.revision for weights in one.weights] == [REVISION, REVISION]
        assert plan(G4).weights[1].hub_id.endswith("-assistant")

    def test_docker_hub_is_pulled_through_our_repository_and_other_registries_are_not(self) -> None:
        images = make_plan("test", L4, project="my-project").images
        assert images["serving"].pull == "us-east4-docker.pkg.dev/my-project/gemma4-test/vllm/vllm-openai:v0.32.0"
        assert images["staging"].pull == images["staging"].upstream


class TestNotes:
    def test_a_gated_model_without_a_token_asks_for_one(self) -> None:
        def asked(**typed: Any) -> list[str]:
            one = make_plan("test", L4, {path.replace("__", "."): v for path, v in typed.items()}, facts=gated_facts())
            return [note for note in one.notes if "hfToken" in note]

        assert asked() == [
            "google/gemma-4-12B-it-qat-w4a16-ct is gated: pulumi config set --secret gemma4:hfToken, or set hfTokenSecret."
        ]
        assert not asked(hfTokenSecret="hf-token")
        assert not asked(weights__source="existing", weights__bucket="filled")

    @pytest.mark.parametrize("model", sorted(catalog().models))
    def test_a_token_is_asked_for_exactly_where_the_model_is_gated(self, model: str) -> None:
        notes = plan({"model": model, "accelerator": "rtx-pro-6000"}).notes
        assert bool([note for note in notes if "hfToken" in note]) == catalog().model(model).gated

    @pytest.mark.parametrize("accelerator", ["v6e-1", "v6e-4", "l4"])
    @pytest.mark.parametrize("model", ["gemma-4-e2b-it", "gemma-4-e4b-it"])
    def test_an_fp8_cache_that_saves_nothing_is_told(self, model: str, accelerator: str) -> None:
        base = {"model": model, "accelerator": accelerator}
        fp8, bf16 = (plan(base, serving__kvCacheDtype=dtype) for dtype in ("fp8", "auto"))
        told = [note for note in fp8.notes if "saves nothing here" in note]
        assert bool(told) == (fp8.capacity.tokens == bf16.capacity.tokens)
        assert bool(told) == ((model == "gemma-4-e2b-it" and accelerator != "l4") or accelerator == "v6e-4")
        assert not [note for note in bf16.notes if "saves nothing here" in note]

    def test_a_spot_slice_is_said_to_go_at_any_time(self) -> None:
        told = {kind: " ".join(plan(MOE, tpu__provisioning=kind).notes) for kind in ("spot", "flex-start", "on-demand")}
        assert [kind for kind, notes in told.items() if "taken back at any time" in notes] == ["spot"]

    def test_an_image_that_nobody_has_looked_up_is_told_where_it_is_paid_for_first(self) -> None:
        def told(base: dict[str, Any], **settings: Any) -> bool:
            return any("gemma4 pin tpu" in note for note in plan(base, **settings).notes)

        assert told(MOE)
        assert not told(MOE, images__serving="vllm/vllm-tpu:v0.30.0")
        assert not told(MOE, images__mode="build")  # which would fail before a slice is asked for
        assert not told({"model": "gemma-4-e4b-it", "accelerator": "l4"})
        assert not [note for note in make_plan("test", MOE, facts=PinnedCatalog()).notes if "gemma4 pin tpu" in note]

    def test_whoever_may_call_or_deploy_ends_its_note(self) -> None:
        member = ["group:ml@example.com"]
        text = "\n".join(plan(L4, access__invokers=member, access__deployers=member).notes)
        assert "access.invokers" not in text
        assert "access.deployers" not in text

    def test_no_note_stands_twice(self) -> None:
        for name in stack_names(ROOT):
            notes = shipped(name).notes
            assert len(set(notes)) == len(notes)


class TestNames:
    @given(
        st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True).filter(lambda stack: not check_stack_name(stack, SUFFIXES))
    )
    def test_every_account_id_is_one_that_google_takes(self, stack: str) -> None:
        names = names_of(stack, "my-project", None)
        for account in (names.prefix, names.stager, names.invoker):
            assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])", account)
            assert 6 <= len(account) <= MAX_ACCOUNT_ID

    def test_long_names_that_begin_alike_stay_apart(self) -> None:
        one, other = (names_of(f"a-very-long-name-of-a-stack-{number}", None, None) for number in (1, 2))
        assert one.prefix != other.prefix

    def test_the_bucket_carries_the_project_unless_it_is_named(self) -> None:
        assert names_of("l4", "my-project", None).bucket == "my-project-gemma4-l4-weights"
        assert names_of("l4", None, None).bucket.startswith(UNKNOWN_PROJECT)
        assert names_of("l4", "my-project", "other").bucket == "other"

    @pytest.mark.parametrize("stack", ["L4", "l4_a", "-l4", "l4-", "l4.dev", "é", ""])
    def test_a_stack_that_cannot_be_part_of_a_name_is_bad_settings(self, stack: str) -> None:
        assert check_stack_name(stack, SUFFIXES)
        with pytest.raises(SettingsError, match="cannot be part of a cloud name"):
            make_plan(stack, L4)

    def test_a_stack_with_a_longer_name_than_a_label_takes_is_bad_settings(self) -> None:
        assert check_stack_name("a" * 63, SUFFIXES) == []
        with pytest.raises(SettingsError, match="stack: its name has 64 characters"):
            make_plan("a" * 64, L4)

    @pytest.mark.parametrize("suffix", ["-stage", "-invoke", "-gate", "-tpu"])
    def test_a_stack_named_like_a_part_of_another_is_bad_settings(self, suffix: str) -> None:
        with pytest.raises(SettingsError, match=f"'v6e4{suffix}' ends in {suffix}, as a part of stack v6e4 does"):
            make_plan(f"v6e4{suffix}", L4)
        assert not check_stack_name(f"{suffix[1:]}-v6e4", SUFFIXES)

    def test_no_two_stacks_share_an_account_or_a_subnet(self) -> None:
        stacks = [name for base in ("v6e4", "v6e4-a") for name in (base, *map(base.__add__, SUFFIXES), f"{base}-stage")]
        stacks = [name for name in stacks if not check_stack_name(name, SUFFIXES)]
        used = [
            name
            for one in (names_of(stack, "my-project", None) for stack in stacks)
            for name in (one.prefix, one.stager, one.invoker, *map(one.part, sorted(set(SUFFIXES))))
        ]
        assert len(used) == len(set(used))

    def test_no_label_of_a_user_hides_one_of_ours(self) -> None:
        settings = resolve(MOE).settings.model_copy(update={"labels": {"stack": "other", "team": "ml"}})
        assert own_labels("test", settings) == {
            "team": "ml",
            "app": "gemma4",
            "stack": "test",
            "managed-by": "pulumi",
        }

    def test_labels_are_ours_and_the_users(self) -> None:
        assert dict(plan(L4, labels={"team": "ml"}).labels) == {
            "app": "gemma4",
            "stack": "test",
            "managed-by": "pulumi",
            "team": "ml",
        }


class TestThePlanIsAValue:
    def test_the_same_settings_give_the_same_plan(self) -> None:
        one, other = plan(RTX), plan(RTX)
        assert one == other
        with pytest.raises(AttributeError):
            one.region = "elsewhere"  # type: ignore[misc]

    def test_every_prediction_is_a_band_that_rises(self) -> None:
        for name in stack_names(ROOT):
            one = shipped(name)
            for band in (one.kv_tokens, one.speed.alone.total, one.startup.from_zero, one.memory.kv):
                assert isinstance(band, Band)
                assert band.low <= band.mid <= band.high
