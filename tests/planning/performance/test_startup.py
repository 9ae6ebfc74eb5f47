"""The start estimate against the starts that people published, and what it says about slow ones."""

from __future__ import annotations

import pytest

from infra.catalog import GIB, Platform, catalog
from infra.planning.performance.startup import (
    RATES,
    StartupEstimate,
    WeightPath,
    estimate_staging,
    estimate_startup,
    weight_path,
)

NODE_S = 60 + 360
"""Machine and image pull of a TPU node, measured apart from the starts below."""


def start(
    model: str, accelerator: str, path: WeightPath, *, gib: float | None = None, eager: bool = False
) -> StartupEstimate:
    return estimate_startup(
        catalog().architecture_of(model),
        catalog().accelerator(accelerator),
        weight_bytes=catalog().model(model).checkpoint_bytes if gib is None else int(gib * GIB),
        path=path,
        enforce_eager=eager,
        probe_period_s=10,
    )


MEASURED = [
    ("gemma-4-31b-it", "rtx-pro-6000", WeightPath.STREAM, None, 271),
    ("gemma-4-26b-a4b-it", "rtx-pro-6000", WeightPath.STREAM, 17.5, 150),
    ("gemma-4-31b-it-qat-w4a16", "l4", WeightPath.MOUNT_MMAP, None, 400),
    ("gemma-4-e2b-it", "v6e-1", WeightPath.HUGGING_FACE, None, NODE_S + 490),
    ("gemma-4-e4b-it", "v6e-1", WeightPath.HUGGING_FACE, None, NODE_S + 524),
    ("gemma-4-12b-it", "v6e-1", WeightPath.HUGGING_FACE, None, NODE_S + 622),
]


class TestMeasuredStarts:
    @pytest.mark.parametrize(("model", "accelerator", "path", "gib", "measured"), MEASURED)
    def test_are_reproduced_within_ten_percent(
        self, model: str, accelerator: str, path: WeightPath, gib: float | None, measured: float
    ) -> None:
        assert start(model, accelerator, path, gib=gib).from_zero.mid == pytest.approx(measured, rel=0.10)

    def test_the_31b_on_v6e_8_compiles_for_400_seconds(self) -> None:
        stages = {
            stage.name: stage.seconds.mid for stage in start("gemma-4-31b-it", "v6e-8", WeightPath.BUCKET_COPY).stages
        }
        assert stages["XLA compilation"] == 400

    def test_the_streamer_takes_58_gib_in_73_seconds(self) -> None:
        assert RATES[WeightPath.STREAM].dividing(58.28 * GIB).mid == pytest.approx(73, rel=0.01)

    def test_a_mapped_mount_may_take_the_25_minutes_that_were_seen(self) -> None:
        slow = RATES[WeightPath.MOUNT_MMAP].dividing(2.2e6 * 1540)
        assert slow.high == pytest.approx(25 * 60 + 40)
        assert slow.mid < 60


class TestPaths:
    @pytest.mark.parametrize(
        ("platform", "source", "access", "load_format", "strategy", "expected"),
        [
            (Platform.CLOUD_RUN, "bucket", "mount", "runai_streamer", None, WeightPath.MOUNT_STREAMER),
            (Platform.CLOUD_RUN, "bucket", "mount", "auto", "lazy", WeightPath.MOUNT_MMAP),
            (Platform.CLOUD_RUN, "existing", "mount", "auto", None, WeightPath.MOUNT_MMAP),
            (Platform.CLOUD_RUN, "bucket", "mount", "safetensors", "prefetch", WeightPath.MOUNT_SEQUENTIAL),
            (Platform.CLOUD_RUN, "bucket", "stream", "runai_streamer", None, WeightPath.STREAM),
            (Platform.CLOUD_RUN, "huggingface", "mount", "auto", None, WeightPath.HUGGING_FACE),
            (Platform.TPU_QUEUED_RESOURCE, "bucket", "mount", "auto", None, WeightPath.BUCKET_COPY),
            (Platform.TPU_QUEUED_RESOURCE, "huggingface", "mount", "auto", None, WeightPath.HUGGING_FACE),
            (Platform.COMPUTE_ENGINE, "bucket", "mount", "auto", None, WeightPath.BUCKET_COPY),
        ],
    )
    def test_follow_from_the_settings(
        self, platform: Platform, source: str, access: str, load_format: str, strategy: str | None, expected: WeightPath
    ) -> None:
        found = weight_path(
            platform, source=source, access=access, load_format=load_format, safetensors_load_strategy=strategy
        )
        assert found is expected

    def test_reading_a_mount_without_the_streamer_is_slower_and_says_what_to_write(self) -> None:
        streamed = start("gemma-4-31b-it-qat-w4a16", "l4", WeightPath.MOUNT_STREAMER)
        for path in (WeightPath.MOUNT_MMAP, WeightPath.MOUNT_SEQUENTIAL):
            slow = start("gemma-4-31b-it-qat-w4a16", "l4", path)
            assert slow.from_zero.mid > streamed.from_zero.mid + 180
            assert "serving.loadFormat: runai_streamer" in slow.remedies[0]
        assert not any("runai_streamer" in remedy for remedy in streamed.remedies)

    def test_every_path_has_a_rate(self) -> None:
        assert set(RATES) == set(WeightPath)


class TestStages:
    def test_only_the_first_deployment_imports_the_image(self) -> None:
        estimate = start("gemma-4-12b-it-qat-w4a16", "l4", WeightPath.MOUNT_STREAMER)
        assert estimate.first_deploy.mid - estimate.from_zero.mid == pytest.approx(10e9 / 37e6)

    def test_a_restart_on_a_tpu_node_keeps_image_and_weights_but_not_the_compilation(self) -> None:
        estimate = start("gemma-4-26b-a4b-it", "v6e-4", WeightPath.BUCKET_COPY)
        assert estimate.restart.mid == 60 + 400
        assert estimate.from_zero.mid == pytest.approx(estimate.restart.mid + NODE_S + 48.067 / 0.40, rel=0.01)

    def test_a_restart_on_cloud_run_starts_over(self) -> None:
        estimate = start("gemma-4-31b-it", "rtx-pro-6000", WeightPath.STREAM)
        assert estimate.restart == estimate.from_zero

    def test_eager_mode_skips_compiling_on_gpu(self) -> None:
        graphs, eager = (
            start("gemma-4-31b-it", "rtx-pro-6000", WeightPath.STREAM, eager=flag) for flag in (False, True)
        )
        assert graphs.from_zero.mid - eager.from_zero.mid == pytest.approx(1.6 * 60)
        assert any("enforceEager" in remedy for remedy in graphs.remedies)
        assert eager.remedies == ()

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
