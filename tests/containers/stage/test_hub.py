"""The Hub: what is believed of it, who may read it, and content that breaks off or is wrong."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from containers.weights.gemma4_stage import connections
from containers.weights.gemma4_stage.exit_codes import CopyFailure
from tests.containers.stage.copies import (
    BIG,
    KIB,
    MANIFEST,
    MIB,
    MODEL,
    MakePlace,
    Place,
    make_files,
)
from tests.fakes.hub import COMMIT, HubTrouble


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
        elsewhere = make_place({"config.json": b"{}"})
        place.hub.listing_at = f"{elsewhere.hub.url}/api/models/{place.hub.repo}/revision/{COMMIT}"
        assert elsewhere.hub.url in self.distrusted(place)
        assert elsewhere.hub.hub_requests == []

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
            with pytest.raises(CopyFailure) as caught:
                connections.refuse_redirect(source, target, leaves)
            assert caught.value.code == 9


class TestABrokenSource:
    """A truncated or damaged file never appears under its final name."""

    def test_a_cut_download_goes_on_where_it_broke_off(self, place: Place) -> None:
        place.hub.trouble(BIG, HubTrouble(after=MIB), HubTrouble(after=MIB), HubTrouble(status=503))
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]
        assert place.hub.reads(BIG) == ["", f"bytes={MIB}-", f"bytes={2 * MIB}-", f"bytes={2 * MIB}-"]

    def test_a_source_that_ignores_ranges_is_read_past_what_is_there(self, place: Place) -> None:
        place.hub.ignores_range = True
        place.hub.trouble(BIG, HubTrouble(after=MIB + 5))
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]

    def test_an_expired_cdn_address_is_asked_for_again_and_not_taken_for_a_refusal(self, place: Place) -> None:
        place.hub.trouble(BIG, HubTrouble(after=MIB), HubTrouble(status=403))
        assert place.run().code == 0
        asked = [seen for seen in place.hub.hub_requests if seen.path.endswith(BIG)]
        assert len([seen for seen in asked if seen.headers.get("range") != "bytes=0-0"]) == 3

    def test_a_source_that_stays_cut_leaves_nothing_under_the_final_name(self, place: Place) -> None:
        place.hub.trouble(BIG, HubTrouble(after=MIB), *[HubTrouble(status=503)] * 9)
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
