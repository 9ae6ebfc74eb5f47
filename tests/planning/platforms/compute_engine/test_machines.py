"""Machines of Compute Engine: how many servers run on each, under which names, with which GPUs, and at what price."""

from __future__ import annotations

import re
from typing import Any

import pytest

from infra.catalog import GIB, catalog
from infra.planning.memory.footprint import HOST_MEMORY
from infra.planning.plan import Plan
from infra.planning.planner import make_plan
from infra.planning.platforms.compute_engine.machine_checks import MEMORY_DISK_SHARE
from infra.planning.platforms.compute_engine.machine_starts import UNPACKED_BYTES
from infra.planning.platforms.compute_engine.machines import MachinesPlan, limits_of
from infra.planning.platforms.registry import PLATFORMS
from infra.planning.settings.stackfile import read_stack
from infra.planning.units import read_usd
from tests.projects import ROOT

PAGE = (ROOT / "docs/gpu-machines.md").read_text("utf-8")
PLATFORM = PLATFORMS["compute-engine"]
MACHINES = [one for one in catalog().accelerators.values() if one.platform == PLATFORM.id]
each_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda one: one.id)


def plan(accelerator: str = "g4-2", model: str = "gemma-4-31b-it", **typed: Any) -> Plan:
    return make_plan(
        "test",
        {"model": model, "accelerator": accelerator},
        {key.replace("__", "."): value for key, value in typed.items()},
    )


def machines(accelerator: str = "g4-2", **typed: Any) -> MachinesPlan:
    deployment = plan(accelerator, **typed).deployment
    assert isinstance(deployment, MachinesPlan)
    return deployment


class TestServersOfAMachine:
    @each_machine
    @pytest.mark.parametrize("parallel", [1, 2, 4, 8])
    def test_every_gpu_serves_in_one_server_alone(self, machine: Any, parallel: int) -> None:
        if machine.devices % parallel:
            pytest.skip("refused")
        one = machines(machine.id, serving__tensorParallelSize=parallel)
        held = [device for server in one.servers for device in server.devices] or list(range(machine.devices))
        assert held == list(range(machine.devices))
        assert {len(server.devices) or machine.devices for server in one.servers} == {parallel}
        assert [server.port for server in one.servers] == [8000 + number for number in range(len(one.servers))]
        assert one.replicas == len(one.servers) == machine.devices // parallel

    def test_one_server_is_called_like_its_machine_and_several_by_numbers(self) -> None:
        assert [one.suffix for one in machines().servers] == [""]
        four = machines("g4-8", serving__tensorParallelSize=2)
        assert [one.suffix for one in four.servers] == ["-0", "-1", "-2", "-3"]
        of_blue = [one for one in four.members() if one.group == "blue"]
        assert [one.name for one in of_blue] == ["blue-0", "blue-1", "blue-2", "blue-3"]
        assert {one.host for one in of_blue} == {"blue"}
        assert [one.name for one in of_blue] == [f"blue{server.suffix}" for server in four.servers]

    def test_a_larger_machine_runs_the_same_servers_and_leaves_its_other_gpus_alone(self) -> None:
        one = machines(machine__shapes=["g4-standard-96", "g4-standard-192"])
        assert [(server.suffix, server.devices) for server in one.servers] == [("", (0, 1))]
        assert machines().servers[0].devices == ()

    def test_the_gateway_does_not_change_with_a_name_that_it_knows_nor_with_a_flag(self) -> None:
        before = machines("g4-8", serving__tensorParallelSize=2)
        for other in (
            machines("g4-8", serving__tensorParallelSize=2, machine__names=["blue", "green"]),
            machines("g4-8", serving__tensorParallelSize=2, machine__names=[]),
            machines("g4-8", serving__tensorParallelSize=2, serving__maxNumSeqs=3, machine__provisioning="spot"),
        ):
            assert other.gateway == before.gateway

    def test_only_machines_that_are_followed_by_others_have_turns(self) -> None:
        assert {one.host for one in machines().members() if one.group == "blue"} == {"blue"}
        flex = machines(machine__provisioning="flex-start")
        assert {one.host for one in flex.members() if one.group == "blue"} == {"blue-a", "blue-b"}
        assert flex.member_paths() == {"blue": "/members/blue"}
        assert machines(machine__provisioning="spot").member_paths() == {"blue": "/members/blue"}

    def test_without_names_it_is_paused_and_planned_with_one(self) -> None:
        one = machines(machine__names=[])
        assert (one.paused, one.names, one.always_running) == (True, ("blue",), 0)
        assert not machines().paused


