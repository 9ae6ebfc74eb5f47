"""The weights copy, run as the job runs it: a process of its own between a fake Hub, CDN, bucket, metadata server."""

from __future__ import annotations

import email.utils
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from containers import archive
from containers.weights.gemma4_stage import connections, retries
from containers.weights.gemma4_stage.exit_codes import ExitCode, Failure
from tests.containers.packed import packed_stage
from tests.fakes.google import FakeGoogle
from tests.fakes.hub import COMMIT, Content, FakeHub, HubFile, Pattern
from tests.fakes.hub import Trouble as SourceTrouble
from tests.fakes.storage import FakeStorage
from tests.fakes.storage import Trouble as SinkTrouble

STAGE = packed_stage()
KIB, MIB = 1024, 1024 * 1024
MANIFEST = "model/gemma4-manifest.json"
# No site-packages: whatever is not in the standard library is not there.
PYTHON = [sys.executable, "-I", "-S"]
QUICK = ["--backoff-seconds", "0", "--chunk-mib", "1"]


def bytes_of(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


MODEL: dict[str, Content] = {
    "config.json": b'{"architectures": ["Gemma4ForConditionalGeneration"]}',
    "model-00001-of-00002.safetensors": bytes_of(3 * MIB + 700 * KIB + 1, seed=1),
    "model-00002-of-00002.safetensors": bytes_of(2 * MIB, seed=2),
    "tokenizer.json": bytes_of(300 * KIB, seed=3),
    "chat_template.jinja": b"",
}
BIG, SMALL = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
NOT_FOR_SERVING: dict[str, Content] = {
    ".gitattributes": b"*.safetensors filter=lfs",
    "original/params.json": b"{}",
    "consolidated.00.pth": b"double",
    "pytorch_model.bin": b"double",
    "model.gguf": b"double",
    "card.png": b"picture",
}


@dataclass
class Run:
    """What one run of the job printed and how it ended."""

    code: int
    text: str

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def error(self) -> str:
        """The one line that says what went wrong."""
        (entry,) = (entry for entry in self.entries if entry.get("event") == "failed")
        assert entry["severity"] == "ERROR"
        assert entry["exitCode"] == self.code
        return str(entry["message"])


def make_files(files: dict[str, Content]) -> dict[str, HubFile]:
    return {name: HubFile(content, lfs=False) for name, content in files.items()}


class Place:
    """The fakes, and the job between them."""

    def __init__(self, files: dict[str, Content], *, gated: bool = False, keeps_data: bool = True) -> None:
        self.hub = FakeHub(files, gated=gated)
        self.storage = FakeStorage(keeps_data=keeps_data)
        self.environ = {
            "HF_ENDPOINT": self.hub.url,
            "HF_TOKEN": self.hub.token,
            "STORAGE_ENDPOINT": self.storage.url,
            "GCE_METADATA_HOST": self.storage.metadata_host,
        }
        self.where = ["--repo", self.hub.repo, "--revision", COMMIT, "--destination", "gs://weights/model"]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [*PYTHON, str(STAGE), *QUICK, *self.where, *arguments]
        return subprocess.Popen(command, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments: str) -> Run:
        process = self.start(*arguments)
        text, _ = process.communicate(timeout=60)
        return Run(process.returncode, text)

    def verify(self, *arguments: str) -> Run:
        return self.run("--verify", *arguments)

    def stored(self, name: str) -> bytes:
        return self.storage.objects[f"model/{name}"].data

    def has(self, name: str) -> bool:
        return f"model/{name}" in self.storage.objects

    @property
    def manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(self.storage.objects[MANIFEST].data)
        return manifest

    def forget_requests(self) -> None:
        for log in (self.hub.hub_requests, self.hub.cdn_requests, self.storage.requests):
            log.clear()

    def close(self) -> None:
        self.hub.close()
        self.storage.close()


MakePlace = Callable[..., Place]


@pytest.fixture
def make_place() -> Iterator[MakePlace]:
    made: list[Place] = []

    def make(files: dict[str, Content] | None = None, **options: Any) -> Place:
        made.append(Place(MODEL if files is None else files, **options))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.fixture
def place(make_place: MakePlace) -> Place:
    return make_place()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


class TestAWholeCopy:
    def test_every_file_arrives_byte_for_byte(self, place: Place) -> None:
        assert place.run().code == 0
        for name, content in MODEL.items():
            assert place.stored(name) == content

    def test_the_manifest_appears_last_and_names_every_file_with_its_checksum(self, place: Place) -> None:
        appeared: list[str] = []
        place.storage.on_finish = appeared.append
        assert place.run().code == 0
        assert appeared[-1] == MANIFEST
        manifest = place.manifest
        assert (manifest["schema"], manifest["repo"], manifest["revision"]) == (1, place.hub.repo, COMMIT)
        assert manifest["bytes"] == sum(len(content) for content in MODEL.values())
        assert {row["name"]: (row["size"], row["sha256"]) for row in manifest["files"]} == {
            name: (len(content), hashlib.sha256(content[:]).hexdigest()) for name, content in MODEL.items()
        }

    def test_what_serving_never_reads_stays_behind(self, make_place: MakePlace) -> None:
        place = make_place({**MODEL, **NOT_FOR_SERVING})
        assert place.run().code == 0
        assert set(place.storage.objects) == {f"model/{name}" for name in MODEL} | {MANIFEST}

    def test_without_safetensors_other_weights_are_the_weights(self, make_place: MakePlace) -> None:
        place = make_place({"config.json": b"{}", "pytorch_model.bin": b"weights"})
        assert place.run().code == 0
        assert place.stored("pytorch_model.bin") == b"weights"

    def test_a_branch_is_resolved_once_and_read_by_its_commit(self, place: Place) -> None:
        assert place.run("--revision", "main").code == 0
        assert place.manifest["revision"] == COMMIT
        reads = [seen.path for seen in place.hub.hub_requests if "/resolve/" in seen.path]
        assert reads
        assert all(f"/resolve/{COMMIT}/" in path for path in reads)

    @pytest.mark.parametrize("size", [0, 1, 256 * KIB, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 256 * KIB])
    def test_no_size_is_special(self, make_place: MakePlace, size: int) -> None:
        content = bytes_of(size)
        place = make_place({"model.safetensors": content, "outside-lfs.json": content})
        assert place.run().code == 0
        assert place.stored("model.safetensors") == place.stored("outside-lfs.json") == content

    def test_the_bucket_itself_can_be_the_destination(self, place: Place) -> None:
        assert place.run("--destination", "gs://weights/").code == 0
        assert "config.json" in place.storage.objects

    def test_the_other_fake_of_google_takes_it_as_well(self, place: Place) -> None:
        with FakeGoogle() as google:
            google.storage.put_text("weights", "elsewhere", "")
            place.environ |= {
                "STORAGE_ENDPOINT": f"{google.url}/storage/v1/",
                "GOOGLE_OAUTH_ACCESS_TOKEN": "fake-access-token",
            }
            assert place.run().code == 0
            assert google.storage.contents["weights", f"model/{BIG}"] == MODEL[BIG]
            assert google.unknown == []


class TestASecondRun:
    def test_a_complete_pinned_copy_asks_the_hub_nothing(self, place: Place) -> None:
        place.run()
        place.forget_requests()
        assert place.run().code == 0
        assert place.hub.hub_requests == []
        assert {seen.method for seen in place.storage.requests} == {"GET"}

    def test_a_complete_copy_of_a_branch_reads_no_file(self, place: Place) -> None:
        place.run("--revision", "main")
        place.forget_requests()
        assert place.run("--revision", "main").code == 0
        assert not any("/resolve/" in seen.path for seen in place.hub.hub_requests)

    def test_only_the_missing_object_is_copied_again(self, place: Place) -> None:
        place.run()
        del place.storage.objects[f"model/{SMALL}"]
        place.forget_requests()
        assert place.run().code == 0
        assert place.stored(SMALL) == MODEL[SMALL]
        assert [seen.path for seen in place.hub.cdn_requests] == [f"/blobs/{SMALL}"]

    @pytest.mark.parametrize("metadata", [None, {"sha256": "0" * 64}])
    def test_an_object_of_the_right_name_with_other_content_is_replaced(
        self, place: Place, metadata: dict[str, str] | None
    ) -> None:
        place.storage.put(f"model/{SMALL}", bytes(2 * MIB), metadata)
        assert place.run().code == 0
        assert place.stored(SMALL) == MODEL[SMALL]

    def test_while_it_repairs_no_manifest_claims_completeness(self, place: Place) -> None:
        place.run()
        del place.storage.objects[f"model/{SMALL}"]
        manifests: list[bool] = []
        place.storage.on_finish = lambda name: manifests.append(MANIFEST in place.storage.objects)
        place.run()
        assert manifests == [False, True]

    def test_another_model_or_revision_is_refused_and_nothing_is_touched(self, place: Place) -> None:
        place.run()
        place.hub.branch["main"] = "f" * 40
        place.forget_requests()
        for revision in ("main", "f" * 40):
            run = place.run("--revision", revision)
            assert run.code == 8
            assert COMMIT in run.error
            assert "another prefix" in run.error
        assert {seen.method for seen in place.storage.requests} == {"GET"}


class TestABranchThatMoves:
    """What is served stays at its commit until somebody names another: a branch is resolved once, when it is copied."""

    BRANCH = ("--revision", "main", "--destination", "gs://weights/main")

    @pytest.fixture
    def moved(self, place: Place) -> Place:
        assert place.run(*self.BRANCH).code == 0
        place.hub.branch["main"] = "b" * 40
        place.hub.files["config.json"].listed = place.hub.files["config.json"].served = b'{"newer": true}'
        place.forget_requests()
        return place

    def revision(self, place: Place) -> str:
        manifest = json.loads(place.storage.objects["main/gemma4-manifest.json"].data)
        return str(manifest["revision"])

    def test_leaves_a_whole_copy_alone_and_says_how_to_move_on(self, moved: Place) -> None:
        run = moved.run(*self.BRANCH)
        assert run.code == 0
        said = run.entries[-1]["message"]
        assert f"holds {moved.hub.repo} at {COMMIT}, whole" in said
        assert f"main has a newer commit {'b' * 40}" in said
        assert "gemma4 pin" in said
        assert {seen.method for seen in moved.storage.requests} == {"GET"}
        assert self.revision(moved) == COMMIT

    def test_does_not_mix_commits_when_an_object_is_copied_again(self, moved: Place) -> None:
        moved.hub.branch["kept"] = COMMIT  # the Hub goes on serving commits that no branch names
        del moved.storage.objects[f"main/{SMALL}"]
        moved.hub.files["config.json"].listed = moved.hub.files["config.json"].served = MODEL["config.json"]
        assert moved.run(*self.BRANCH).code == 0
        assert self.revision(moved) == COMMIT
        reads = [seen.path for seen in moved.hub.hub_requests if "/resolve/" in seen.path]
        assert reads
        assert all(f"/resolve/{COMMIT}/" in path for path in reads)

    def test_does_not_fail_a_whole_copy_because_the_hub_is_away(self, moved: Place) -> None:
        moved.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
        run = moved.run(*self.BRANCH, "--retries", "0")
        assert run.code == 0
        assert "newer" not in run.entries[-1]["message"]

    @pytest.mark.parametrize("other", ["b" * 40, "next"])
    def test_is_not_an_excuse_for_another_revision_in_the_same_prefix(self, moved: Place, other: str) -> None:
        moved.hub.branch["next"] = "b" * 40
        run = moved.run(*self.BRANCH, "--revision", other)
        assert run.code == 8
        assert COMMIT in run.error

    def test_halfway_goes_on_with_the_new_commit_alone(self, moved: Place) -> None:
        del moved.storage.objects["main/gemma4-manifest.json"]
        assert moved.run(*self.BRANCH).code == 0
        assert self.revision(moved) == "b" * 40
        assert moved.storage.objects["main/config.json"].data == b'{"newer": true}'


class TestAHubThatIsNone:
    """Its list is the root of all trust: whatever no Hub answers ends the run before anything is copied, as code 9."""

    def distrusted(self, place: Place, *arguments: str) -> str:
        run = place.run(*arguments)
        assert run.code == 9, run.text
        assert place.storage.objects == {}
        assert place.storage.uploads == {}
        return run.error

    @pytest.mark.parametrize(
        "name",
        [
            "../../.stage/stage.pyz",
            "a/../../x.json",
            "/etc/passwd",
            "sub//x",
            "..",
            "sub/",
            "a\nb.json",
            "a\u202eb.json",
            "\ud800.json",
            "",
            "gemma4-manifest.json",
            "config.json",
            7,
        ],
    )
    def test_a_name_that_cannot_be_an_object_s_is_refused(self, place: Place, name: object) -> None:
        place.hub.rows = [{"rfilename": name, "size": 2, "blobId": "a" * 40}]
        assert "a file named" in self.distrusted(place)

    def test_names_as_repositories_have_them_are_not(self, place: Place) -> None:
        place.hub.files |= make_files({"sub folder/größe..v2.json": b"{}", "...json": b"{}"})
        assert place.run().code == 0
        assert place.has("sub folder/größe..v2.json")

    @pytest.mark.parametrize(
        "row",
        [
            {"rfilename": "x", "size": "big", "blobId": "a" * 40},
            {"rfilename": "x", "size": -1, "blobId": "a" * 40},
            {"rfilename": "x", "size": 1, "blobId": "a" * 64},
            {"rfilename": "x", "lfs": {"size": 1, "sha256": "../" * 8}},
            {"name": "x"},
        ],
    )
    def test_a_row_that_no_hub_writes_is_refused(self, place: Place, row: dict[str, Any]) -> None:
        place.hub.rows = [row]
        self.distrusted(place)

    def test_a_list_from_elsewhere_is_not_believed(self, place: Place, make_place: MakePlace) -> None:
        stranger = make_place({"config.json": b"{}"})
        place.hub.listing_at = f"{stranger.hub.url}/api/models/{place.hub.repo}/revision/{COMMIT}"
        assert stranger.hub.url in self.distrusted(place)
        assert stranger.hub.hub_requests == []

    def test_a_list_that_has_moved_within_the_hub_is(self, place: Place) -> None:
        old, new = place.hub.repo, f"/api/models/{place.hub.repo}/revision/{COMMIT}?blobs=true"
        seen = place.hub.hub_requests
        answer = place.hub._list

        def once(exchange: Any, commit: str) -> None:
            place.hub.listing_at = new if len(seen) == 1 else ""
            answer(exchange, commit)

        place.hub._list = once  # type: ignore[method-assign]
        assert place.run("--repo", old).code == 0

    def test_a_list_without_end_is_not_read_to_it(self, place: Place) -> None:
        place.hub.padding = 64 * MIB
        assert "longer than 16 MiB" in self.distrusted(place)

    @pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"])
    def test_files_are_read_over_http_alone(self, place: Place, where: str) -> None:
        place.hub.files_at = where
        run = place.run()
        assert run.code == 9
        assert not place.has(BIG)

    @pytest.mark.parametrize(
        ("source", "target", "leaves", "followed"),
        [
            ("https://hub/list", "https://hub/moved", False, True),
            ("https://hub/list", "https://other/list", False, False),
            ("https://hub/list", "http://hub/list", False, False),
            ("https://hub/file", "https://cdn/file", True, True),
            ("https://hub/file", "http://cdn/file", True, False),
            ("https://cdn/file", "http://169.254.169.254/computeMetadata/v1/", True, False),
            ("http://mirror/file", "https://cdn/file", True, True),
        ],
    )
    def test_no_redirect_gives_up_encryption(self, source: str, target: str, leaves: bool, followed: bool) -> None:
        if followed:
            connections.refuse_redirect(source, target, leaves)
        else:
            with pytest.raises(Failure) as caught:
                connections.refuse_redirect(source, target, leaves)
            assert caught.value.code == 9


class TestInterrupted:
    """Killed in the middle, the next run copies only what is missing."""

    def halfway(self, place: Place) -> subprocess.Popen[str]:
        """A run that has stored SMALL and half of BIG, and goes no further."""
        place.hub.trouble(BIG, SourceTrouble(after=2 * MIB, hold=True))
        process = place.start("--progress-seconds", "0.02")
        until(lambda: place.has(SMALL) and any(u.received >= 2 * MIB for u in place.storage.uploads_of(f"model/{BIG}")))
        return process

    def test_killed_and_run_again_it_copies_only_what_is_missing(self, place: Place) -> None:
        process = self.halfway(place)
        process.kill()
        process.communicate()
        assert not place.has(BIG)
        assert MANIFEST not in place.storage.objects
        whole = [name for name in MODEL if place.has(name)]
        place.forget_requests()
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]
        assert SMALL in whole
        assert [name for name in whole if place.hub.reads(name)] == []

    def test_sigterm_ends_it_at_once_and_says_that_a_rerun_goes_on(self, place: Place) -> None:
        process = self.halfway(place)
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=10)
        assert process.returncode == 143
        last = json.loads(text.splitlines()[-1])
        assert last["event"] == "stopped"
        assert "again" in last["message"]
        assert not place.has(BIG)

    def test_progress_tells_file_percent_rate_and_time_left(self, place: Place) -> None:
        process = self.halfway(place)
        assert process.stdout is not None
        line = next(
            line for line in process.stdout if '"progress"' in line and BIG in line and '"percent": 0.0' not in line
        )
        process.kill()
        process.communicate()
        entry = json.loads(line)
        assert 0 < entry["files"][BIG] < 100
        assert 0 < entry["percent"] < 100
        assert entry["mibPerSecond"] > 0
        assert entry["etaSeconds"] >= 0
        assert entry["totalBytes"] == sum(len(content) for content in MODEL.values())


