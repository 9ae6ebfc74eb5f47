"""The start estimate against the starts that people published, and what it says about slow ones."""

from __future__ import annotations

from typing import Any

import pytest

from infra.catalog import GIB, catalog
from infra.planning.names import names_of
from infra.planning.performance.startup import (
    Stage,
    StartupEstimate,
    WeightPath,
    cached_engine_seconds,
    engine_stages,
    estimate_staging,
    read_rate,
    weight_path,
)
from infra.planning.platforms.registry import platform_of
from infra.planning.server.server import Server, server_of
from infra.planning.settings.declarations import Settings
from infra.planning.settings.resolve import resolve
from infra.planning.units import Band

NODE_S = 60 + 360
"""Machine and image pull of a TPU node, measured apart from the starts below."""


def server(model: str, accelerator: str, *, eager: bool = False, **settings: Any) -> tuple[Settings, Server]:
    """The settings of a stack, and its server on the platform of the machine."""
    serving = {"enforceEager": eager, **settings.pop("serving", {})}
    written = {"model": model, "accelerator": accelerator, "serving": serving, **settings}
    chosen, machine = resolve(written).settings, catalog().accelerator(accelerator)
    hosting = platform_of(machine).hosting(chosen, machine, names_of("test", None, None))
    known = {"vllm_version": "0.32.0", "image_version": "0.32.0"}
    return chosen, server_of(chosen, catalog().model(model), machine, None, hosting, **known)


def start(
    model: str, accelerator: str, path: WeightPath, *, gib: float | None = None, eager: bool = False
) -> StartupEstimate:
    settings, planned = server(model, accelerator, eager=eager)
    size = catalog().model(model).checkpoint_bytes if gib is None else int(gib * GIB)
    return platform_of(planned.accelerator).startup_by(path, settings, planned, size)


MEASURED = [
    ("gemma-4-31b-it", "rtx-pro-6000", WeightPath.STREAM, None, 271),
    ("gemma-4-26b-a4b-it", "rtx-pro-6000", WeightPath.STREAM, 17.5, 150),
    ("gemma-4-31b-it-qat-w4a16", "l4", WeightPath.MOUNT_MMAP, None, 400),
    ("gemma-4-e2b-it", "v6e-1", WeightPath.HUGGING_FACE, None, NODE_S + 490),
    ("gemma-4-e4b-it", "v6e-1", WeightPath.HUGGING_FACE, None, NODE_S + 524),
    ("gemma-4-12b-it", "v6e-1", WeightPath.HUGGING_FACE, None, NODE_S + 622),
]


ENGINES_ON_GPU = [
    ("gemma-4-e2b-it", 124.0),  # AWS L4, 0.28
    ("gemma-4-e2b-it-qat-w4a16", 127.2),  # AWS L4, a repack, 0.30
    ("gemma-4-31b-it", 108.2),  # H200, fp8, 0.19
    ("gemma-4-26b-a4b-it", 97.9),  # RTX 5090, NVFP4, 0.20.2
]
ENGINES_ON_TPU = [
    ("gemma-4-31b-it", "v6e-4", 427.9),
    ("gemma-4-e2b-it", "v6e-1", 814.0),  # on v5e-1
]


