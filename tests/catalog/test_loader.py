"""The reader of the catalog: what it refuses, that it names every fault, and what it answers for unknown ids."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra.catalog import Catalog, Lock, catalog, write_lock
from infra.catalog.file_reader import DATA
from infra.errors import CatalogError


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A directory with the real data files, free to break."""
    for file in DATA.iterdir():
        if file.suffix in (".toml", ".json"):
            shutil.copy(file, tmp_path)
    return tmp_path


def edit(directory: Path, name: str, old: str, new: str) -> None:
    text = (directory / name).read_text("utf-8")
    assert old in text
    (directory / name).write_text(text.replace(old, new, 1), "utf-8")


def faults_of(directory: Path, section: str) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        getattr(Catalog(directory), section)
    return str(caught.value).splitlines()


class TestAFileIsRefusedAsAWhole:
    def test_all_faults_are_reported_together_with_file_and_place(self, copy: Path) -> None:
        edit(copy, "models.toml", "hidden_size = 1536", "hidden_sise = 1536")
        edit(copy, "models.toml", 'architecture = "31b"', 'architecture = "31c"')
        edit(copy, "models.toml", 'source = "qat-predicted"', 'source = "hearsay"')
        faults = "\n".join(faults_of(copy, "models"))
        assert "models.toml: architectures.e2b.hidden_size: Field required" in faults
        assert "models.toml: architectures.e2b.hidden_sise: Extra inputs are not permitted" in faults
        assert "models.gemma-4-31b-it.architecture: there is no '31c'; nearest: 31b" in faults
        assert "models.gemma-4-e4b-it-qat-w4a16.source" in faults
        assert "sources.qat-predicted: no row uses it" in faults

    def test_a_section_that_nobody_reads_is_a_fault(self, copy: Path) -> None:
        edit(copy, "images.toml", "[images.gpu]", "[extras.gpu]\nx = 1\n\n[images.gpu]")
        assert faults_of(copy, "images") == ["images.toml: extras: no such section"]

    def test_what_was_measured_names_models_that_exist(self, copy: Path) -> None:
        edit(copy, "measurements.toml", 'architecture = "26b-a4b"', 'architecture = "26b"')
        faults = faults_of(copy, "program_sizes")
        assert "programs.26b-a4b-drafting.architecture: there is no '26b'" in faults[0]

    def test_a_missing_section_is_a_fault(self, copy: Path) -> None:
        (copy / "prices.toml").write_text("", "utf-8")
        assert faults_of(copy, "prices") == ["prices.toml: prices: the section is missing"]

    def test_a_file_that_is_no_toml_is_one_line(self, copy: Path) -> None:
        (copy / "prices.toml").write_text("[[prices]\n", "utf-8")
        assert faults_of(copy, "prices")[0].startswith("prices.toml cannot be read:")
        (copy / "prices.toml").unlink()
        assert faults_of(copy, "prices")[0].startswith("prices.toml cannot be read:")

    def test_a_figure_without_a_source_is_a_fault(self, copy: Path) -> None:
        edit(copy, "prices.toml", 'unit = "gpu-hour"\nsource = "cloud-run-l4"', 'unit = "gpu-hour"')
        assert any("prices[1].source" in fault for fault in faults_of(copy, "prices"))

    def test_two_prices_of_one_thing_in_one_region_are_a_fault(self, copy: Path) -> None:
        edit(copy, "prices.toml", 'region = "europe-west4"', 'region = "us-east5"')
        assert any("v6e-on-demand in us-east5 has a price already" in fault for fault in faults_of(copy, "prices"))

    def test_a_recipe_for_an_unknown_machine_or_twice_for_one_is_a_fault(self, copy: Path) -> None:
        edit(copy, "recipes.toml", 'accelerator = "g4-2"', 'accelerator = "g5-2"')
        edit(copy, "recipes.toml", 'model = "gemma-4-12b-it-qat-w4a16"', 'model = "gemma-4-12b-it"')
        faults = faults_of(copy, "recipes")
        assert any("recipes.31b-on-g4-2.accelerator: there is no 'g5-2'" in fault for fault in faults)
        assert any("12b-on-l4 is for the same model, accelerator and profile" in fault for fault in faults)

    def test_only_the_file_that_is_asked_for_is_read(self, copy: Path) -> None:
        (copy / "recipes.toml").write_text("nonsense", "utf-8")
        assert Catalog(copy).models


