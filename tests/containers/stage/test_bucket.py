"""The bucket: uploads that break off, are forgotten, refused, or changed by another run."""

from __future__ import annotations

import pytest

from tests.containers.stage.copies import (
    BIG,
    KIB,
    MANIFEST,
    MIB,
    MODEL,
    SMALL,
    Place,
    Run,
    until,
)
from tests.fakes.faulty_bucket import BucketTrouble
from tests.fakes.hub import HubTrouble


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
        kept = BucketTrouble(status=503, takes=512 * KIB)
        place.storage.trouble(f"model/{BIG}", BucketTrouble(takes=256 * KIB), kept, BucketTrouble(status=429, takes=0))
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]
        assert place.hub.reads(BIG) == [""], "what was in memory was not read again"

    def test_a_lost_answer_to_the_last_byte_is_not_a_second_upload(self, place: Place) -> None:
        name = "model/config.json"
        place.storage.trouble(name, BucketTrouble(takes=None))
        assert place.run().code == 0
        assert place.stored("config.json") == MODEL["config.json"]
        assert len(place.storage.uploads_of(name)) == 1

    def test_a_forgotten_session_starts_that_file_again_and_no_other(self, place: Place) -> None:
        place.storage.trouble(f"model/{BIG}", BucketTrouble(takes=None, status=308), BucketTrouble(status=410))
        assert place.run().code == 0
        assert place.stored(BIG) == MODEL[BIG]
        assert [upload.state for upload in place.storage.uploads_of(f"model/{BIG}")] == ["lost", "finished"]
        assert place.hub.reads(SMALL) == [""]

    def test_a_bucket_that_takes_nothing_is_given_up_on(self, place: Place) -> None:
        place.storage.trouble(f"model/{BIG}", *[BucketTrouble(status=503)] * 20)
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
        place.hub.trouble(BIG, HubTrouble(after=2 * MIB, hold=True))
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
