"""One run: a whole copy, a second one, a branch that moves, and the check of a filled bucket."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.containers.stage.copies import (
    BIG,
    KIB,
    MANIFEST,
    MIB,
    MODEL,
    NOT_FOR_SERVING,
    SMALL,
    MakePlace,
    Place,
    bytes_of,
)
from tests.fakes.google import FakeGoogle
from tests.fakes.hub import COMMIT


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