class TestWhatAServerFinds:
    def test_its_supervisor_puts_address_and_port_there(self) -> None:
        assert plan().command.argv[-4:] == ("--host", "${VPC_ADDRESS}", "--port", "${PORT}")

    @pytest.mark.parametrize(
        ("accelerator", "parallel", "level"),
        [("g4-2", 2, "PHB"), ("g4-4", 2, "PHB"), ("g4-8", 2, "SYS"), ("g4-1", 1, None)],
    )
    def test_gpus_that_share_a_model_reach_each_other_directly(
        self, accelerator: str, parallel: int, level: str | None
    ) -> None:
        assert plan(accelerator, serving__tensorParallelSize=parallel).command.env.get("NCCL_P2P_LEVEL") == level

    def test_machines_of_several_types_get_the_level_that_holds_for_all(self) -> None:
        mixed = plan(machine__shapes=["g4-standard-96", "g4-standard-384"])
        assert mixed.command.env["NCCL_P2P_LEVEL"] == "SYS"

    @pytest.mark.parametrize(("parallel", "refused"), [(1, False), (2, False), (4, True), (8, True)])
    def test_vllms_own_all_reduce_is_left_on_between_two_gpus_and_no_more(self, parallel: int, refused: bool) -> None:
        argv = plan("g4-8", serving__tensorParallelSize=parallel).command.argv
        assert ("--disable-custom-all-reduce" in argv) is refused

    def test_the_weights_lie_in_memory_once_and_each_server_has_processes(self) -> None:
        one, four = plan("g4-8"), plan("g4-8", serving__tensorParallelSize=2)
        assert four.memory.host.mid - one.memory.host.mid == pytest.approx(3 * HOST_MEMORY.mid)
        assert one.memory.host.mid >= one.model.checkpoint_bytes

    @each_machine
    def test_every_model_fits_the_memory_disk_of_a_machine(self, machine: Any) -> None:
        largest = max(model.checkpoint_bytes for model in catalog().models.values())
        assert largest < MEMORY_DISK_SHARE * machine.host_memory_gib * GIB
        assert not [one for one in plan(machine.id).refusals if "/dev/shm" in one.fact]


class TestStarts:
    def test_a_faster_disk_unpacks_the_image_sooner(self) -> None:
        def image(throughput: int) -> float:
            stages = plan(machine__diskThroughput=throughput).startup.stages
            return next(stage.seconds.mid for stage in stages if "image" in stage.name)

        slow, fast = image(140), image(600)
        assert slow - fast == pytest.approx(UNPACKED_BYTES.mid / (1 << 20) * (1 / 140 - 1 / 600))

    def test_a_server_that_restarts_finds_machine_driver_image_and_weights(self) -> None:
        startup = plan().startup
        again = {stage.name for stage in startup.stages if stage.restarts}
        assert {stage.name for stage in startup.stages} - again == {
            "machine",
            "NVIDIA driver",
            "image pull and unpacking",
            "weights copied from the bucket into memory",
        }