class TestMeasuredStarts:
    @pytest.mark.parametrize(("model", "accelerator", "path", "gib", "measured"), MEASURED)
    def test_lie_in_the_band(
        self, model: str, accelerator: str, path: WeightPath, gib: float | None, measured: float
    ) -> None:
        band = start(model, accelerator, path, gib=gib).from_zero
        assert band.low <= measured <= band.high
        assert band.mid == pytest.approx(measured, rel=0.35)

    @pytest.mark.parametrize(("model", "measured"), ENGINES_ON_GPU)
    def test_of_the_engine_on_a_gpu_do_not_grow_with_layers(self, model: str, measured: float) -> None:
        band = Band.total(stage.seconds for stage in engine_stages(server(model, "l4")[1]))
        assert band.low <= measured <= band.high
        assert band.mid == pytest.approx(measured, rel=0.17)

    @pytest.mark.parametrize(("model", "accelerator", "measured"), ENGINES_ON_TPU)
    def test_of_the_engine_on_tpu_lie_in_the_band(self, model: str, accelerator: str, measured: float) -> None:
        band = Band.total(stage.seconds for stage in engine_stages(server(model, accelerator)[1]))
        assert band.low <= measured <= band.high

    def test_the_copy_to_a_tpu_machine_takes_the_337_seconds_that_were_seen(self) -> None:
        assert read_rate(WeightPath.BUCKET_COPY).dividing(58.3 * GIB).mid == pytest.approx(337, rel=0.03)

    def test_the_streamer_takes_58_gib_in_73_seconds(self) -> None:
        assert read_rate(WeightPath.STREAM).dividing(58.28 * GIB).mid == pytest.approx(73, rel=0.01)

    def test_a_mapped_mount_may_take_the_25_minutes_that_were_seen(self) -> None:
        slow = read_rate(WeightPath.MOUNT_MMAP).dividing(2.2e6 * 1540)
        assert slow.high == pytest.approx(25 * 60 + 40, rel=0.01)
        assert slow.mid < 60


class TestPaths:
    @pytest.mark.parametrize(
        ("accelerator", "source", "access", "load_format", "strategy", "expected"),
        [
            ("l4", "bucket", "mount", "runai_streamer", None, WeightPath.MOUNT_STREAMER),
            ("l4", "bucket", "mount", "auto", "lazy", WeightPath.MOUNT_MMAP),
            ("l4", "existing", "mount", "auto", None, WeightPath.MOUNT_MMAP),
            ("l4", "bucket", "mount", "safetensors", "prefetch", WeightPath.MOUNT_SEQUENTIAL),
            ("l4", "bucket", "stream", "runai_streamer", None, WeightPath.STREAM),
            ("l4", "huggingface", "mount", "auto", None, WeightPath.HUGGING_FACE),
            ("v6e-4", "bucket", "mount", "auto", None, WeightPath.BUCKET_COPY),
            ("v6e-4", "huggingface", "mount", "auto", None, WeightPath.HUGGING_FACE),
            ("g4-1", "bucket", "mount", "auto", None, WeightPath.BUCKET_COPY),
        ],
    )
    def test_follow_from_the_settings_and_the_platform(
        self,
        accelerator: str,
        source: str,
        access: str,
        load_format: str,
        strategy: str | None,
        expected: WeightPath,
    ) -> None:
        weights = {"source": source, "access": access, "bucket": "my-bucket"}
        serving = {"loadFormat": load_format, "safetensorsLoadStrategy": strategy}
        settings, planned = server("gemma-4-12b-it", accelerator, weights=weights, serving=serving)
        assert weight_path(settings, planned) is expected

    def test_reading_a_mount_without_the_streamer_is_slower_and_says_what_to_write(self) -> None:
        streamed = start("gemma-4-31b-it-qat-w4a16", "l4", WeightPath.MOUNT_STREAMER)
        for path in (WeightPath.MOUNT_MMAP, WeightPath.MOUNT_SEQUENTIAL):
            slow = start("gemma-4-31b-it-qat-w4a16", "l4", path)
            assert slow.from_zero.mid > streamed.from_zero.mid + 180
            assert "serving.loadFormat: runai_streamer" in slow.remedies[0]
        assert not any("runai_streamer" in remedy for remedy in streamed.remedies)

    @pytest.mark.parametrize("path", WeightPath)
    def test_every_path_has_a_rate(self, path: WeightPath) -> None:
        assert read_rate(path).low > 0