class TestABrokenSource:
    """A truncated or damaged file never appears under its final name."""

    def test_a_cut_download_goes_on_where_it_broke_off(self, place: Place) -> None:
        place.hub.trouble(BIG, SourceTrouble(after=MIB), SourceTrouble(after=MIB), SourceTrouble(status=503))
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]
        assert place.hub.reads(BIG) == ["", f"bytes={MIB}-", f"bytes={2 * MIB}-", f"bytes={2 * MIB}-"]

    def test_a_source_that_ignores_ranges_is_read_past_what_is_there(self, place: Place) -> None:
        place.hub.ignores_range = True
        place.hub.trouble(BIG, SourceTrouble(after=MIB + 5))
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]

    def test_an_expired_cdn_address_is_asked_for_again_and_not_taken_for_a_refusal(self, place: Place) -> None:
        place.hub.trouble(BIG, SourceTrouble(after=MIB), SourceTrouble(status=403))
        assert place.run().code == 0
        asked = [seen for seen in place.hub.hub_requests if seen.path.endswith(BIG)]
        assert len([seen for seen in asked if seen.headers.get("range") != "bytes=0-0"]) == 3

    def test_a_source_that_stays_cut_leaves_nothing_under_the_final_name(self, place: Place) -> None:
        place.hub.trouble(BIG, SourceTrouble(after=MIB), *[SourceTrouble(status=503)] * 9)
        run = place.run("--retries", "3")
        assert run.code == 1
        assert BIG in run.error
        assert "Run again" in run.error
        assert not place.has(BIG)
        assert MANIFEST not in place.storage.objects
        assert [upload.state for upload in place.storage.uploads_of(f"model/{BIG}")] == ["cancelled"]

    @pytest.mark.parametrize("size", [0, 1, MIB, 3 * MIB])
    def test_a_file_that_is_shorter_than_listed_is_refused(self, place: Place, size: int) -> None:
        place.hub.truncate(BIG, size)
        run = place.run("--retries", "2")
        assert run.code in (1, 3)
        assert BIG in run.error
        assert not place.has(BIG)

    @pytest.mark.parametrize("at", [0, 2 * MIB, 3 * MIB + 700 * KIB])
    def test_one_wrong_bit_anywhere_is_found_before_the_object_exists(self, place: Place, at: int) -> None:
        place.hub.corrupt(BIG, at)
        run = place.run()
        assert run.code == 3
        assert BIG in run.error
        assert f"expected {place.hub.files[BIG].digest()}" in run.error
        assert f"got {hashlib.sha256(place.hub.files[BIG].served[:]).hexdigest()}" in run.error
        assert not place.has(BIG)
        assert MANIFEST not in place.storage.objects
        (upload,) = place.storage.uploads_of(f"model/{BIG}")
        assert upload.state == "cancelled"

    def test_outside_lfs_the_blob_id_finds_the_wrong_bit(self, place: Place) -> None:
        place.hub.corrupt("tokenizer.json", 12)
        run = place.run()
        assert run.code == 3
        assert "tokenizer.json: git-sha1 expected" in run.error
        assert not place.has("tokenizer.json")

    def test_a_listed_file_that_is_gone_is_named(self, place: Place) -> None:
        place.hub.lose("tokenizer.json")
        run = place.run()
        assert run.code == 6
        assert "tokenizer.json" in run.error

    def test_a_file_without_a_checksum_is_refused_before_anything_is_copied(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tests.fakes.hub.HubFile.digest", lambda self: "")
        run = place.run()
        assert run.code == 6
        assert "no size or checksum" in run.error
        assert place.storage.objects == {}


class TestABrokenBucket:
    def sent(self, place: Place, name: str) -> int:
        """Bytes of content that a bucket was offered for an object, repeats included."""
        spans = [
            seen for seen in place.storage.requests
            if seen.method == "PUT" and place.storage.uploads[seen.path].name == f"model/{name}"
        ]  # fmt: skip
        return sum(int(seen.headers["content-length"]) for seen in spans)

    def test_a_list_that_breaks_off_is_asked_for_again(self, place: Place) -> None:
        place.storage.cuts_lists = 2
        run = place.run()
        assert run.code == 0, run.text
        assert len([entry for entry in run.entries if "the connection ended early" in entry["message"]]) == 2

    def test_an_upload_goes_on_from_what_the_bucket_has_kept(self, place: Place) -> None:
        kept = SinkTrouble(status=503, takes=512 * KIB)
        place.storage.trouble(f"model/{BIG}", SinkTrouble(takes=256 * KIB), kept, SinkTrouble(status=429, takes=0))
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]
        assert place.hub.reads(BIG) == [""], "what was in memory was not read again"

    def test_a_lost_answer_to_the_last_byte_is_not_a_second_upload(self, place: Place) -> None:
        name = "model/config.json"
        place.storage.trouble(name, SinkTrouble(takes=None))
        assert place.run().code == 0
        assert place.stored("config.json") == MODEL["config.json"]
        assert len(place.storage.uploads_of(name)) == 1

    def test_a_forgotten_session_starts_that_file_again_and_no_other(self, place: Place) -> None:
        place.storage.trouble(f"model/{BIG}", SinkTrouble(takes=None, status=308), SinkTrouble(status=410))
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]
        assert [upload.state for upload in place.storage.uploads_of(f"model/{BIG}")] == ["lost", "finished"]
        assert place.hub.reads(SMALL) == [""]

    def test_a_bucket_that_takes_nothing_is_given_up_on(self, place: Place) -> None:
        place.storage.trouble(f"model/{BIG}", *[SinkTrouble(status=503)] * 20)
        run = place.run("--retries", "3")
        assert run.code == 1
        assert not place.has(BIG)

    def test_an_expired_access_token_is_renewed(self, place: Place) -> None:
        place.storage.on_finish = lambda name: place.storage.valid.difference_update(place.storage.issued[:1])
        assert place.run().code == 0
        assert len(place.storage.issued) > 1

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_bucket_that_cannot_be_written_is_found_before_any_content_is_read(
        self, place: Place, status: int
    ) -> None:
        place.storage.refuses_uploads = status
        run = place.run()
        assert run.code == 7
        assert "gs://weights/model" in run.error
        assert all(place.hub.reads(name) == [] for name in MODEL)

    def test_a_bucket_that_does_not_exist_is_named(self, place: Place) -> None:
        run = place.run("--destination", "gs://weihgts/model")
        assert run.code == 7
        assert "gs://weihgts/model" in run.error

    def test_without_google_credentials_the_fix_is_named(self, place: Place) -> None:
        place.environ["GCE_METADATA_HOST"] = "127.0.0.1:9"
        run = place.run()
        assert run.code == 7
        assert "GOOGLE_OAUTH_ACCESS_TOKEN" in run.error

    def test_an_object_written_by_another_run_meanwhile_is_not_overwritten(self, place: Place) -> None:
        place.hub.trouble(BIG, SourceTrouble(after=2 * MIB, hold=True))
        process = place.start()
        until(lambda: any(upload.received for upload in place.storage.uploads_of(f"model/{BIG}")))
        place.storage.put(f"model/{BIG}", b"another run's")
        place.hub.let_go()
        text, _ = process.communicate(timeout=30)
        run = Run(process.returncode, text)
        assert run.code == 7
        assert "another run" in run.error
        assert place.stored(BIG) == b"another run's"

    def test_an_object_that_vanishes_during_the_copy_means_no_manifest(self, place: Place) -> None:
        def vanish(name: str) -> None:
            if name == f"model/{SMALL}":
                del place.storage.objects[f"model/{BIG}"]

        place.storage.on_finish = vanish
        run = place.run("--parallel", "1")  # largest first, so BIG stands when SMALL arrives
        assert run.code == 8
        assert f"{BIG}: missing" in run.error
        assert MANIFEST not in place.storage.objects