class TestAnswers:
    def test_the_catalog_is_read_once(self) -> None:
        assert catalog() is catalog()
        assert catalog().models is catalog().models

    def test_rows_cannot_be_changed(self) -> None:
        with pytest.raises(ValueError, match="frozen"):
            catalog().model("gemma-4-31b-it").gated = False  # type: ignore[misc]

    def test_an_unknown_id_names_the_nearest(self) -> None:
        with pytest.raises(CatalogError, match=r"no model 'gemma-4-31b'; nearest: .*gemma-4-31b-it"):
            catalog().model("gemma-4-31b")
        with pytest.raises(CatalogError, match="no accelerator 'v6e-2'"):
            catalog().accelerator("v6e-2")

    def test_a_region_without_a_price_gets_the_stand_in_and_one_with_a_price_its_own(self) -> None:
        assert catalog().price("v6e-on-demand", "asia-northeast1").usd == 3.24
        stand_in = catalog().price("v6e-on-demand", "us-east1")
        assert (stand_in.region, stand_in.usd) == (None, 2.70)

    def test_an_unknown_sku_names_the_nearest(self) -> None:
        with pytest.raises(CatalogError, match=r"no price of 'cloud-run-l40' for us-east4; nearest: cloud-run-l4"):
            catalog().price("cloud-run-l40", "us-east4")

    def test_a_profile_has_its_own_recipe_or_none(self) -> None:
        pair = ("gemma-4-31b-it-qat-w4a16", "l4")
        base, latency = catalog().recipe(*pair), catalog().recipe(*pair, "latency")
        assert base is not None
        assert base.profile is None
        assert latency is not None
        assert latency.profile == "latency"
        assert catalog().recipe(*pair, "throughput") is None
        assert catalog().recipe("gemma-4-31b-it", "l4") is None


DIGEST = "sha256:" + "0a" * 32
REVISION = "0b" * 20


class TestTheLock:
    def test_what_was_written_is_read_back_sorted(self, copy: Path) -> None:
        pins = {"gemma-4-31b-it": REVISION, "gemma-4-12b-it-assistant": REVISION}
        write_lock(Lock(images={"tpu": DIGEST, "gpu": DIGEST}, models=pins), copy)
        assert Catalog(copy).lock.images == {"gpu": DIGEST, "tpu": DIGEST}
        assert list(Catalog(copy).lock.models) == ["gemma-4-12b-it-assistant", "gemma-4-31b-it"]

    def test_what_is_pinned_later_is_seen_by_a_catalog_that_was_read_before(self, copy: Path) -> None:
        """`gemma4 mcp` answers for days, while `gemma4 pin` runs beside it."""
        facts = Catalog(copy)
        write_lock(Lock(), copy)
        assert facts.lock == Lock()
        assert facts.lock is facts.lock, "it is read once while it stays as it is"
        write_lock(Lock(images={"gpu": DIGEST}), copy)
        assert facts.lock.images == {"gpu": DIGEST}

    def test_the_shipped_file_is_in_the_form_that_pinning_writes(self, copy: Path) -> None:
        before = (copy / "lock.json").read_text("utf-8")
        write_lock(Catalog(copy).lock, copy)
        assert (copy / "lock.json").read_text("utf-8") == before

    @pytest.mark.parametrize(
        "text",
        [
            '{"images": {"gpu": "v0.32.0"}, "models": {}}',
            '{"images": {}, "models": {"gemma-4-31b-it": "main"}}',
            '{"images": {"cpu": "' + DIGEST + '"}, "models": {}}',
            '{"images": {}, "models": {"gemma-5": "' + REVISION + '"}}',
            '{"pictures": {}}',
            "",
        ],
    )
    def test_a_pin_that_is_none_is_refused(self, copy: Path, text: str) -> None:
        (copy / "lock.json").write_text(text, "utf-8")
        assert faults_of(copy, "lock")[0].startswith("lock.json")
