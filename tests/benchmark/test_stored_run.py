"""The file of a benchmark: it holds what was measured, and is never a part of itself."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from infra.benchmark.stored_run import load, store
from infra.errors import SettingsError
from tests.benchmark.runs import cell, repeat, stored


def test_a_stored_run_is_read_as_it_was(tmp_path: Path) -> None:
    run = stored(cell(repeat(), repeat((0.3, 0.4))), cell(concurrency=64, status="skipped", why="no room"))
    store(run, tmp_path / "bench" / "a.json")
    assert load(tmp_path / "bench" / "a.json") == run


def test_keys_are_camel_case_and_the_schema_has_a_number(tmp_path: Path) -> None:
    store(stored(cell(repeat())), tmp_path / "a.json")
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["schema"] == 1
    assert written["cells"][0]["repeats"][0]["ttftS"] == [0.1, 0.2]


def test_a_failed_write_leaves_the_former_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    store(stored(), file)
    before = file.read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("infra.benchmark.stored_run.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store(stored(cell(repeat())), file)
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]


def test_others_of_the_machine_may_read_it(tmp_path: Path) -> None:
    store(stored(), tmp_path / "a.json")
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is not a stored benchmark"), ("[]", "is not a stored benchmark"), ('{"schema": 1}', "id: Field required")],
)
def test_another_file_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(SettingsError, match=said) as caught:
        load(tmp_path / "a.json")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.json: cannot be read: No such file"):
        load(tmp_path / "gone.json")
