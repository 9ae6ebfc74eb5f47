"""Cost: published totals reproduced from the price rows, and where each line comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.catalog import Accelerator, catalog
from infra.errors import CatalogError
from infra.planning.cost.estimate import CostEstimate, Kept, Rental, StagingJob, estimate_cost
from infra.planning.gateway.service_limits import HttpProbe
from infra.planning.performance.speed import Rate
from infra.planning.platforms.cloud_run.instances import InstancesPlan
from infra.planning.platforms.compute_engine.machines import MachinesPlan, plan_machines
from infra.planning.platforms.tpu.slices import SlicesPlan, plan_slices
from infra.planning.settings.declarations import Provisioning
from infra.planning.settings.resolve import resolve
from infra.planning.units import Band


def rate(requests: int, total: float, fresh: float | None = None) -> Rate:
    band = Band.around(total, 0.2)
    new = Band.around(total if fresh is None else fresh, 0.2)
    return Rate(requests, band, band.times(1 / requests), 0.03, "bandwidth", new)


def price(rental: Rental, *, kept: Kept | None = None, planned: Rate | None = None) -> CostEstimate:
    return estimate_cost(
        catalog(), rental, kept=kept or Kept("us-central1"), alone=rate(1, 38.6), planned=planned or rate(16, 300)
    )


def device(name: str) -> Accelerator:
    return catalog().accelerator(name)


def rtx(*, zonal_redundancy: bool = False, min_instances: int = 0, max_instances: int = 1) -> InstancesPlan:
    return InstancesPlan(
        device("rtx-pro-6000"),
        "us-central1",
        cpu=20,
        memory_gib=80,
        min_instances=min_instances,
        max_instances=max_instances,
        zonal_redundancy=zonal_redundancy,
        concurrency=32,
        request_timeout_s=3600,
        probe=HttpProbe(0, 10, 5, 180),
    )


def l4(cpu: int = 8, memory_gib: int = 32, min_instances: int = 0) -> InstancesPlan:
    return replace(
        rtx(min_instances=min_instances), accelerator=device("l4"), region="us-east4", cpu=cpu, memory_gib=memory_gib
    )


def slices(
    accelerator: str = "v6e-4", provisioning: Provisioning = "flex-start", count: int = 1, zone: str = "us-east5-a"
) -> SlicesPlan:
    names = ["blue", "green", "red"][:count]
    tpu = {"slices": names, "zone": zone, "provisioning": provisioning, "maxRunDuration": "7d"}
    chosen = resolve({"model": "gemma-4-31b-it", "accelerator": accelerator, "tpu": tpu}).settings
    return plan_slices(chosen, device(accelerator), gateway_region="us-east5")


def machines(accelerator: str, **machine: object) -> MachinesPlan:
    chosen = resolve({"model": "gemma-4-31b-it", "accelerator": accelerator, "machine": machine}).settings
    return plan_machines(chosen, device(accelerator), gateway_region="us-central1")


DISK = (200 * 0.09 + (600 - 140) * 0.045) / 730
"""An hour of a machine's disk as the settings have it."""


class TestRunning:
    @pytest.mark.parametrize(
        ("rental", "usd_per_hour"),
        [
            (rtx(), 3.187),
            (rtx(zonal_redundancy=True), 3.921),
            (l4(), 1.421),
            (l4(4, 16), 1.047),
            (slices(), 5.40),
            (slices("v6e-8"), 10.80),
            (slices(provisioning="on-demand"), 10.80),
            (slices("v6e-1", "on-demand", zone="europe-west4-a"), 2.97),
            (machines("g4-1"), 4.4999 + DISK),
            (machines("g4-2"), 8.9998 + DISK),
            (machines("g4-8"), 35.9992 + DISK),
            (machines("g4-8", provisioning="spot"), 13.1952 + DISK),
            (machines("g4-2", provisioning="spot", zones=["us-west1-c"]), 3.1674 + DISK),
            (machines("g4-2", provisioning="spot", zones=["europe-west4-a"]), 3.9062 + DISK),
            (machines("g4-2", provisioning="flex-start"), 4.50 + DISK),
        ],
    )
    def test_published_hourly_prices_come_out(self, rental: Rental, usd_per_hour: float) -> None:
        assert price(rental).usd_per_hour == pytest.approx(usd_per_hour, abs=0.0006)

    def test_a_week_of_flex_start(self) -> None:
        estimate = price(slices())
        assert estimate.usd_per_run == pytest.approx(907.20)

    def test_two_slices_cost_twice_for_their_whole_duration(self) -> None:
        estimate = price(slices(count=2))
        assert estimate.usd_per_run == pytest.approx(2 * 907.20)
        assert estimate.usd_per_hour_at_most == pytest.approx(10.80)

    def test_only_flex_start_ends_by_itself(self) -> None:
        assert price(slices(provisioning="on-demand")).usd_per_run is None
        assert price(l4()).usd_per_run is None

    def test_max_instances_bound_the_hour(self) -> None:
        assert price(rtx(max_instances=3)).usd_per_hour_at_most == pytest.approx(3 * 3.187, abs=0.002)


