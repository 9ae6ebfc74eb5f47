"""The supervisor as a process of its own: how a desired specification comes to be served, or is not.

`TpuMachine.close`, which ends each test, fails if a planted token can be read in anything that the supervisor wrote,
ran or reported during that test.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.supervisor.test_supervisor_readme import first_column
from tests.fakes.google.wire import error_body
from tests.fakes.tpu_machine import (
    ADDRESS,
    BUCKET,
    HF_TOKEN,
    MANIFEST,
    MODEL,
    NAME,
    PREFIX,
    QUICK,
    REGISTRY,
    TpuMachine,
)

SECRET = "projects/demo-project/secrets/hf"
OTHER_IMAGE = f"{REGISTRY}/demo/gemma4/vllm-tpu:v0.33.0"


@pytest.fixture(scope="class")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpuMachine]:
    """One machine where spec-a serves, for tests that only look."""
    machine = TpuMachine(tmp_path_factory.mktemp("served"))
    machine.stage()
    machine.serve("spec-a")
    yield machine
    machine.close()


class TestASpecificationIsServed:
    def test_a_specification_is_served_to_gateways_once_it_has_generated(self, tpu: TpuMachine) -> None:
        tpu.want("spec-a")
        tpu.machine.docker.behaviour("spec-a").healthy = False
        tpu.start()
        tpu.until(lambda: tpu.machine.docker.container and tpu.container.looks >= 3, "some looks at the container")
        status, answer = tpu.ask(f"/ready/{NAME}")
        assert (status, answer["why"]) == (503, "spec-a is starting")
        tpu.machine.docker.behaviour("spec-a").healthy = True
        tpu.until_serving("spec-a")
        assert tpu.machine.actions == ["pull", "run spec-a"]
        assert tpu.container.questions >= 1
        assert not tpu.errors

    def test_a_specification_is_served_in_a_container_as_vllm_on_a_tpu_needs_it(self, served: TpuMachine) -> None:
        container = served.container
        assert container.options["--network"] == ["host"]
        assert container.command[:3] == ["vllm", "serve", served.destination()]
        assert container.argument("--host") == ADDRESS  # the machine's own address, not every address
        assert container.options["--stop-timeout"] == ["45"]  # also where the machine stops it
        assert container.env == {"VLLM_XLA_CACHE_PATH": "/dev/shm/xla-cache"}

    def test_a_specification_is_served_with_the_chips_and_nothing_else_of_the_machine(self, served: TpuMachine) -> None:
        options = served.container.options
        assert "--privileged" not in options
        assert options["--device"] == [f"{served.folder}/dev/vfio:/dev/vfio"]
        assert options["--cap-add"] == ["SYS_RESOURCE"]
        assert options["--ulimit"] == ["memlock=-1:-1"]  # a chip cannot write to memory beyond the limit
        weights = served.shm / "weights"
        assert options["--volume"] == ["/dev/shm:/dev/shm", f"{weights}:{weights}:ro"]

    def test_a_specification_is_served_with_all_of_the_machine_only_where_that_is_asked_for_or_no_chip_is_found(
        self, tpu: TpuMachine
    ) -> None:
        tpu.serve("spec-a", privileged=True)
        assert "--privileged" in tpu.container.options
        assert not tpu.said("privileged")
        (tpu.folder / "dev" / "vfio").rmdir()
        tpu.serve("spec-b")
        assert "--privileged" in tpu.container.options
        assert "dev/vfio" in tpu.said("privileged")[0]["message"]

    def test_a_specification_is_served_with_the_weights_that_the_bucket_holds(self, served: TpuMachine) -> None:
        folder = Path(served.destination())
        assert {name: (folder / name).read_bytes() for name in MODEL} == MODEL
        assert not list(folder.rglob("*.gemma4-part"))

    def test_a_specification_is_served_from_a_registry_that_it_logged_in_to_for_just_that(
        self, served: TpuMachine
    ) -> None:
        assert served.machine.docker.logins == [(f"https://{REGISTRY}", served.metadata.issued[0])]
        (login,), (pull,) = served.machine.ran("docker", "login"), served.machine.ran("docker", "pull")
        assert login.environ["DOCKER_CONFIG"] == pull.environ["DOCKER_CONFIG"]
        assert not Path(login.environ["DOCKER_CONFIG"]).exists()

    def test_a_specification_is_served_with_a_token_that_only_a_file_of_roots_holds(self, tpu: TpuMachine) -> None:
        tpu.serve("spec-hf", weights=[], hfTokenSecret=SECRET)
        inside = tpu.container.env["HF_TOKEN_PATH"]
        assert tpu.container.mounted[inside] == HF_TOKEN
        (volume,) = [each for each in tpu.container.options["--volume"] if inside in each]
        outside = Path(volume.split(":")[0])
        assert outside.stat().st_mode & 0o777 == 0o600
        assert volume.endswith(":ro")

    def test_a_specification_is_served_as_the_status_says_in_the_file_and_in_the_guest_attributes(
        self, served: TpuMachine
    ) -> None:
        assert served.status["wanted"] == served.status["running"] == "spec-a"
        assert served.status["ready"] == [NAME]
        assert first_column("Status") == set(served.status)
        served.until(lambda: json.loads(served.metadata.reports[-1])["stage"] == "serving", "a report")


class TestAChange:
    def test_a_change_is_live_within_five_seconds_at_production_rhythm(self, tpu: TpuMachine) -> None:
        for name in QUICK:
            del tpu.environ[f"GEMMA4_{name}"]
        tpu.serve("spec-a")
        tpu.want("spec-b")
        took_s = tpu.until(lambda: tpu.serves("spec-b"), "spec-b to serve")
        assert took_s < 5

    def test_a_change_fetches_first_then_stops_what_serves(self, serving: TpuMachine) -> None:
        serving.serve("spec-b")
        assert serving.machine.actions == ["pull", "stop", "run spec-b"]
        (stop,) = serving.machine.ran("docker", "stop")
        assert list(stop.arguments[1:3]) == ["-t", "45"]

    def test_a_change_gives_a_server_out_of_reach_as_long_as_any_other(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-a").generates = False
        serving.until_refused()
        serving.serve("spec-b", drainSeconds=46)
        (stop,) = serving.machine.ran("docker", "stop")
        assert list(stop.arguments[1:3]) == ["-t", "45"]  # answers under way may still be there

    def test_a_change_of_times_only_restarts_nothing(self, serving: TpuMachine) -> None:
        before = serving.container.id
        serving.want("spec-a", readyTimeoutSeconds=77)
        serving.until(lambda: len(serving.said("wanted")) == 2, "the new specification")
        serving.serve("spec-b")
        assert serving.machine.docker.past[0].id == before
        assert len(serving.machine.docker.past) == 1

    def test_a_change_fetches_no_weights_twice(self, serving: TpuMachine) -> None:
        serving.google.clear()
        serving.serve("spec-b")
        media = [each.path for each in serving.google.requests if each.query.get("alt") == "media"]
        assert [path.rsplit("%2F")[-1] for path in media] == [MANIFEST]

    def test_a_change_of_the_bucket_below_the_same_prefix_replaces_what_differs(self, serving: TpuMachine) -> None:
        serving.stage(files={"config.json": b"{}", "model.safetensors": MODEL["model.safetensors"]})
        serving.serve("spec-b")
        folder = Path(serving.destination())
        assert (folder / "config.json").read_bytes() == b"{}"
        assert not (folder / "empty.txt").exists()


class TestTheNewestSpecificationWins:
    def test_the_newest_specification_wins_over_one_that_is_still_being_fetched(self, serving: TpuMachine) -> None:
        hold = serving.machine.docker.holds.setdefault("pull", threading.Event())
        serving.want("spec-b")
        serving.until(lambda: "pull" in serving.machine.actions, "the pull of spec-b")
        serving.want("spec-c")
        serving.until(lambda: serving.said("abandoned"), "spec-b to be abandoned")
        serving.until(lambda: len(serving.children("pull")) == 1, "the first of two pulls to be ended")
        hold.set()
        serving.until_serving("spec-c")
        assert "run spec-b" not in serving.machine.actions

    def test_the_newest_specification_wins_over_one_that_is_starting(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").healthy = False
        serving.want("spec-b")
        serving.until(lambda: "run spec-b" in serving.machine.actions, "spec-b to start")
        serving.serve("spec-c")
        assert serving.taken == [True, False, True]  # spec-b never was

    def test_the_newest_specification_wins_over_one_that_crashes_again_and_again(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").dies_with = 1
        serving.restart(START_TRIES="1000")
        serving.want("spec-b")
        serving.until(lambda: serving.machine.actions.count("run spec-b") >= 2, "a second try")
        serving.serve("spec-c")

    def test_the_newest_specification_wins_while_the_old_one_in_backoff_is_started_again(self, tpu: TpuMachine) -> None:
        tpu.configure(RESTART_S="0.3", RESTART_CAP_S="0.3")
        tpu.serve("spec-a")
        tpu.machine.actions.clear()
        tpu.machine.docker.publish(OTHER_IMAGE)
        hold = tpu.machine.docker.holds.setdefault("pull", threading.Event())
        tpu.container.end(1)
        tpu.until(lambda: tpu.status["stage"] == "backoff", "the rest")
        tpu.want("spec-b", image=OTHER_IMAGE)
        tpu.until(lambda: "pull" in tpu.machine.actions, "the pull of spec-b")
        tpu.until_serving("spec-a")
        hold.set()
        tpu.until_serving("spec-b")

    def test_the_newest_specification_wins_and_what_has_all_that_it_needs_to_come_back_comes_back(
        self, serving: TpuMachine
    ) -> None:
        serving.machine.docker.publish(OTHER_IMAGE)
        holds = serving.machine.docker.holds
        holds |= {"image inspect": threading.Event(), "pull": threading.Event()}
        serving.container.end(1)
        serving.until(lambda: serving.status["stage"] == "restoring", "the return")
        serving.want("spec-b", image=OTHER_IMAGE)
        serving.until(lambda: "pull" in serving.machine.actions, "the pull of spec-b")
        holds.pop("image inspect").set()
        serving.until_serving("spec-a")
        holds["pull"].set()
        serving.until_serving("spec-b")

    def test_the_newest_specification_wins_and_one_that_is_withdrawn_leaves_everything_as_it_was(
        self, serving: TpuMachine
    ) -> None:
        before = serving.container.id
        serving.want("spec-b", image=OTHER_IMAGE)
        serving.until_trouble("image")
        serving.until(lambda: serving.status["preparing"] == "spec-b", "the status to say so")
        serving.want("spec-a")
        serving.until(lambda: serving.status["preparing"] is None, "spec-b to be dropped")
        assert not serving.errors
        assert serving.container.id == before
        assert serving.serves("spec-a")


class TestWhatCannotBeFetchedCostsNothingThatServes:
    def test_registry_refuses(self, serving: TpuMachine) -> None:
        refusals = serving.machine.docker.refusals
        denied = 'denied: Permission "downloadArtifacts" denied (403 Forbidden)'
        refusals |= {"login": denied, "pull": denied}
        serving.want("spec-b")
        for verb in ("login", "pull"):
            assert "roles/artifactregistry.reader" in serving.until_trouble("image", f"docker {verb}")
            assert serving.serves("spec-a")
            del refusals[verb]
        serving.until_serving("spec-b")
        assert not serving.errors

    def test_image_is_missing(self, serving: TpuMachine) -> None:
        serving.want("spec-b", image=OTHER_IMAGE)
        serving.until_trouble("image", "no such image or tag")
        assert serving.serves("spec-a")
        serving.serve("spec-c")
        assert "run spec-b" not in serving.machine.actions

    def test_weights_are_missing(self, serving: TpuMachine) -> None:
        serving.want("spec-b", weights=[_weights(serving, "google/other/main")])
        serving.until_trouble("weights", f"gs://{BUCKET}/google/other/main/{MANIFEST} does not exist")
        assert serving.serves("spec-a")
        serving.stage("google/other/main")
        serving.until_serving("spec-b")
        assert not serving.errors

    @pytest.mark.parametrize("damage", [b"\1", b""], ids=["other bytes", "truncated"])
    def test_weights_are_corrupt(self, serving: TpuMachine, damage: bytes) -> None:
        prefix, whole = "google/other/main", MODEL["model.safetensors"]
        serving.stage(prefix)
        serving.google.storage.store(BUCKET, f"{prefix}/model.safetensors", whole[:-1] + damage, {})
        serving.want("spec-b", weights=[_weights(serving, prefix)])
        serving.until_trouble("weights")
        assert ("SHA-256" if damage else "not as long as") in serving.errors["weights"]
        assert not Path(serving.destination(prefix), "model.safetensors").exists()
        assert serving.serves("spec-a")
        serving.google.storage.store(BUCKET, f"{prefix}/model.safetensors", whole, {})
        serving.until_serving("spec-b")

    def test_bucket_refuses(self, serving: TpuMachine) -> None:
        rule = serving.google.fault("GET", "/o/", status=403, times=10_000)
        serving.want("spec-b")
        serving.until_trouble("weights", "roles/storage.objectViewer")
        rule.times = 0
        serving.until_serving("spec-b")

    def test_bucket_breaks_off_and_is_gone_on_with(self, tpu: TpuMachine) -> None:
        tpu.google.fault("GET", "model.safetensors", drop="before", times=3)
        tpu.google.fault("GET", "model.safetensors", status=503)
        tpu.serve("spec-a")
        assert "weights" not in [entry.get("where") for entry in tpu.said("trouble")]

    @pytest.mark.parametrize(("status", "word"), [(403, "roles/secretmanager.secretAccessor"), (404, "not exist")])
    def test_secret_cannot_be_read(self, serving: TpuMachine, status: int, word: str) -> None:
        rule = serving.google.fault("GET", ":access", status=status, times=10_000, body=error_body(status, "no"))
        serving.want("spec-b", weights=[], hfTokenSecret=SECRET)
        serving.until_trouble("token")
        assert word in serving.errors["token"]
        assert serving.serves("spec-a")
        rule.times = 0
        serving.until_serving("spec-b")


class TestAMalformedSpecification:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("{not json", ["not JSON"]),
            ('{"schema": 1, "servers": 8000, "colour": 1}', ["colour is not known", "servers is not a list", "image"]),
        ],
    )  # fmt: skip
    def test_a_malformed_specification_is_reported_and_changes_nothing(
        self, serving: TpuMachine, text: str, words: list[str]
    ) -> None:
        before = serving.container.id
        serving.metadata.set("gemma4-spec", text)
        serving.until_trouble("spec")
        assert all(word in serving.errors["spec"] for word in words)
        assert serving.serves("spec-a")
        assert serving.container.id == before
        serving.serve("spec-b")
        assert not serving.errors

    def test_a_malformed_specification_that_carries_a_token_is_refused_without_repeating_it(
        self, serving: TpuMachine
    ) -> None:
        leaked = "hf_SomebodyPutThisIntoMetadata42"
        serving.want("spec-b", env={"HF_TOKEN": leaked})
        serving.until_trouble("spec", "hfTokenSecret")
        assert leaked not in serving.output.read_text() + json.dumps(serving.status)
        assert serving.serves("spec-a")

    def test_a_missing_specification_is_waited_for(self, tpu: TpuMachine) -> None:
        tpu.start()
        tpu.until_trouble("spec", "no attribute gemma4-spec")
        tpu.serve("spec-a")


def _weights(tpu: TpuMachine, prefix: str = PREFIX) -> dict[str, str]:
    return {"bucket": BUCKET, "prefix": prefix, "destination": tpu.destination(prefix)}
