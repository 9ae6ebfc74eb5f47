"""Weights from the bucket into memory, by the supervisor's own code, from a prefix that the real weights copy filled."""

from __future__ import annotations

import hashlib
import io
import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from containers.shared.manifest import MANIFEST
from containers.supervisor.gemma4_supervisor.bucket_reader import WeightsError
from containers.supervisor.gemma4_supervisor.cleanup import remove_all_but
from containers.supervisor.gemma4_supervisor.desired_spec import WeightsFolder
from containers.supervisor.gemma4_supervisor.docker import Abandoned
from containers.supervisor.gemma4_supervisor.log import Log
from containers.supervisor.gemma4_supervisor.metadata_server import MetadataServer
from containers.supervisor.gemma4_supervisor.supervisor_settings import SupervisorSettings
from containers.supervisor.gemma4_supervisor.weight_staging import Stager, is_staged, remove_unlisted_files
from tests.containers.packed import packed_stage
from tests.fakes.google import FakeGoogle
from tests.fakes.hub import COMMIT, Content, FakeHub
from tests.fakes.metadata_server import FakeMetadata

MIB = 1024 * 1024
FILES: dict[str, Content] = {
    "config.json": b"{}",
    "model-00001-of-00002.safetensors": random.Random(1).randbytes(5 * MIB + 12_345),
    "model-00002-of-00002.safetensors": random.Random(2).randbytes(2 * MIB),
    "tokenizer/added.json": b"[]",
    "chat_template.jinja": b"",
}
BIG = "model-00001-of-00002.safetensors"


class Depot:
    """A bucket that the weights copy has filled, and a machine that stages from it."""

    def __init__(self, folder: Path) -> None:
        self.google, self.metadata = FakeGoogle(), FakeMetadata()
        self.google.__enter__()
        self.root = folder / "weights"
        self.weights = WeightsFolder("weights", "google/tiny/main", str(self.root / "google/tiny/main"))
        settings = replace(SupervisorSettings(), metadata_host=self.metadata.host, storage_url=self.google.url)
        self.settings = replace(settings, weights_root=self.root, streams=4, range_mib=1)
        self.progress: list[tuple[int, int]] = []
        self.abandoned = threading.Event()
        self.rooms: list[bool] = []
        """Whether the weights were here, each time that room was to be made."""

    def stage(self, *sets: WeightsFolder) -> None:
        metadata = MetadataServer(self.settings, Log(io.StringIO()))
        Stager(self.settings, metadata, lambda *done: self.progress.append(done)).stage(
            sets or [self.weights], self.abandoned, lambda: self.rooms.append(is_staged([self.weights]))
        )

    def reads(self) -> list[str]:
        """The content requests since the last time, but for manifests."""
        asked = [each.path for each in self.google.requests if each.query.get("alt") == "media"]
        self.google.clear()
        return [path for path in asked if not path.endswith(MANIFEST)]

    def put(self, name: str, data: bytes) -> None:
        self.google.storage.store("weights", f"{self.weights.prefix}/{name}", data, {})

    def manifest(self) -> dict[str, Any]:
        text = self.google.storage.contents["weights", f"{self.weights.prefix}/{MANIFEST}"]
        manifest: dict[str, Any] = json.loads(text)
        return manifest

    def here(self) -> dict[str, bytes]:
        folder = Path(self.weights.destination)
        paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".gemma4-")]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    def close(self) -> None:
        self.google.__exit__()
        self.metadata.close()


@pytest.fixture(scope="module")
def copied() -> dict[str, bytes]:
    """The objects that the real weights copy makes of a repository, by name."""
    with FakeGoogle() as google:
        hub, metadata = FakeHub(FILES), FakeMetadata()
        google.storage.put_text("weights", "unrelated", "")
        place = ["--repo", hub.repo, "--revision", COMMIT, "--destination", "gs://weights/google/tiny/main"]
        environ = {"HF_ENDPOINT": hub.url, "STORAGE_ENDPOINT": google.url, "GCE_METADATA_HOST": metadata.host}
        command = [sys.executable, "-I", "-S", str(packed_stage()), *place]
        subprocess.run(command, env=environ, check=True, capture_output=True)
        hub.close()
        metadata.close()
        return {name: data for (_, name), data in google.storage.contents.items()}


@pytest.fixture
def depot(tmp_path: Path, copied: dict[str, bytes]) -> Iterator[Depot]:
    place = Depot(tmp_path)
    place.google.storage.put_text("weights", "unrelated", "")
    for name, data in copied.items():
        place.google.storage.store("weights", name, data, {})
    yield place
    place.close()


