"""The catalog of failures: what a row must say, and that what it tells a user to write exists."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from infra.catalog import Catalog, catalog
from infra.catalog.failures import KnownFailure
from infra.catalog.file_reader import DATA
from infra.errors import CatalogError
from infra.planning.settings.paths import known_paths

FAILURES = list(catalog().failures.values())
SETTINGS = {path for path, _ in known_paths()}
GROUPS = {path.split(".")[0] for path in SETTINGS if "." in path}


def faults(tmp_path: Path, old: str, new: str) -> str:
    """Return what the catalog says of a copy of failures.toml in which `old` is replaced."""
    shutil.copy(DATA / "failures.toml", tmp_path)
    file = tmp_path / "failures.toml"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(CatalogError) as caught:
        _ = Catalog(tmp_path).failures
    return str(caught.value)


def ident(failure: KnownFailure) -> str:
    return failure.id


class TestEveryRow:
    @pytest.mark.parametrize("failure", FAILURES, ids=ident)
    def test_names_only_settings_that_exist(self, failure: KnownFailure) -> None:
        """Anything of the form group.name is a setting, or begins the path of a group of settings."""
        for word in re.findall(rf"\b(?:{'|'.join(GROUPS)})(?:\.\w+)+", failure.fix):
            assert word in SETTINGS or any(path.startswith(f"{word}.") for path in SETTINGS), word

    @pytest.mark.parametrize("failure", FAILURES, ids=ident)
    def test_reads_well_after_likely_and_before_the_fix(self, failure: KnownFailure) -> None:
        assert not failure.cause.endswith("."), "half a sentence"
        assert failure.fix[0].isupper()
        assert failure.fix.endswith(".")

    @pytest.mark.parametrize("failure", FAILURES, ids=ident)
    def test_can_be_found(self, failure: KnownFailure) -> None:
        by_name = "check" in failure.shows_in and not failure.stages  # infra/serving/diagnosis.py names it
        assert failure.patterns or failure.stages or failure.signal or by_name

    @pytest.mark.parametrize("failure", FAILURES, ids=ident)
    def test_cites_a_public_thread_by_its_address(self, failure: KnownFailure) -> None:
        assert not failure.thread or failure.thread.startswith("https://")

    def test_that_is_general_comes_after_all_that_are_exact(self) -> None:
        general = [failure.general for failure in FAILURES if failure.patterns]
        assert general == sorted(general)


class TestAFaultIsRefused:
    def test_a_pattern_that_is_none(self, tmp_path: Path) -> None:
        assert "'[kv_scale must' is not a regular expression" in faults(
            tmp_path, "'[kv]_scale must be positive'", "'[kv_scale must'"
        )

    def test_a_pattern_that_fits_everything(self, tmp_path: Path) -> None:
        assert "is found in everything" in faults(tmp_path, "'[kv]_scale must be positive'", "'(k_scale)?'")

    def test_a_log_line_without_a_pattern(self, tmp_path: Path) -> None:
        assert "without a pattern it is never found" in faults(
            tmp_path, "patterns = ['[kv]_scale must be positive']\n", ""
        )

    def test_a_metric_without_a_bound(self, tmp_path: Path) -> None:
        said = faults(tmp_path, 'shows_in = ["check"]', 'shows_in = ["metric"]\nsignal = "kv_usage"')
        assert "a metric has a signal and a bound" in said

    def test_a_stage_with_two_causes(self, tmp_path: Path) -> None:
        said = faults(tmp_path, 'stages = ["chat"]', 'stages = ["ready"]')
        assert "still-loading is the cause at stage ready already" in said