class TestSecrets:
    def test_the_hub_token_goes_to_the_hub_only_and_google_s_to_the_bucket_only(self, place: Place) -> None:
        place.hub.trouble(BIG, SourceTrouble(after=MIB))
        place.storage.trouble(f"model/{BIG}", SinkTrouble(status=503))
        run = place.run()
        assert run.code == 0
        assert {seen.bearer for seen in place.hub.hub_requests} == {place.hub.token}
        assert len(place.hub.cdn_requests) > 2
        for seen in place.hub.cdn_requests:
            assert place.hub.token not in str(seen)
            assert "authorization" not in seen.headers
        assert {seen.bearer for seen in place.storage.requests} <= set(place.storage.issued)

    @pytest.mark.parametrize("trouble", ["none", "wrong token", "gated", "corrupt", "cut", "bucket"])
    def test_no_token_and_no_signed_address_is_ever_printed(self, make_place: MakePlace, trouble: str) -> None:
        place = make_place(gated=trouble == "gated")
        if trouble == "wrong token":
            place.environ["HF_TOKEN"] = "hf_NobodyKnowsThisOne00000003"
        elif trouble == "gated":
            place.environ["HF_TOKEN"] = place.hub.other_token
        elif trouble == "corrupt":
            place.hub.corrupt(BIG, 1)
        elif trouble == "cut":
            place.hub.trouble(BIG, *[SourceTrouble(status=500)] * 9)
        elif trouble == "bucket":
            place.storage.refuses_uploads = 403
        run = place.run("--retries", "3")
        assert (run.code == 0) == (trouble == "none")
        for secret in (place.environ["HF_TOKEN"], "signed-address", *place.storage.issued):
            assert secret not in run.text

    def test_the_line_end_that_secrets_have_does_no_harm(self, place: Place) -> None:
        place.environ["HF_TOKEN"] += "\n"
        assert place.run().code == 0

    def test_a_token_with_blanks_is_refused_without_being_shown(self, place: Place) -> None:
        place.environ["HF_TOKEN"] = "hf_two words-in-it"
        run = place.run()
        assert run.code == 4
        assert "words-in-it" not in run.text


