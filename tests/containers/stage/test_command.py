"""The command: its log, help, exit codes, endpoints, memory, secrets, and its end at any moment."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from containers import archive
from containers.weights.gemma4_stage.exit_codes import ExitCode
from tests.containers.packed import packed_stage
from tests.containers.stage.copies import (
    BIG,
    MANIFEST,
    MIB,
    MODEL,
    PYTHON,
    SMALL,
    MakePlace,
    Place,
    until,
)
from tests.fakes.faulty_bucket import BucketTrouble
from tests.fakes.hub import Content, HubTrouble, Pattern


class TestInterrupted:
    """Killed in the middle, the next run copies only what is missing."""

    def halfway(self, place: Place) -> subprocess.Popen[str]:
        """A run that has stored SMALL and half of BIG, and goes no further."""
        place.hub.trouble(BIG, HubTrouble(after=2 * MIB, hold=True))
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
        text, _ = process.communicate(timeout=30)
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


class TestSecrets:
    def test_the_hub_token_goes_to_the_hub_only_and_google_s_to_the_bucket_only(self, place: Place) -> None:
        place.hub.trouble(BIG, HubTrouble(after=MIB))
        place.storage.trouble(f"model/{BIG}", BucketTrouble(status=503))
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
            place.hub.trouble(BIG, *[HubTrouble(status=500)] * 9)
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
        command = [*PYTHON, "-c", self.PROBE, str(packed_stage()), *place.where]
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
        place.hub.trouble(BIG, HubTrouble(after=MIB))
        entries = place.run().entries
        assert {entry["severity"] for entry in entries} <= {"INFO", "WARNING"}
        assert all(isinstance(entry["message"], str) for entry in entries)
        assert [entry["event"] for entry in entries if entry["event"] in ("start", "complete")] == ["start", "complete"]

    def test_help_names_every_exit_code_and_environment_variable(self) -> None:
        code = "".join(path.read_text() for path in (archive.HERE / archive.STAGE).glob("*.py"))
        text = subprocess.run(
            [*PYTHON, str(packed_stage()), "--help"], capture_output=True, text=True, check=True
        ).stdout
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