class TestStages:
    def test_only_the_first_deployment_imports_the_image(self) -> None:
        estimate = start("gemma-4-12b-it-qat-w4a16", "l4", WeightPath.MOUNT_STREAMER)
        assert estimate.first_deploy.mid - estimate.from_zero.mid == pytest.approx(10e9 / 37e6)
        assert estimate.longest_import_s == pytest.approx(2 * 10e9 / 37e6)

    def test_a_restart_on_a_tpu_node_keeps_image_and_weights_but_not_the_compilation(self) -> None:
        estimate = start("gemma-4-26b-a4b-it", "v6e-4", WeightPath.BUCKET_COPY)
        assert estimate.restart.mid == 60 + 40 + 400
        assert estimate.from_zero.mid == pytest.approx(estimate.restart.mid + NODE_S + 48.067 / 0.17, rel=0.01)

    def test_a_restart_on_a_tpu_node_may_find_its_programs_compiled(self) -> None:
        estimate = start("gemma-4-26b-a4b-it", "v6e-4", WeightPath.BUCKET_COPY)
        stages = {stage.name: stage for stage in estimate.stages}
        cached = stages["XLA compilation"].cached
        assert cached is not None
        others = stages["container and load"].seconds.low + stages["engine profile"].seconds.low
        assert estimate.restart.low == pytest.approx(others + cached.low)
        assert estimate.from_zero.low > estimate.restart.high / 2

    def test_the_second_start_of_an_engine_on_a_gpu_took_14_seconds(self) -> None:
        planned = server("gemma-4-31b-it-qat-w4a16", "l4")[1]
        assert cached_engine_seconds(planned).mid == pytest.approx(14.3, rel=0.05)
        on_tpu = server("gemma-4-31b-it", "v6e-4")[1]
        assert cached_engine_seconds(on_tpu).high < 320, "less than any compilation"

    def test_a_restart_on_cloud_run_starts_over(self) -> None:
        estimate = start("gemma-4-31b-it", "rtx-pro-6000", WeightPath.STREAM)
        assert estimate.restart == estimate.from_zero

    def test_eager_mode_skips_compiling_on_gpu(self) -> None:
        graphs, eager = (
            start("gemma-4-31b-it", "rtx-pro-6000", WeightPath.STREAM, eager=flag) for flag in (False, True)
        )
        assert graphs.from_zero.mid - eager.from_zero.mid == pytest.approx(70)
        assert any("enforceEager" in remedy for remedy in graphs.remedies)
        assert eager.remedies == ()

    def test_errors_of_one_cause_add_up_and_those_of_others_do_not(self) -> None:
        slow = Band(8, 10, 14)
        together = (Stage("imports", slow, "host"), Stage("compile", slow, "host"))
        apart = (Stage("imports", slow, "host"), Stage("weights", slow, "storage"))
        one, two = (StartupEstimate(stages, WeightPath.STREAM, (), (), "a test") for stages in (together, apart))
        assert one.from_zero == one.extremes == Band(16, 20, 28)
        assert two.extremes == one.extremes
        assert two.from_zero.high == pytest.approx(20 + 4 * 2**0.5)
        assert two.from_zero.low == pytest.approx(20 - 2 * 2**0.5)

    def test_more_weights_never_start_sooner(self) -> None:
        for accelerator in ("l4", "v6e-4", "g4-2"):
            for path in WeightPath:
                small, large = (start("gemma-4-12b-it", accelerator, path, gib=gib).from_zero for gib in (1, 20))
                assert small.low < large.low
                assert small.mid < large.mid
                assert small.high < large.high

    def test_what_nobody_measured_says_so(self) -> None:
        estimate = start("gemma-4-31b-it", "g4-2", WeightPath.BUCKET_COPY)
        assert any("No start on this platform" in note for note in estimate.notes)

    def test_waiting_for_capacity_is_said_not_to_be_included(self) -> None:
        estimate = start("gemma-4-26b-a4b-it", "v6e-4", WeightPath.BUCKET_COPY)
        assert any("capacity" in note for note in estimate.notes)


class TestStaging:
    def test_a_checkpoint_of_58_gib_takes_about_ten_minutes_to_copy(self) -> None:
        staging = estimate_staging(catalog().model("gemma-4-31b-it").checkpoint_bytes)
        assert 300 < staging.low < 600 < staging.high < 1500