class TestStaging:
    def test_staging_brings_exactly_what_the_weights_copy_stored(self, depot: Depot) -> None:
        assert remove_all_but(depot.root, [depot.weights]) == []  # nothing is there yet
        depot.stage()
        assert depot.here() == FILES
        assert is_staged([depot.weights])
        assert sum(BIG in path for path in depot.reads()) == 6  # in ranges, side by side
        depot.stage()
        assert depot.reads() == []

    def test_staging_fetches_only_what_is_missing_or_shorter_or_different(self, depot: Depot) -> None:
        depot.stage()
        depot.reads()
        folder = Path(depot.weights.destination)
        (folder / "config.json").unlink()
        (folder / "tokenizer/added.json").write_bytes(b"[")
        depot.stage()
        assert depot.here() == FILES
        assert len(depot.reads()) == 2

    def test_staging_fetches_what_another_manifest_lists_with_the_same_size(self, depot: Depot) -> None:
        depot.stage()
        depot.reads()
        manifest = depot.manifest()
        (row,) = [row for row in manifest["files"] if row["name"] == "config.json"]
        row["sha256"] = hashlib.sha256(b"[]").hexdigest()
        depot.put("config.json", b"[]")
        depot.put(MANIFEST, json.dumps(manifest).encode())
        depot.stage()
        assert depot.here() == {**FILES, "config.json": b"[]"}
        assert len(depot.reads()) == 1

    def test_staging_that_was_cut_off_goes_on_with_the_files_that_are_whole(self, depot: Depot) -> None:
        rule = depot.google.fault("GET", BIG, status=403, times=10_000)
        with pytest.raises(WeightsError):
            depot.stage()
        rule.times = 0
        assert not is_staged([depot.weights])
        assert BIG not in depot.here()
        depot.stage()
        assert depot.here() == FILES

    def test_staging_never_gives_a_wrong_file_its_name(self, depot: Depot) -> None:
        data = FILES[BIG][:]
        depot.put(BIG, data[:MIB] + bytes([data[MIB] ^ 1]) + data[MIB + 1 :])
        with pytest.raises(WeightsError, match="SHA-256"):
            depot.stage()
        assert BIG not in depot.here()
        depot.put(BIG, data)
        depot.stage()
        assert depot.here() == FILES

    @pytest.mark.parametrize("name", ["../../outside", "/etc/passwd", "a/../../b", ".."])
    def test_staging_never_writes_outside_its_folder(self, depot: Depot, name: str) -> None:
        manifest = depot.manifest()
        manifest["files"][0]["name"] = name
        depot.put(MANIFEST, json.dumps(manifest).encode())
        with pytest.raises(WeightsError, match="cannot be a file of the folder"):
            depot.stage()
        assert not depot.root.exists()

    @pytest.mark.parametrize("text", ["{", "{}", '{"files": [{"name": "x"}]}'])
    def test_staging_takes_no_manifest_that_is_none(self, depot: Depot, text: str) -> None:
        depot.put(MANIFEST, text.encode())
        with pytest.raises(WeightsError, match="is not a manifest"):
            depot.stage()

    def test_staging_refuses_what_does_not_fit_before_it_fetches_a_byte(self, depot: Depot) -> None:
        manifest = depot.manifest()
        manifest["files"][1]["size"] = 1 << 60
        depot.put(MANIFEST, json.dumps(manifest).encode())
        with pytest.raises(WeightsError, match="do not fit"):
            depot.stage()
        assert depot.reads() == []

    def test_staging_stops_when_it_is_abandoned(self, depot: Depot) -> None:
        depot.abandoned.set()
        with pytest.raises(Abandoned):
            depot.stage()
        assert not is_staged([depot.weights])
        assert not depot.rooms

    def test_staging_makes_room_before_it_looks_for_room(self, depot: Depot) -> None:
        depot.google.fault("GET", MANIFEST, status=403)
        with pytest.raises(WeightsError):
            depot.stage()
        assert depot.rooms == [False]

    def test_two_stagings_at_once_leave_one_good_copy(self, depot: Depot) -> None:
        with ThreadPoolExecutor() as pool:
            for staging in [pool.submit(depot.stage) for _ in range(3)]:
                staging.result()
        assert depot.here() == FILES
        assert sum(BIG in path for path in depot.reads()) == 6


class TestTidying:
    def test_tidying_takes_away_what_the_manifest_does_not_know(self, depot: Depot) -> None:
        depot.stage()
        folder = Path(depot.weights.destination)
        (folder / "model-00003-of-00003.safetensors").write_bytes(b"of an older revision")
        (folder / f"{BIG}.gemma4-part").write_bytes(b"cut off")
        remove_unlisted_files([depot.weights])
        assert depot.here() == FILES
        assert is_staged([depot.weights])

    def test_tidying_takes_away_all_that_is_not_kept_whether_it_was_staged_or_not(self, depot: Depot) -> None:
        kept = [replace(depot.weights, destination=str(depot.root / name)) for name in ("google/tiny/other", "flat")]
        depot.stage(depot.weights, *kept)
        cut_off = depot.root / "google" / "large" / "main"
        cut_off.mkdir(parents=True)
        (cut_off / f"{BIG}.gemma4-part").write_bytes(b"of a specification that was abandoned")
        (depot.root / "google" / "by-hand").write_bytes(b"of nobody")
        gone = remove_all_but(depot.root, kept)
        assert gone == [str(depot.root / "google" / name) for name in ("by-hand", "large", "tiny/main")]
        assert is_staged(kept)
        assert not any(Path(path).exists() for path in gone)
        assert remove_all_but(depot.root, kept) == []

    def test_tidying_follows_no_link(self, depot: Depot) -> None:
        depot.stage()
        elsewhere = depot.root.parent / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "precious").write_bytes(b"x")
        (depot.root / "link").symlink_to(elsewhere)
        assert remove_all_but(depot.root, [depot.weights]) == [str(depot.root / "link")]
        assert (elsewhere / "precious").exists()
        assert not (depot.root / "link").is_symlink()