class TestAccess:
    """What is wrong is said before anything is copied, and each fault has its own exit code."""

    def refused(self, place: Place, code: int, *arguments: str) -> str:
        run = place.run(*arguments)
        assert run.code == code
        assert place.storage.objects == {}
        assert place.storage.uploads == {}
        assert all(place.hub.reads(name) == [] for name in MODEL)
        return run.error

    @pytest.mark.parametrize("gated", [False, True])
    def test_a_wrong_token_is_called_wrong(self, make_place: MakePlace, gated: bool) -> None:
        place = make_place(gated=gated)
        place.environ["HF_TOKEN"] = "hf_NobodyKnowsThisOne00000003"
        error = self.refused(place, 4)
        assert "does not accept the token" in error
        assert "licence" not in error

    def test_a_licence_not_accepted_is_called_that(self, make_place: MakePlace) -> None:
        place = make_place(gated=True)
        place.environ["HF_TOKEN"] = place.hub.other_token
        error = self.refused(place, 5)
        assert f"https://huggingface.co/{place.hub.repo}" in error
        assert "licence" in error

    def test_a_gated_model_without_any_token_says_that_one_is_needed(self, make_place: MakePlace) -> None:
        place = make_place(gated=True)
        del place.environ["HF_TOKEN"]
        assert "no token was given" in self.refused(place, 5)

    def test_a_gated_model_with_access_is_copied(self, make_place: MakePlace) -> None:
        assert make_place(gated=True).run().code == 0

    def test_an_open_model_needs_no_token(self, place: Place) -> None:
        del place.environ["HF_TOKEN"]
        assert place.run().code == 0
        assert {seen.bearer for seen in place.hub.hub_requests} == {""}

    def test_a_repository_that_is_not_there_is_called_not_found(self, place: Place) -> None:
        assert "google/gemma-4-tny" in self.refused(place, 6, "--repo", "google/gemma-4-tny")

    def test_a_revision_that_is_not_there_is_called_not_found(self, place: Place) -> None:
        assert "v9" in self.refused(place, 6, "--revision", "v9")