class TestIdle:
    def test_a_month_of_nothing_is_storage_beyond_the_free_allowances(self) -> None:
        kept = Kept("us-east4", bucket_bytes=10_264_000_000, image_bytes=10e9, secret_versions=1)
        lines = {line.label: line.usd for line in price(l4(), kept=kept).idle_month}
        assert lines == pytest.approx({"bucket": 0.20528, "image repository": 0.95, "secrets": 0.0})

    def test_the_seventh_secret_version_costs_six_cents(self) -> None:
        assert price(l4(), kept=Kept("us-east4", secret_versions=7)).usd_per_month_idle == pytest.approx(0.06)

    @pytest.mark.parametrize(
        ("rental", "usd"), [(l4(4, 16, 1), 764), (l4(8, 32, 1), 1037), (rtx(min_instances=1), 2326)]
    )
    def test_a_kept_instance_costs_its_730_hours(self, rental: Rental, usd: float) -> None:
        assert price(rental).usd_per_month_idle == pytest.approx(usd, abs=1)

    def test_a_tpu_stack_keeps_its_gateway_for_a_few_dollars(self) -> None:
        assert price(slices()).usd_per_month_idle == pytest.approx(9.86, abs=0.01)

    def test_nothing_kept_costs_nothing(self) -> None:
        assert price(l4()).usd_per_month_idle == 0


class TestTokens:
    def test_the_published_cost_per_million_tokens_comes_out(self) -> None:
        estimate = price(rtx(), planned=rate(16, 300))
        assert estimate.usd_per_million_planned.mid == pytest.approx(2.96, rel=0.005)
        assert estimate.planned_requests == 16

    def test_a_faster_rate_is_the_cheaper_end(self) -> None:
        cost = price(rtx(), planned=rate(16, 300)).usd_per_million_planned
        assert cost.low == pytest.approx(cost.mid / 1.2)
        assert cost.high == pytest.approx(cost.mid / 0.8)

    def test_uncached_prompts_cost_extra(self) -> None:
        estimate = price(rtx(), planned=rate(16, 300, fresh=150))
        assert estimate.usd_per_million_new_prompts.mid == pytest.approx(2 * estimate.usd_per_million_planned.mid)

    def test_instances_do_not_change_the_price_of_a_token(self) -> None:
        assert price(rtx(max_instances=3)).usd_per_million_alone == price(rtx()).usd_per_million_alone


class TestOrigin:
    @pytest.mark.parametrize("rental", [rtx(), l4(min_instances=1), slices(), machines("g4-4")])
    def test_every_line_carries_its_price_with_source_and_date(self, rental: Rental) -> None:
        kept = Kept("us-central1", 10**9, 10**10, 1)
        estimate = estimate_cost(
            catalog(),
            rental,
            kept=kept,
            alone=rate(1, 30),
            planned=rate(8, 200),
            staging=StagingJob("us-central1", Band(500, 600, 900), 2, 1),
        )
        lines = (*estimate.replica_hour, *estimate.idle_month, *estimate.staging)
        assert {"bucket", "staging vCPU"} <= {line.label for line in lines}
        for line in lines:
            assert line.price.source.where
            assert line.price.source.read
            assert line.usd == pytest.approx(max(0.0, line.quantity - line.price.free_allowance) * line.price.usd)

    def test_a_region_without_its_own_price_is_named_once_with_what_is_borrowed(self) -> None:
        note, *_ = price(l4(), kept=Kept("us-east4", bucket_bytes=1)).notes
        assert note == "Tier-1 prices stand in, none on file for us-east4: GPU, vCPU, memory, bucket."

    def test_two_regions_are_named_each_with_what_is_borrowed_for_it(self) -> None:
        rental = replace(slices(zone="asia-northeast1-b"), gateway_region="us-east4")
        note, *_ = price(rental).notes
        assert "asia-northeast1: chips, flex-start; us-east4: gateway vCPU, gateway memory." in note

    def test_a_region_with_its_own_price_borrows_nothing(self) -> None:
        estimate = price(slices())
        assert estimate.replica_hour[0].price.region == "us-east5"
        assert not any("chips" in note for note in estimate.notes)

    def test_spot_that_is_dearer_than_flex_start_is_pointed_out(self) -> None:
        assert any("dearer" in note for note in price(slices(provisioning="spot")).notes)
        assert not any("dearer" in note for note in price(slices()).notes)

    def test_what_has_no_price_at_all_is_an_error_of_the_catalog(self) -> None:
        unknown = replace(machines("g4-1"), family="g9")
        with pytest.raises(CatalogError, match="g9-on-demand"):
            price(unknown)

    def test_staging_31b_costs_about_a_cent(self) -> None:
        estimate = estimate_cost(
            catalog(),
            rtx(),
            kept=Kept("us-central1"),
            alone=rate(1, 1),
            planned=rate(1, 1),
            staging=StagingJob("us-central1", Band(500, 600, 900), 2, 1),
        )
        assert estimate.usd_staging == pytest.approx(0.0228)
