"""From a first token to a specification that can be gone back to, and what is taken away on that way and when."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.tpu_machine import BUCKET, HF_TOKEN, MANIFEST, PREFIX, REGISTRY, TpuMachine

SECRET, OTHER_SECRET = (f"projects/demo-project/secrets/{name}" for name in ("hf", "other"))
OTHER_TOKEN = "hf_PlantedHuggingFaceToken0002"
OTHER_IMAGE, THIRD_IMAGE = (f"{REGISTRY}/demo/gemma4/vllm-tpu:{version}" for version in ("v0.33.0", "v0.34.0"))
OTHER_PREFIX = "google/gemma-4-other/main"


@pytest.fixture
def serving(tpu: TpuMachine) -> TpuMachine:
    """With spec-a serving, from the bucket and with a token. Nothing proves itself, unless a test shortens the time."""
    tpu.configure(STABLE_S="60")
    tpu.stage(OTHER_PREFIX)
    tpu.add_secret("other", OTHER_TOKEN)
    for image in (OTHER_IMAGE, THIRD_IMAGE):
        tpu.machine.docker.publish(image)
    tpu.serve("spec-a", hfTokenSecret=SECRET)
    tpu.machine.actions.clear()
    return tpu


@pytest.fixture
def quick(serving: TpuMachine) -> TpuMachine:
    """The same where a server proves itself within a moment."""
    serving.restart(STABLE_S="0.1")
    serving.until(lambda: len(serving.said("wanted")) == 2, "the specification to be read")
    serving.until_serving("spec-a")
    return serving


def other(tpu: TpuMachine, **changes: Any) -> dict[str, Any]:
    """What makes a specification differ from the first one in everything that has to be fetched."""
    weights = [{"bucket": BUCKET, "prefix": OTHER_PREFIX, "destination": tpu.destination(OTHER_PREFIX)}]
    return {"image": OTHER_IMAGE, "weights": weights, "hfTokenSecret": OTHER_SECRET, **changes}


def remembered(tpu: TpuMachine) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((tpu.state / "state.json").read_text())
    return state


class TestASpecificationThatServes:
    def test_a_serving_specification_is_good_at_once_where_nothing_was_good_before(self, serving: TpuMachine) -> None:
        assert remembered(serving)["good"]["spec"]["hash"] == "spec-a"

    def test_a_serving_specification_has_yet_to_prove_itself_where_something_was(self, serving: TpuMachine) -> None:
        serving.serve("spec-b", **other(serving))
        assert remembered(serving)["good"]["spec"]["hash"] == "spec-a"
        assert Path(serving.destination(), "config.json").exists()
        assert len(serving.machine.docker.local) == 2
        assert len(serving.token_files) == 2
        assert not serving.said("cleaned")

    def test_a_serving_specification_has_proven_itself_after_a_while_and_what_came_before_goes(
        self, quick: TpuMachine
    ) -> None:
        cache = quick.shm / "xla-cache"
        cache.mkdir()
        quick.serve("spec-b", **other(quick))
        quick.until(lambda: quick.said("cleaned"), "the cleaning")
        assert cache.exists()  # compiled programs are what makes the next start quick
        assert [entry["hash"] for entry in quick.said("proven")] == ["spec-b"]
        assert remembered(quick)["good"]["spec"]["hash"] == "spec-b"
        assert not Path(quick.destination()).exists()
        assert Path(quick.destination(OTHER_PREFIX), "config.json").exists()
        assert list(quick.machine.docker.local) == [OTHER_IMAGE]
        (token,) = quick.token_files
        assert token.read_text() == OTHER_TOKEN

    def test_a_serving_specification_that_fails_three_times_gives_way_with_what_is_still_here(
        self, serving: TpuMachine
    ) -> None:
        serving.serve("spec-b", **other(serving))
        serving.metadata.away = "503"  # nobody helps
        for _ in range(3):
            serving.until_serving("spec-b")
            serving.container.end(1)
            serving.until(lambda: not serving.serves("spec-b"), "the end to be seen")
        serving.until_trouble("rejected", "spec-a comes back")
        serving.until_serving("spec-a")
        assert serving.machine.actions.count("pull") == 1

    def test_a_serving_specification_that_is_no_longer_desired_costs_the_desired_one_nothing(
        self, quick: TpuMachine
    ) -> None:
        quick.want("spec-b", **other(quick, image=f"{REGISTRY}/demo/gemma4/missing:1"))
        quick.until_trouble("image")
        quick.until(Path(quick.destination(OTHER_PREFIX), "model.safetensors").exists, "its weights")
        quick.container.end(1)
        quick.until_serving("spec-a")
        assert Path(quick.destination(OTHER_PREFIX), "model.safetensors").exists()


class TestMemory:
    def test_memory_is_made_free_of_what_is_not_needed_before_a_specification_is_fetched(
        self, serving: TpuMachine
    ) -> None:
        cut_off = Path(serving.destination("google/abandoned/main"))
        cut_off.mkdir(parents=True)
        (cut_off / "model.safetensors.gemma4-part").write_bytes(b"x")
        serving.want("spec-b", **other(serving, image=f"{REGISTRY}/demo/gemma4/missing:1"))
        serving.until(Path(serving.destination(OTHER_PREFIX), "model.safetensors").exists, "the weights of spec-b")
        assert not cut_off.exists()
        assert serving.serves("spec-a")
        assert Path(serving.destination(), "config.json").exists()

    def test_memory_is_made_free_of_what_was_rejected_once_it_is_not_wanted_any_more(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").dies_with = 1
        serving.want("spec-b", **other(serving))
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        assert Path(serving.destination(OTHER_PREFIX)).exists()
        serving.want("spec-a", hfTokenSecret=SECRET)
        serving.until(lambda: not Path(serving.destination(OTHER_PREFIX)).exists(), "the weights of spec-b to go")
        assert not serving.errors

    def test_memory_is_made_free_of_models_that_the_command_does_not_name(self, quick: TpuMachine) -> None:
        home = quick.shm / "huggingface"
        kept, gone = home / "hub" / "models--google--gemma-4-tiny", home / "hub" / "models--google--gemma-4-tiny-it"
        for folder in (kept, gone):
            folder.mkdir(parents=True)
            (folder / "blob").write_bytes(b"x")
        quick.want("spec-b", weights=[], env={"HF_HOME": str(home)})
        quick.until(lambda: quick.said("proven"), "the proof")
        quick.until(lambda: not gone.exists(), "the model to go")
        assert kept.exists()


class TestTheDisk:
    def test_the_disk_keeps_no_image_of_a_specification_that_was_abandoned(self, quick: TpuMachine) -> None:
        quick.want("spec-b", **other(quick, weights=[{**other(quick)["weights"][0], "prefix": "missing"}]))
        quick.until_trouble("weights")
        quick.until(lambda: OTHER_IMAGE in quick.machine.docker.local, "the image of spec-b")
        quick.want("spec-c", image=THIRD_IMAGE)
        quick.until(lambda: quick.said("proven"), "the proof")
        quick.until(lambda: list(quick.machine.docker.local) == [THIRD_IMAGE], "the other images to go")

    def test_the_disk_loses_what_only_going_back_would_need_where_a_pull_has_no_room(self, serving: TpuMachine) -> None:
        serving.restart(IMAGE_GIB="1e9")
        serving.until(lambda: len(serving.said("wanted")) == 2, "the specification to be read")
        serving.serve("spec-b", **other(serving))
        assert len(serving.machine.docker.local) == 2  # what runs is never removed, and so stays to go back to
        serving.serve("spec-c", **other(serving, image=THIRD_IMAGE))
        assert set(serving.machine.docker.local) == {OTHER_IMAGE, THIRD_IMAGE}
        (removed,) = serving.said("image-removed")
        assert "GiB free" in removed["message"]
        serving.machine.docker.behaviour("spec-c").dies_with = 1
        serving.container.end(1)
        serving.until_trouble("rejected", "spec-a comes back")
        serving.until_serving("spec-a")  # its image is pulled again

    def test_the_disk_keeps_in_mind_an_image_that_could_not_be_removed(self, quick: TpuMachine) -> None:
        quick.machine.docker.refusals["image rm"] = "conflict: unable to delete (cannot be forced)"
        quick.want("spec-b", **other(quick))
        quick.until(lambda: quick.said("image-kept"), "the refusal")
        assert len(quick.machine.docker.local) == 2
        del quick.machine.docker.refusals["image rm"]
        quick.want("spec-c", **other(quick))
        quick.until(lambda: list(quick.machine.docker.local) == [OTHER_IMAGE], "the old image to go")


class TestTheTokenOfASecret:
    def test_the_token_is_not_touched_by_a_specification_with_another_one(self, serving: TpuMachine) -> None:
        serving.want("spec-b", **other(serving, image=f"{REGISTRY}/demo/gemma4/missing:1"))
        serving.until(lambda: OTHER_TOKEN in tokens(serving), "the token of spec-b")
        serving.google.fault("GET", ":access", status=403, times=10_000)
        serving.container.end(1)
        serving.until_serving("spec-a")
        assert list(serving.container.mounted.values()) == [HF_TOKEN]  # as it was, since only a restart needs it
        assert "HTTP 403" in serving.said("token-kept")[0]["message"]

    def test_the_token_is_read_again_at_each_start(self, serving: TpuMachine) -> None:
        serving.add_token("hf", OTHER_TOKEN)
        serving.container.end(1)
        serving.until_serving("spec-a")
        assert list(serving.container.mounted.values()) == [OTHER_TOKEN]

    def test_the_token_stays_hidden_in_what_an_adopted_container_says(self, serving: TpuMachine) -> None:
        serving.restart()
        serving.until(lambda: serving.said("adopted"), "the adoption")
        serving.machine.docker.behaviour("spec-a").last_output = f"401 with Bearer {HF_TOKEN}"
        serving.container.end(1)
        serving.until(lambda: any("[secret]" in entry["message"] for entry in serving.said("trouble")), "its words")


class TestATroubleIsOver:
    def test_a_trouble_is_over_when_what_was_to_come_back_is_given_up_for_the_desired_one(
        self, serving: TpuMachine
    ) -> None:
        serving.reboot()
        serving.google.storage.put_text(BUCKET, f"{PREFIX}/{MANIFEST}", "no manifest")
        serving.start()
        serving.until_trouble("weights", "is not a manifest")
        serving.serve("spec-b", **other(serving))
        assert not serving.errors

    def test_a_trouble_is_over_of_a_rejection_when_what_is_wanted_serves(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").dies_with = 1
        serving.want("spec-b")
        serving.until(lambda: "run spec-b" in serving.machine.actions, "spec-b to start")
        hold = serving.machine.docker.holds.setdefault("pull", threading.Event())
        serving.want("spec-c", image=OTHER_IMAGE)
        serving.until_trouble("rejected")
        hold.set()
        serving.until_serving("spec-c")
        assert not serving.errors
        assert not remembered(serving)["rejected"]


def tokens(tpu: TpuMachine) -> list[str]:
    return [path.read_text() for path in tpu.token_files]