class TestVerify:
    """`--verify` is what `weights.source: existing` asks of a bucket that somebody else has filled."""

    @pytest.fixture
    def filled(self, place: Place) -> Place:
        assert place.run().code == 0
        place.forget_requests()
        return place

    def test_a_whole_bucket_passes_without_the_hub_and_without_a_change(self, filled: Place) -> None:
        assert filled.verify().code == 0
        assert filled.hub.hub_requests == []
        assert {seen.method for seen in filled.storage.requests} == {"GET"}

    def test_every_difference_is_named(self, filled: Place) -> None:
        del filled.storage.objects[f"model/{SMALL}"]
        filled.storage.put(f"model/{BIG}", b"short")
        filled.storage.put("model/tokenizer.json", bytes(300 * KIB))
        run = filled.verify()
        assert run.code == 8
        assert "3 files" in run.error
        faults = [entry["message"] for entry in run.entries if entry.get("event") == "fault"]
        assert f"{SMALL}: missing" in faults
        assert f"{BIG}: size expected {len(MODEL[BIG])}, got 5" in faults
        assert any(fault.startswith("tokenizer.json: sha256 expected") for fault in faults)

    def test_no_manifest_means_not_complete(self, filled: Place) -> None:
        del filled.storage.objects[MANIFEST]
        run = filled.verify()
        assert run.code == 8
        assert "no gemma4-manifest.json" in run.error

    @pytest.mark.parametrize("text", [b"", b"not json", b"[]", b'{"files": [{}]}', b'{"files": 3}'])
    def test_a_manifest_that_cannot_be_read_is_one_clean_line(self, filled: Place, text: bytes) -> None:
        filled.storage.put(MANIFEST, text)
        run = filled.verify()
        assert run.code == 8
        assert "cannot be read" in run.error

    @pytest.mark.parametrize("other", [["--repo", "google/gemma-4-other"], ["--revision", "f" * 40]])
    def test_another_model_or_commit_than_asked_for_is_refused(self, filled: Place, other: list[str]) -> None:
        assert COMMIT in filled.verify(*other).error

    def test_objects_that_belong_to_no_file_are_pointed_out(self, filled: Place) -> None:
        filled.storage.put("model/model-00003-of-00002.safetensors", b"left over")
        run = filled.verify()
        assert run.code == 0
        (warning,) = (entry for entry in run.entries if entry["severity"] == "WARNING")
        assert "model-00003-of-00002.safetensors" in warning["message"]


