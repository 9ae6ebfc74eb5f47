"""A checkpoint of one's own from end to end: a stack names it, `gemma4 pin` counts it, and the plan deploys just that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.catalog import catalog
from infra.catalog.checkpoint_lock import NAME as LOCK
from infra.catalog.checkpoint_lock import read_checkpoints
from infra.ops.pinning import pin_checkpoint
from infra.ops.plan_inputs import plan_stack
from infra.planning.artifacts import MANIFEST
from tests.fakes.checkpoints import FakeCheckpoint, checkpoint, compressed, configuration, fp8, quantised, tensors
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.fakes.hub_headers import COMMIT, TOKEN, HubOfHeaders
from tests.projects import Answer, Capture, command, write_stack

A12B = catalog().architectures["12b"]
TUNED = "acme/gemma-4-12b-support"
FP8 = compressed("float", 8, {"dynamic": True})


def fine_tune() -> FakeCheckpoint:
    return checkpoint(configuration(A12B), tensors(A12B), 5)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubOfHeaders]:
    fake = HubOfHeaders({TUNED: fine_tune()})
    monkeypatch.setenv("HF_ENDPOINT", fake.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield fake
    fake.close()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_stack(tmp_path, f"gemma4:checkpoint: {TUNED}", model="gemma-4-12b-it", accelerator="rtx-pro-6000")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestFromTheHub:
    def test_what_was_refused_is_planned_once_it_is_pinned(
        self, hub: HubOfHeaders, project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gemma4 = command(capsys)
        refused = gemma4("plan", "mine", "--json")
        assert refused.code == 3
        (fault,) = refused.data["refusals"]
        asked = re.match(r"Run: gemma4 (pin \S+), ", fault["fix"])
        assert asked

        hub.gated.add(TUNED)
        denied = gemma4(*asked[1].split())
        assert denied.code == 1
        assert "is gated: accept the licence" in denied.out
        assert not (project / LOCK).exists()

        monkeypatch.setenv("HF_TOKEN", TOKEN)
        pinned = gemma4("pin", TUNED)
        assert pinned.code == 0
        assert "12b in bf16, 22.28 GiB" in pinned.out
        assert "gemma4:model: gemma-4-12b-it" in pinned.out

        planned = gemma4("plan", "mine", "--resources", "--json")
        assert planned.code == 0
        self._assert_deployed(planned)

    def _assert_deployed(self, planned: Answer) -> None:
        """Everything that a plan creates is of the fine-tune: copy, mount, command, check, and what is to be done before."""
        folder = f"{TUNED}/{COMMIT}"
        weights = planned.data["model"]["weights"][0]
        assert (weights["hubId"], weights["revision"], weights["pinned"]) == (TUNED, COMMIT, True)
        files = fine_tune().sizes.items()
        assert weights["bytes"] == sum(size for name, size in files if name.endswith(".safetensors"))
        argv = planned.data["vllm"]["argv"]
        assert argv[2] == f"/mnt/weights/{folder}"
        assert argv[argv.index("--served-model-name") + 1] == TUNED
        rows = {row["name"]: row.get("inputs", {}) for row in planned.data["resources"]}
        copy = next(inputs for name, inputs in rows.items() if name.endswith("copy-0"))
        assert (copy["prefix"], copy["repository"], copy["revision"]) == (folder, TUNED, COMMIT)
        assert "google/gemma-4-12B-it" not in json.dumps(planned.data["resources"])
        assert any(f"{TUNED} is gated" in note for note in planned.data["notes"])

    def test_the_plan_differs_from_the_models_own_by_the_checkpoint(
        self, hub: HubOfHeaders, project: Path, capsys: Capture
    ) -> None:
        assert command(capsys)("pin", TUNED).code == 0
        own = plan_stack("mine", ["checkpoint=null"], root=project).plan
        tuned = plan_stack("mine", root=project).plan
        assert tuned.memory.weights.mid == pytest.approx(own.memory.weights.mid, rel=0.015)
        assert tuned.speed.alone.total.mid == pytest.approx(own.speed.alone.total.mid, rel=1e-3)
        assert tuned.weights != own.weights

    def test_fp8_takes_what_its_headers_say(self, hub: HubOfHeaders, project: Path, capsys: Capture) -> None:
        narrow = quantised(tensors(A12B), fp8)
        hub.checkpoints[TUNED] = checkpoint(configuration(A12B, quantization_config=FP8), narrow, 2)
        assert command(capsys)("pin", TUNED).code == 0
        one = plan_stack("mine", root=project).plan
        row = catalog().model("gemma-4-12b-it-fp8-dynamic")
        assert row.sizes is not None
        assert one.model.weight_format == "fp8"
        resident = one.server.weights.total
        assert resident == pytest.approx(row.sizes.total - row.sizes.lm_head, rel=0.001)
        assert "--quantization" not in one.command.argv

    def test_another_architecture_is_refused_by_the_plan_with_both_named(
        self, hub: HubOfHeaders, project: Path, capsys: Capture
    ) -> None:
        other = catalog().architectures["e4b"]
        hub.checkpoints[TUNED] = checkpoint(configuration(other), tensors(other))
        assert command(capsys)("pin", TUNED).code == 0
        (fault,) = plan_stack("mine", root=project).plan.refusals
        assert "e4b" in fault.fact
        assert "gemma-4-12b-it" in fault.fact
        assert fault.fix == "Write model: gemma-4-e4b-it."

    def test_json_names_both_files(self, hub: HubOfHeaders, project: Path, capsys: Capture) -> None:
        answer = command(capsys)("pin", f"{TUNED}@{COMMIT}", "acme/none", "--json")
        assert answer.code == 1
        assert answer.data["pinned"] == {TUNED: COMMIT}
        assert list(answer.data["failed"]) == ["acme/none"]
        assert answer.data["file"] is None
        assert Path(answer.data["checkpointsFile"]) == project / LOCK

    def test_what_fails_keeps_its_old_pin(self, hub: HubOfHeaders, project: Path, capsys: Capture) -> None:
        assert command(capsys)("pin", TUNED).code == 0
        before = (project / LOCK).read_text()
        hub.checkpoints[TUNED].put("config.json", {"model_type": "llama"})
        answer = command(capsys)("pin", TUNED)
        assert answer.code == 1
        assert "no Gemma 4" in answer.out
        assert (project / LOCK).read_text() == before


class TestFromAFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A folder whose one shard holds only its header and, as a hole, its claimed size."""
        folder = tmp_path / "tuned"
        folder.mkdir()
        small = {name: row for name, row in tensors(A12B).items() if "layers." not in name or ".0." in name}
        small["model.language_model.embed_tokens.weight"] = ("BF16", (64, A12B.hidden_size))
        small["model.vision_tower.encoder.weight"] = ("BF16", (64,))
        for name, (content, size) in checkpoint(configuration(A12B), small).files.items():
            with (folder / name).open("wb") as file:
                file.write(content)
                file.truncate(size)
        return folder

    def test_it_is_counted_listed_with_checksums_and_deployed_from_a_bucket(
        self, folder: Path, project: Path, capsys: Capture
    ) -> None:
        answer = command(capsys)("pin", "--folder", str(folder), TUNED)
        assert answer.code == 0
        manifest = json.loads((folder / MANIFEST).read_text())
        revision = manifest["revision"]
        assert {row["name"] for row in manifest["files"]} == {"config.json", "tokenizer.json", "model.safetensors"}
        assert f"gs://BUCKET/{TUNED}/{revision}/" in answer.out
        assert plan_stack("mine", root=project).plan.refusals[0].key == "weights.source"
        bucket = ["weights.source=existing", "weights.bucket=filled"]
        one = plan_stack("mine", bucket, root=project).plan
        assert one.refusals == ()
        assert one.weights[0].prefix == f"{TUNED}/{revision}"

    def test_another_byte_is_another_revision(self, folder: Path, project: Path, capsys: Capture) -> None:
        def revision() -> str:
            assert command(capsys)("pin", "--folder", str(folder), TUNED).code == 0
            return read_checkpoints(project)[TUNED].revision

        first = revision()
        assert revision() == first
        (folder / "tokenizer.json").write_text("{} ")
        assert revision() != first

    @pytest.mark.parametrize("words", [(), ("gpu",), ("gs://a-b/c",), (TUNED, "acme/other"), (f"{TUNED}@main",)])
    def test_it_takes_one_name(self, folder: Path, project: Path, capsys: Capture, words: tuple[str, ...]) -> None:
        answer = command(capsys)("pin", "--folder", str(folder), *words)
        assert answer.code == 2
        assert "acme/gemma-4-12b-support" in answer.err

    def test_a_folder_that_is_not_there_is_one_sentence(self, project: Path, capsys: Capture) -> None:
        answer = command(capsys)("pin", "--folder", "nowhere", TUNED)
        assert answer.code == 1
        assert "nowhere is no folder" in answer.out