class TestTermsAndPlaces:
    @each_machine
    def test_spot_and_flex_start_count_against_preemptible_quota(self, machine: Any) -> None:
        limits = limits_of(machine)
        for provisioning, quota in (
            ("on-demand", limits.quota_on_demand),
            ("spot", limits.quota),
            ("flex-start", limits.quota),
        ):
            own, everywhere = plan(machine.id, model="gemma-4-e4b-it", machine__provisioning=provisioning).quotas
            assert (own.quota.id, own.place, own.amount) == (quota, "us-central1", machine.devices)
            assert (everywhere.quota.id, everywhere.amount) == (limits.quota_all_regions, machine.devices)

    def test_quotas_count_the_largest_machine_that_may_be_granted(self) -> None:
        own, _ = plan(machine__shapes=["g4-standard-96", "g4-standard-384"]).quotas
        assert own.amount == 8

    def test_only_flex_start_ends_by_itself(self) -> None:
        ends = {
            terms: machines(machine__provisioning=terms).ends_after_s for terms in ("on-demand", "spot", "flex-start")
        }
        assert ends == {"on-demand": None, "spot": None, "flex-start": 86_400}

    @each_machine
    def test_every_zone_that_somebody_had_one_in_is_in_a_listed_region(self, machine: Any) -> None:
        listed = limits_of(machine).listed_regions
        assert {zone.rpartition("-")[0] for zone in machine.locations} <= set(listed)

    def test_several_zones_are_one_place_with_the_first_ones_region(self) -> None:
        one = plan(machine__zones=["europe-west4-a", "europe-west4-b"])
        assert (one.region, one.zone) == ("europe-west4", None)
        assert machines(machine__zones=["europe-west4-a", "europe-west4-b"]).zones == (
            "europe-west4-a",
            "europe-west4-b",
        )

    @pytest.mark.parametrize(
        ("written", "full"),
        [
            ("cos-125-19216-532-108", "projects/cos-cloud/global/images/cos-125-19216-532-108"),
            ("cos-125-lts", "projects/cos-cloud/global/images/family/cos-125-lts"),
            ("projects/mine/global/images/cos", "projects/mine/global/images/cos"),
        ],
    )
    def test_a_system_is_named_as_compute_engine_takes_it(self, written: str, full: str) -> None:
        assert machines(machine__image=written).image == full

    @pytest.mark.parametrize(("throughput", "iops"), [(140, 3000), (600, 3000), (2400, 9600)])
    def test_a_disk_has_the_operations_that_its_throughput_asks_for(self, throughput: int, iops: int) -> None:
        assert machines(machine__diskThroughput=throughput).disk.iops == iops


class TestRecommending:
    def test_servers_of_one_machine_come_together(self) -> None:
        four = plan("g4-8", serving__tensorParallelSize=2)
        assert four.deployment.together == 4
        assert four.deployment.settings_of(8, 16)["machine.names"] == ["blue", "green"]
        assert "machine.names" not in four.deployment.settings_of(4, 16)


def test_the_page_on_machines_has_the_prices_of_tokens_that_the_plans_have() -> None:
    rows = re.findall(r"^\| (\d+) \| (\S+ to \S+) \|[^|]*\| (\S+ to \S+) \| (\S+ to \S+) \|$", PAGE, re.MULTILINE)
    plans = {name: make_plan(name, read_stack(ROOT, name).settings) for name in ("g4x2", "g4x8")}
    assert [int(row[0]) for row in rows] == [one.requests for one in plans["g4x2"].cost.at_loads]
    for number, (requests, rate, on_demand, spot) in enumerate(rows):
        band = plans["g4x2"].speed_model.tokens_per_second_at(int(requests)).total
        assert rate == f"{band.low:,.0f} to {band.high:,.0f}"
        for said, name in ((on_demand, "g4x2"), (spot, "g4x8")):
            price = plans[name].cost.at_loads[number].usd_per_million
            assert said == f"{read_usd(price.low)} to {read_usd(price.high)}"


@each_machine
def test_the_page_on_machines_has_every_machine_region_and_quota(machine: Any) -> None:
    limits = limits_of(machine)
    for word in (machine.id, machine.machine_type, limits.quota, limits.quota_on_demand, limits.quota_all_regions):
        assert word in PAGE
    assert all(place in PAGE for place in (*machine.locations, *(MACHINES[0].compute_engine or limits).listed_regions))