class TestMemory:
    # The interpreter's own peak, so that the parent's memory (counted by wait4 until exec) plays no part.
    PROBE = (
        "import sys\n"
        "sys.path.insert(0, sys.argv.pop(1))\n"
        "from containers.weights.gemma4_stage.__main__ import main\n"
        "code = main()\n"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )

    def peak_mib(self, place: Place) -> float:
        command = [*PYTHON, "-c", self.PROBE, str(STAGE), *place.where]
        done = subprocess.run(command, env=place.environ, capture_output=True, text=True, timeout=120, check=True)
        return int(done.stderr.split()[1]) / 1024

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
    def test_the_peak_is_bounded_and_does_not_grow_with_the_file(self, make_place: MakePlace) -> None:
        """At the default three files at once of 16 MiB chunks; the bar is 256 MiB."""
        peaks = []
        for mib in (96, 160):
            files: dict[str, Content] = {f"model-{n}.safetensors": Pattern(mib * MIB // 3) for n in range(3)}
            peaks.append(self.peak_mib(make_place(files, keeps_data=False)))
        files = {"model.safetensors": Pattern(128 * MIB)}
        alone = self.peak_mib(make_place(files, keeps_data=False))
        assert max(*peaks, alone) < 160
        assert alone < 80


class TestTheScript:
    def test_every_line_is_one_structured_log_entry(self, place: Place) -> None:
        place.hub.trouble(BIG, SourceTrouble(after=MIB))
        entries = place.run().entries
        assert {entry["severity"] for entry in entries} <= {"INFO", "WARNING"}
        assert all(isinstance(entry["message"], str) for entry in entries)
        assert [entry["event"] for entry in entries if entry["event"] in ("start", "complete")] == ["start", "complete"]

    def test_help_names_every_exit_code_and_environment_variable(self) -> None:
        code = "".join(path.read_text() for path in (archive.HERE / archive.STAGE).glob("*.py"))
        text = subprocess.run([*PYTHON, str(STAGE), "--help"], capture_output=True, text=True, check=True).stdout
        for exit_code in ExitCode:
            assert f"\n  {int(exit_code)} " in text
        for name in ("HF_TOKEN", "HF_ENDPOINT", "STORAGE_ENDPOINT", "GOOGLE_OAUTH_ACCESS_TOKEN", "GCE_METADATA_HOST"):
            assert f"  {name} " in text
            assert f'"{name}"' in code

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--parallel", "0"],
            ["--parallel", "8", "--chunk-mib", "32"],
            ["--destination", "s3://weights/model"],
            ["--chunk-mib", "half"],
        ],
    )
    def test_a_wrong_command_line_touches_nothing(self, place: Place, arguments: list[str]) -> None:
        assert place.run(*arguments).code == 2
        assert place.storage.requests == []
        assert place.hub.hub_requests == []


