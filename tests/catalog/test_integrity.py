"""The data of the catalog, apart from the code that reads it: arithmetic that must close, rules every row must keep.

Published figures are restated here with their source, so that a slip in a data file cannot agree with itself.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator

import pytest

from infra.catalog import (
    GIB,
    Accelerator,
    Device,
    Image,
    Price,
    PriceUnit,
    Quota,
    Recipe,
    Source,
    catalog,
)
from infra.catalog.flags import TABLES, flag_table
from infra.image_names import parse_image_name
from infra.planning.platforms.registry import platform_of
from infra.planning.platforms.tpu.slices import regional
from infra.planning.settings.resolve import resolve

CATALOG = catalog()
ACCELERATORS = list(CATALOG.accelerators.values())


def named(row: Accelerator | Recipe | Price) -> str:
    return f"{row.sku}@{row.region}" if isinstance(row, Price) else row.id


def sources() -> Iterator[tuple[str, Source]]:
    for rows in (CATALOG.architectures, CATALOG.assistants, CATALOG.models, CATALOG.accelerators, CATALOG.images):
        yield from ((row.id, row.source) for row in rows.values())
    for more in (CATALOG.weight_formats, CATALOG.slow_memory, CATALOG.program_sizes):
        yield from ((row.id, row.source) for row in more.values())
    yield from ((fault.id, fault.source) for fault in CATALOG.open_faults.values())
    yield from ((quota.id, quota.source) for quota in CATALOG.quotas.values())
    yield from ((named(price), price.source) for price in CATALOG.prices)
    yield from ((recipe.id, recipe.source) for recipe in CATALOG.recipes)
    yield from ((f"vllm_flags-{version}.json", flag_table(version).source) for version in TABLES)


class TestEveryFigureHasAnOrigin:
    @pytest.mark.parametrize(("row", "source"), list(sources()))
    def test_the_source_says_where_and_when(self, row: str, source: Source) -> None:
        assert len(source.where) > 20, row
        assert dt.date(2025, 1, 1) < source.read <= dt.date.today(), row

    def test_what_was_timed_on_a_machine_was_timed_by_somebody(self) -> None:
        """A recipe whose speed somebody has is a run on that machine, so its band is that of measured devices."""
        for recipe in CATALOG.recipes:
            if recipe.speed_measured_at:
                assert "decode" in CATALOG.accelerator(recipe.accelerator).measured, recipe.id

    def test_no_row_of_the_catalog_has_a_figure_known_to_be_wrong(self) -> None:
        # KV capacities copied from exact doubles, a price outlier, and peaks of grids that asked for one token
        text = str([*CATALOG.recipes, *CATALOG.prices, *ACCELERATORS, *CATALOG.models.values()])
        for figure in ("789,760", "789760", "1,579,520", "1579520", "0.000233", "467,825", "232 req", "24.9 GiB"):
            assert figure not in text


class TestAccelerators:
    @pytest.mark.parametrize("accelerator", ACCELERATORS, ids=named)
    def test_a_device_reports_less_memory_than_its_label(self, accelerator: Accelerator) -> None:
        reported_gb = accelerator.device_memory_gib * GIB / 1e9
        # 96 GB cards and 32 GB chips are sold in binary gigabytes
        assert 0.9 * accelerator.nominal_memory_gb < reported_gb < 1.0738 * accelerator.nominal_memory_gb
        assert 100e9 < accelerator.bandwidth < 10e12
        assert 1e14 < accelerator.flops < 5e15

    @pytest.mark.parametrize("accelerator", ACCELERATORS, ids=named)
    def test_the_platform_fixes_what_else_is_said(self, accelerator: Accelerator) -> None:
        on_run, on_tpu = accelerator.cloud_run is not None, accelerator.tpu is not None
        assert on_run == (accelerator.platform == "cloud-run")
        assert on_tpu == (accelerator.platform == "tpu")
        assert on_tpu == (accelerator.device is Device.TPU)
        assert accelerator.deployable == bool(platform_of(accelerator).components)
        dashes = 1 if on_run else 2
        for location in (*accelerator.locations, *accelerator.invited_locations):
            assert location.count("-") == dashes, "Cloud Run has regions, the others zones"
        assert not set(accelerator.locations) & set(accelerator.invited_locations)

    @pytest.mark.parametrize("accelerator", [row for row in ACCELERATORS if row.cloud_run], ids=named)
    def test_cloud_run_defaults_are_within_its_bounds(self, accelerator: Accelerator) -> None:
        limits = accelerator.cloud_run
        assert limits is not None
        assert limits.cpu.min <= limits.default_cpu <= limits.cpu.max
        assert limits.memory_gib.min <= limits.default_memory_gib <= limits.memory_gib.max
        assert all(limits.cpu.min <= cpu <= limits.cpu.max for cpu in limits.cpu_values)
        assert "NoZonalRedundancy" in limits.quota
        assert "NoZonalRedundancy" not in limits.quota_zonal_redundancy

    @pytest.mark.parametrize("accelerator", [row for row in ACCELERATORS if row.tpu], ids=named)
    def test_a_tpu_slice_is_named_after_its_chips(self, accelerator: Accelerator) -> None:
        tpu = accelerator.tpu
        assert tpu is not None
        assert accelerator.id == tpu.accelerator_type == f"v6e-{accelerator.devices}"
        assert accelerator.machine_type == f"ct6e-standard-{accelerator.devices}t"
        assert set(tpu.flex_start_zones) <= set(accelerator.locations)
        assert accelerator.locations[0] in tpu.flex_start_zones
        assert set(tpu.flex_start_refused_zones) <= set(accelerator.locations) - set(tpu.flex_start_zones)

    def test_all_shapes_of_one_generation_are_in_the_same_zones(self) -> None:
        shapes = [row for row in ACCELERATORS if row.tpu]
        assert len({row.locations for row in shapes}) == 1
        assert len(shapes[0].locations) == 18, "as the TPU API listed them"
        assert len({(row.tpu.flex_start_zones, row.tpu.flex_start_refused_zones) for row in shapes if row.tpu}) == 1

    def test_defaults_are_where_the_published_deployments_ran(self) -> None:
        assert CATALOG.accelerator("l4").locations[0] == "us-east4"
        assert CATALOG.accelerator("v6e-4").locations[0] == "us-east5-a"


# dollars: anything outside is a slip of the decimal point or of the unit; what a device costs is judged by its bandwidth
SANE_USD = {
    PriceUnit.GPU_HOUR: (0.1, 50),
    PriceUnit.CHIP_HOUR: (0.1, 50),
    PriceUnit.MACHINE_HOUR: (0.5, 500),
    PriceUnit.VCPU_HOUR: (0.001, 0.1),
    PriceUnit.GIB_HOUR: (0.0005, 0.02),
    PriceUnit.GB_MONTH: (0.01, 0.2),
    PriceUnit.MIBPS_MONTH: (0.01, 0.2),
    PriceUnit.IOPS_MONTH: (0.001, 0.02),
    PriceUnit.VERSION_MONTH: (0.01, 0.2),
}


class TestPrices:
    @pytest.mark.parametrize("price", CATALOG.prices, ids=named)
    def test_the_amount_is_of_the_right_size_for_its_unit(self, price: Price) -> None:
        low, high = SANE_USD[price.unit]
        assert low <= price.usd <= high

    @pytest.mark.parametrize("price", CATALOG.prices, ids=named)
    def test_a_sku_is_sold_in_one_unit_and_has_a_stand_in(self, price: Price) -> None:
        assert {row.unit for row in CATALOG.prices if row.sku == price.sku} == {price.unit}
        assert CATALOG.price(price.sku, "somewhere-new1").region is None

    @pytest.mark.parametrize("accelerator", ACCELERATORS, ids=named)
    def test_everything_that_can_be_rented_has_a_price_under_its_name(self, accelerator: Accelerator) -> None:
        if accelerator.cloud_run:
            plain = CATALOG.price(f"cloud-run-{accelerator.id}").usd
            assert plain < CATALOG.price(f"cloud-run-{accelerator.id}-zonal-redundancy").usd
        elif accelerator.tpu:
            prices = {kind: CATALOG.price(f"v6e-{kind}").usd for kind in ("on-demand", "flex-start", "spot")}
            assert prices["flex-start"] < prices["spot"] < prices["on-demand"]
        else:
            family = str(accelerator.machine_type).partition("-")[0]
            regions = {price.region for price in CATALOG.prices if price.sku == f"{family}-on-demand"}
            for region in regions:
                prices = {
                    kind: CATALOG.price(f"{family}-{kind}", region).usd for kind in ("on-demand", "flex-start", "spot")
                }
                assert max(prices["spot"], prices["flex-start"]) < prices["on-demand"]

    @pytest.mark.parametrize("accelerator", ACCELERATORS, ids=named)
    def test_a_device_costs_what_its_bandwidth_lets_expect(self, accelerator: Accelerator) -> None:
        """All devices on file cost 0.8 to 2.9 dollars an hour for each TB/s: a slip of the decimal point is outside."""
        family = str(accelerator.machine_type).partition("-")[0]
        skus = {f"{family}-on-demand": 1, f"{family}-flex-start": 1}
        if accelerator.cloud_run:
            skus = {f"cloud-run-{accelerator.id}": 1}
        elif accelerator.tpu:
            skus = {"v6e-on-demand": 1, "v6e-flex-start": 1}
        for sku, devices in skus.items():
            if any(price.sku == sku for price in CATALOG.prices):
                assert 0.4 < CATALOG.price(sku).usd / devices / (accelerator.bandwidth / 1e12) < 5, sku

    def test_published_totals_come_out(self) -> None:
        def hour(gpu: str, cpu: int, memory: int) -> float:
            return (
                CATALOG.price(gpu).usd
                + cpu * CATALOG.price("cloud-run-vcpu").usd
                + memory * CATALOG.price("cloud-run-memory").usd
            )

        # as published 2026-08 and 2026-10 for instance-based billing; request-based rates would give $3.76
        assert hour("cloud-run-rtx-pro-6000", 20, 80) == pytest.approx(3.187, abs=0.001)
        assert hour("cloud-run-rtx-pro-6000-zonal-redundancy", 20, 80) == pytest.approx(3.921, abs=0.001)
        assert hour("cloud-run-l4", 8, 32) == pytest.approx(1.421, abs=0.001)
        assert hour("cloud-run-l4", 4, 16) == pytest.approx(1.047, abs=0.001)
        assert 4 * CATALOG.price("v6e-flex-start", "us-east5").usd == pytest.approx(5.40)
        assert 8 * CATALOG.price("v6e-on-demand", "us-east5").usd == pytest.approx(21.60)


class TestQuotas:
    @pytest.mark.parametrize("quota", CATALOG.quotas.values(), ids=lambda row: row.id)
    def test_the_name_says_what_is_counted_and_where(self, quota: Quota) -> None:
        if quota.service == "compute.googleapis.com":
            assert re.fullmatch(r"[A-Z0-9-]*GPU[A-Z-]*-per-project(-region)?", quota.id)
            assert quota.unit == "GPU"
            return
        pattern, service = {
            "GPU": (r"Nvidia\w+GpuAlloc(NoZonalRedundancy)?PerProjectRegion", "run.googleapis.com"),
            "GiB": (r"MemAllocPerProjectRegion", "run.googleapis.com"),
            "vCPU": (r"CpuAllocPerProjectRegion", "run.googleapis.com"),
            "chips": (r"TPUV6E(Preemptible)?PerProjectPer(Zone|Region)ForTPUAPI", "tpu.googleapis.com"),
        }[quota.unit]
        assert re.fullmatch(pattern, quota.id)
        assert quota.service == service
        assert quota.default is None or quota.default > 0

    def test_the_published_refusals_come_out(self) -> None:
        # "requested: 85899345920 allowed: 42949672960" for 80 GiB, "requested: 60000 allowed: 20000" for 60 vCPU
        memory, cpu = CATALOG.quotas["MemAllocPerProjectRegion"], CATALOG.quotas["CpuAllocPerProjectRegion"]
        assert (80 * memory.per_unit, (memory.default or 0) * memory.per_unit) == (85_899_345_920, 42_949_672_960)
        assert (60 * cpu.per_unit, (cpu.default or 0) * cpu.per_unit) == (60_000, 20_000)

    def test_every_quota_of_an_accelerator_is_on_file_with_its_twin_by_region(self) -> None:
        for accelerator in ACCELERATORS:
            if accelerator.tpu:
                for name in (accelerator.tpu.quota, accelerator.tpu.quota_on_demand):
                    assert {name, regional(name)} <= set(CATALOG.quotas)
                    assert name != regional(name)


class TestImages:
    def test_there_is_one_for_every_role(self) -> None:
        assert set(CATALOG.images) == {"gpu", "tpu", "staging", "gateway"}

    @pytest.mark.parametrize("image", CATALOG.images.values(), ids=lambda row: row.id)
    def test_it_is_pulled_from_docker_hub_or_from_google(self, image: Image) -> None:
        name = parse_image_name(f"{image.repository}:{image.tag}")
        assert name.tag == image.tag
        assert name.on_docker_hub or name.on_google
        assert image.tag not in ("latest", "nightly")

    def test_the_flag_table_is_that_of_the_serving_images(self) -> None:
        for image in (CATALOG.images["gpu"], CATALOG.images["tpu"]):
            assert image.vllm_version == flag_table().version
            assert image.tag == f"v{image.vllm_version}"


def stack_of(recipe: Recipe) -> dict[str, str]:
    return {"model": recipe.model, "accelerator": recipe.accelerator, "profile": recipe.profile or "balanced"}


class TestRecipes:
    @pytest.mark.parametrize("recipe", CATALOG.recipes, ids=named)
    def test_every_setting_exists_and_takes_the_value(self, recipe: Recipe) -> None:
        resolved = resolve(stack_of(recipe))
        assert recipe in resolved.recipes
        assert set(recipe.settings) <= set(resolved.origins)

    @pytest.mark.parametrize("recipe", CATALOG.recipes, ids=named)
    def test_every_further_flag_is_one_of_vllm(self, recipe: Recipe) -> None:
        flags = {
            path.removeprefix("vllmArgs."): value for path, value in recipe.settings.items() if "vllmArgs." in path
        }
        assert [problem for flag, value in flags.items() for problem in flag_table().check(flag, value)] == []

    @pytest.mark.parametrize("recipe", CATALOG.recipes, ids=named)
    def test_the_machine_and_the_model_can_do_what_is_asked(self, recipe: Recipe) -> None:
        accelerator, architecture = CATALOG.accelerator(recipe.accelerator), CATALOG.architecture_of(recipe.model)
        settings = resolve(stack_of(recipe)).settings
        assert settings.serving.max_model_len <= architecture.max_position
        assert settings.serving.tensor_parallel_size in (None, accelerator.devices)
        assert settings.serving.modalities.audio == 0 or accelerator.device is Device.GPU
        if accelerator.cloud_run is not None:
            assert accelerator.cloud_run.cpu.min <= (settings.scaling.cpu or 0) <= accelerator.cloud_run.cpu.max
            memory = accelerator.cloud_run.memory_gib
            assert memory.min <= (settings.scaling.memory_gib or 0) <= memory.max
            assert settings.serving.cpu_offload_gb < (settings.scaling.memory_gib or math.inf)
        if accelerator.device is Device.TPU:
            assert Device.TPU in CATALOG.weight_formats[CATALOG.model(recipe.model).weight_format].devices
            assert settings.serving.quantization == "none"
            assert not settings.serving.chunked_multimodal_input

    @pytest.mark.parametrize("recipe", [row for row in CATALOG.recipes if row.profile], ids=named)
    def test_a_profile_lies_over_a_base_and_changes_it(self, recipe: Recipe) -> None:
        base = CATALOG.recipe(recipe.model, recipe.accelerator)
        assert base is not None
        assert all(base.settings.get(path) != value for path, value in recipe.settings.items())

    @pytest.mark.parametrize("recipe", CATALOG.recipes, ids=named)
    def test_who_measured_says_when(self, recipe: Recipe) -> None:
        assert recipe.measured_by is None or "202" in recipe.measured_by
        assert recipe.measured_by is None or recipe.source.confidence != "inferred"

    def test_every_published_pair_has_one(self) -> None:
        pairs = {(recipe.model, recipe.accelerator) for recipe in CATALOG.recipes}
        assert pairs >= {
            ("gemma-4-12b-it-qat-w4a16", "l4"),
            ("gemma-4-31b-it-qat-w4a16", "l4"),
            ("gemma-4-e4b-it", "l4"),
            ("gemma-4-12b-it", "l4"),
            ("gemma-4-31b-it", "rtx-pro-6000"),
            ("gemma-4-26b-a4b-it", "rtx-pro-6000"),
            ("gemma-4-26b-a4b-it", "v6e-4"),
            ("gemma-4-31b-it", "v6e-4"),
            ("gemma-4-31b-it", "v6e-8"),
            ("gemma-4-e4b-it", "v6e-1"),
            ("gemma-4-e2b-it", "v6e-1"),
            ("gemma-4-e2b-it", "v6e-4"),
            ("gemma-4-12b-it", "v6e-1"),
            ("gemma-4-12b-it", "v6e-4"),
            ("gemma-4-31b-it", "g4-2"),
        }