class TestFromABucket:
    NAME = "gs://filled/gemma/support"

    @pytest.fixture
    def google(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGoogle]:
        with FakeGoogle() as google:
            monkeypatch.setattr(pin_checkpoint, "google_session", lambda _: session(google))
            small = {name: row for name, row in tensors(A12B).items() if "layers." not in name or ".0." in name}
            small["model.language_model.embed_tokens.weight"] = ("BF16", (64, 64))
            small = {name: (dtype, tuple(min(64, side) for side in shape)) for name, (dtype, shape) in small.items()}
            one = checkpoint(configuration(A12B), small)
            rows = [{"name": name, "size": size, "sha256": "0" * 64} for name, size in one.sizes.items()]
            one.put(MANIFEST, {"repo": TUNED, "revision": COMMIT, "files": rows})
            for name, size in one.sizes.items():
                google.storage.put_text("filled", f"gemma/support/{name}", one.read(name, 0, size).decode("latin-1"))
            yield google

    def test_it_is_counted_by_ranges_and_read_from_its_own_folder(
        self, google: FakeGoogle, project: Path, capsys: Capture
    ) -> None:
        answer = command(capsys)("pin", self.NAME)
        assert answer.code == 0, answer.out
        assert read_checkpoints(project)[self.NAME].name == TUNED
        one = plan_stack("mine", [f"checkpoint={self.NAME}"], root=project).plan
        assert one.refusals == ()
        assert one.names.bucket == "filled"
        assert one.command.argv[2] == "/mnt/weights/gemma/support"
        assert one.command.argv[one.command.argv.index("--served-model-name") + 1] == TUNED

    def test_a_bucket_without_the_list_of_files_is_told_how_to_get_one(
        self, google: FakeGoogle, project: Path, capsys: Capture
    ) -> None:
        del google.storage.objects["filled", f"gemma/support/{MANIFEST}"]
        answer = command(capsys)("pin", self.NAME)
        assert answer.code == 1
        assert "gemma4 pin --folder DIR OWNER/NAME" in answer.out

    def test_a_file_that_was_cut_short_is_named(self, google: FakeGoogle, project: Path, capsys: Capture) -> None:
        google.storage.put_text("filled", "gemma/support/tokenizer.json", "")
        answer = command(capsys)("pin", self.NAME)
        assert answer.code == 1
        assert "the first is tokenizer.json" in answer.out


def test_names_without_an_owner_are_still_those_of_the_catalog(project: Path, capsys: Capture) -> None:
    answer = command(capsys)("pin", "gemma-4-12b-support")
    assert answer.code == 2
    assert "OWNER/NAME" in answer.err