class TestRetries:
    """How long it waits, on a clock of its own."""

    @pytest.fixture
    def waits(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        waits: list[float] = []
        monkeypatch.setattr("containers.weights.gemma4_stage.retries.time.sleep", waits.append)
        return waits

    def test_waits_grow_to_a_minute_and_then_it_gives_up(self, waits: list[float]) -> None:
        tries = retries.Retries("download", 9, 1.0)
        for _ in range(9):
            tries.wait("HTTP 503")
        with pytest.raises(Failure, match="gave up after 9 retries"):
            tries.wait("HTTP 503")
        assert len(waits) == 9
        assert all(0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits[:6]))
        assert max(waits) <= 60

    def test_progress_starts_the_count_anew(self, waits: list[float]) -> None:
        tries = retries.Retries("download", 1, 1.0)
        for _ in range(5):
            tries.wait("cut")
            tries.progressed()
        assert max(waits) <= 1

    def test_it_waits_at_least_as_long_as_it_was_asked_to_but_not_forever(self, waits: list[float]) -> None:
        tries = retries.Retries("download", 9, 1.0)
        tries.wait("HTTP 429", 42.0)
        tries.wait("HTTP 429", 1e6)
        assert waits == [42.0, 300.0]

    def test_retry_after_is_a_number_or_a_date(self) -> None:
        assert retries.seconds_of("17") == 17
        assert retries.seconds_of("") == retries.seconds_of("soon") == 0
        date = email.utils.formatdate(time.time() + 100, usegmt=True)
        assert 90 < retries.seconds_of(date) <= 100

    def test_the_delay_that_a_server_asks_for_is_the_one_that_is_waited(self, place: Place) -> None:
        place.hub.trouble(BIG, SourceTrouble(status=503, headers={"Retry-After": "1"}))
        (retry,) = (entry for entry in place.run().entries if entry["event"] == "retry")
        assert "trying again in 1.0 s" in retry["message"]


class TestEndpoints:
    @pytest.mark.parametrize("form", ["{}", "{}/", "{}/storage/v1/"])
    def test_a_storage_endpoint_may_be_spelled_as_the_provider_spells_it(self, place: Place, form: str) -> None:
        place.environ["STORAGE_ENDPOINT"] = form.format(place.storage.url)
        assert place.run().code == 0

    def test_an_emulator_s_host_and_port_will_do(self, place: Place) -> None:
        del place.environ["STORAGE_ENDPOINT"]
        place.environ["STORAGE_EMULATOR_HOST"] = place.storage.url.removeprefix("http://")
        assert place.run().code == 0

    def test_a_metadata_host_may_be_an_address(self, place: Place) -> None:
        place.environ["GCE_METADATA_HOST"] = f"http://{place.storage.metadata_host}/"
        assert place.run().code == 0
