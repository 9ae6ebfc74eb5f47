"""The supervisor as a process of its own, under every fault that its surroundings can have.

`TpuMachine.close`, which ends each test, fails if a planted token can be read in anything that the supervisor wrote,
ran or reported during that test.
"""

from __future__ import annotations

import base64
import itertools
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from containers import archive
from tests.containers.test_supervisor_parts import first_column
from tests.fakes.docker import Behaviour, _Vllm
from tests.fakes.google.wire import error_body
from tests.fakes.tpu_machine import BUCKET, HF_TOKEN, MANIFEST, MODEL, PREFIX, QUICK, REGISTRY, TpuMachine

SECRET = "projects/demo-project/secrets/hf"
OTHER_IMAGE = f"{REGISTRY}/demo/gemma4/vllm-tpu:v0.33.0"


@pytest.fixture(scope="class")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TpuMachine]:
    """One machine where spec-a serves, for tests that only look."""
    machine = TpuMachine(tmp_path_factory.mktemp("served"))
    machine.stage()
    machine.want("spec-a")
    machine.start()
    machine.until_serving("spec-a")
    yield machine
    machine.close()


class TestASpecificationIsServed:
    def test_behind_a_closed_port_until_it_has_generated(self, tpu: TpuMachine) -> None:
        tpu.want("spec-a")
        tpu.machine.docker.behaviour("spec-a").healthy = False
        tpu.start()
        tpu.until(lambda: tpu.machine.docker.container and tpu.container.looks >= 3, "some looks at the container")
        assert tpu.machine.firewall.state == "closed"
        tpu.machine.docker.behaviour("spec-a").healthy = True
        tpu.until_serving("spec-a")
        assert tpu.machine.doings == ["pull", "port closed", "run spec-a", "port open"]
        assert tpu.container.questions >= 1
        assert not tpu.errors

    def test_in_a_container_as_vllm_on_a_tpu_needs_it(self, served: TpuMachine) -> None:
        container = served.container
        assert container.options["--network"] == ["host"]
        assert container.command[:3] == ["vllm", "serve", served.destination()]
        assert container.argument("--host") == "127.0.0.1"  # the machine's own address, not every address
        assert container.options["--stop-timeout"] == ["45"]  # also where the machine stops it
        assert container.env == {"VLLM_XLA_CACHE_PATH": "/dev/shm/xla-cache"}

    def test_with_the_chips_and_nothing_else_of_the_machine(self, served: TpuMachine) -> None:
        options = served.container.options
        assert "--privileged" not in options
        assert options["--device"] == [f"{served.folder}/dev/vfio:/dev/vfio"]
        assert options["--cap-add"] == ["SYS_RESOURCE"]
        assert options["--ulimit"] == ["memlock=-1:-1"]  # a chip cannot write to memory beyond the limit
        weights = served.shm / "weights"
        assert options["--volume"] == ["/dev/shm:/dev/shm", f"{weights}:{weights}:ro"]

    def test_with_older_chips_where_those_are(self, tpu: TpuMachine) -> None:
        (tpu.folder / "dev" / "vfio").rmdir()
        for name in ("accel1", "accel0"):
            (tpu.folder / "dev" / name).touch()
        tpu.want("spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
        expected = [f"{tpu.folder}/dev/{name}:/dev/{name}" for name in ("accel0", "accel1")]
        assert tpu.container.options["--device"] == expected

    def test_with_all_of_the_machine_only_where_that_is_asked_for_or_no_chip_is_found(self, tpu: TpuMachine) -> None:
        tpu.want("spec-a", privileged=True)
        tpu.start()
        tpu.until_serving("spec-a")
        assert "--privileged" in tpu.container.options
        assert not tpu.said("privileged")
        (tpu.folder / "dev" / "vfio").rmdir()
        tpu.want("spec-b")
        tpu.until_serving("spec-b")
        assert "--privileged" in tpu.container.options
        assert "dev/vfio" in tpu.said("privileged")[0]["message"]

    def test_with_the_weights_that_the_bucket_holds(self, served: TpuMachine) -> None:
        folder = Path(served.destination())
        assert {name: (folder / name).read_bytes() for name in MODEL} == MODEL
        assert not list(folder.rglob("*.gemma4-part"))

    def test_from_a_registry_that_it_logged_in_to_for_just_that(self, served: TpuMachine) -> None:
        assert served.machine.docker.logins == [(f"https://{REGISTRY}", served.metadata.issued[0])]
        (login,), (pull,) = served.machine.ran("docker", "login"), served.machine.ran("docker", "pull")
        assert login.environ["DOCKER_CONFIG"] == pull.environ["DOCKER_CONFIG"]
        assert not Path(login.environ["DOCKER_CONFIG"]).exists()

    def test_with_a_token_that_only_a_file_of_roots_holds(self, tpu: TpuMachine) -> None:
        tpu.want("spec-hf", weights=[], hfTokenSecret=SECRET)
        tpu.start()
        tpu.until_serving("spec-hf")
        inside = tpu.container.env["HF_TOKEN_PATH"]
        assert tpu.container.mounted[inside] == HF_TOKEN
        (volume,) = [each for each in tpu.container.options["--volume"] if inside in each]
        outside = Path(volume.split(":")[0])
        assert outside.stat().st_mode & 0o777 == 0o600
        assert volume.endswith(":ro")

    def test_and_the_status_says_so_in_the_file_and_in_the_guest_attributes(self, served: TpuMachine) -> None:
        assert served.status["wanted"] == served.status["running"] == "spec-a"
        assert served.status["port"] == "open"
        assert first_column("Status") == set(served.status)
        served.until(lambda: json.loads(served.metadata.reports[-1])["stage"] == "serving", "a report")

    def test_also_where_guest_attributes_are_off(self, tpu: TpuMachine) -> None:
        tpu.metadata.guest = False
        tpu.want("spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
        tpu.until(lambda: tpu.said("report"), "a word about it")
        assert len(tpu.said("report")) == 1


class TestAChange:
    def test_is_live_within_five_seconds_at_production_rhythm(self, tmp_path: Path) -> None:
        tpu = TpuMachine(tmp_path)
        for name in QUICK:
            del tpu.environ[f"GEMMA4_{name}"]
        tpu.program.write_bytes(archive.supervisor())
        tpu.metadata.set("gemma4-supervisor", archive.in_base64(archive.supervisor()))
        tpu.stage()
        tpu.want("spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
        tpu.want("spec-b")
        took_s = tpu.until(lambda: tpu.serves("spec-b"), "spec-b to serve")
        tpu.close()
        assert took_s < 5

    def test_fetches_first_then_lets_callers_go_then_stops_what_serves(self, serving: TpuMachine) -> None:
        serving.want("spec-b")
        serving.until_serving("spec-b")
        expected = ["pull", "port closing", "port closed", "stop", "run spec-b", "port open"]
        assert serving.machine.doings == expected
        (stop,) = serving.machine.ran("docker", "stop")
        assert list(stop.arguments[1:3]) == ["-t", "45"]

    def test_gives_a_server_out_of_reach_as_long_as_any_other(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-a").generates = False
        serving.until(lambda: serving.machine.firewall.state == "closed", "the port to close")
        serving.want("spec-b", drainSeconds=46)
        serving.until_serving("spec-b")
        (stop,) = serving.machine.ran("docker", "stop")
        assert list(stop.arguments[1:3]) == ["-t", "45"]  # answers under way may still be there

    def test_of_times_only_restarts_nothing(self, serving: TpuMachine) -> None:
        before = serving.container.id
        serving.want("spec-a", readyTimeoutSeconds=77)
        serving.until(lambda: len(serving.said("wanted")) == 2, "the new wish")
        serving.want("spec-b")
        serving.until_serving("spec-b")
        assert serving.machine.docker.past[0].id == before
        assert len(serving.machine.docker.past) == 1

    def test_fetches_no_weights_twice(self, serving: TpuMachine) -> None:
        serving.google.clear()
        serving.want("spec-b")
        serving.until_serving("spec-b")
        media = [each.path for each in serving.google.requests if each.query.get("alt") == "media"]
        assert [path.rsplit("%2F")[-1] for path in media] == [MANIFEST]

    def test_takes_old_weights_and_images_away_only_once_it_serves(self, serving: TpuMachine) -> None:
        serving.stage("google/gemma-4-tiny/second")
        old, new = Path(serving.destination()), serving.destination("google/gemma-4-tiny/second")
        cache = serving.shm / "xla-cache"
        cache.mkdir()
        serving.machine.docker.publish(OTHER_IMAGE)
        serving.machine.docker.behaviour("spec-b").healthy = False
        weights = [{"bucket": BUCKET, "prefix": "google/gemma-4-tiny/second", "destination": new}]
        serving.want("spec-b", weights=weights, image=OTHER_IMAGE)
        serving.until(lambda: "run spec-b" in serving.machine.doings, "the new container")
        assert old.exists()
        assert len(serving.machine.docker.local) == 2
        serving.machine.docker.behaviour("spec-b").healthy = True
        serving.until_serving("spec-b")
        serving.until(lambda: serving.said("cleaned"), "the cleaning")
        assert not old.exists()
        assert Path(new, "config.json").exists()
        assert list(serving.machine.docker.local) == [OTHER_IMAGE]
        assert cache.exists()  # compiled programs are what makes the next start quick

    def test_of_the_bucket_below_the_same_prefix_replaces_what_differs(self, serving: TpuMachine) -> None:
        serving.stage(files={"config.json": b"{}", "model.safetensors": MODEL["model.safetensors"]})
        serving.want("spec-b")
        serving.until_serving("spec-b")
        folder = Path(serving.destination())
        assert (folder / "config.json").read_bytes() == b"{}"
        assert not (folder / "empty.txt").exists()


class TestTheNewestWishWins:
    def test_over_one_that_is_still_being_fetched(self, serving: TpuMachine) -> None:
        hold = serving.machine.docker.holds.setdefault("pull", threading.Event())
        serving.want("spec-b")
        serving.until(lambda: "pull" in serving.machine.doings, "the pull of spec-b")
        serving.want("spec-c")
        serving.until(lambda: serving.said("abandoned"), "spec-b to be abandoned")
        serving.until(lambda: len(serving.children("pull")) == 1, "the first of two pulls to be ended")
        hold.set()
        serving.until_serving("spec-c")
        assert "run spec-b" not in serving.machine.doings

    def test_over_one_that_is_starting(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").healthy = False
        serving.want("spec-b")
        serving.until(lambda: "run spec-b" in serving.machine.doings, "spec-b to start")
        serving.want("spec-c")
        serving.until_serving("spec-c")
        begun = serving.machine.doings.index("run spec-b")
        assert "port open" not in serving.machine.doings[begun : serving.machine.doings.index("run spec-c")]

    def test_over_one_that_crashes_again_and_again(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").dies_with = 1
        serving.environ["GEMMA4_START_TRIES"] = "1000"
        serving.kill()
        serving.start()
        serving.want("spec-b")
        serving.until(lambda: serving.machine.doings.count("run spec-b") >= 2, "a second try")
        serving.want("spec-c")
        serving.until_serving("spec-c")

    def test_and_what_rests_between_two_starts_is_started_all_the_same(self, tpu: TpuMachine) -> None:
        tpu.environ |= {"GEMMA4_RESTART_S": "0.3", "GEMMA4_RESTART_CAP_S": "0.3"}
        tpu.want("spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
        tpu.machine.doings.clear()
        tpu.machine.docker.publish(OTHER_IMAGE)
        hold = tpu.machine.docker.holds.setdefault("pull", threading.Event())
        tpu.container.end(1)
        tpu.until(lambda: tpu.status["stage"] == "resting", "the rest")
        tpu.want("spec-b", image=OTHER_IMAGE)
        tpu.until(lambda: "pull" in tpu.machine.doings, "the pull of spec-b")
        tpu.until_serving("spec-a")
        hold.set()
        tpu.until_serving("spec-b")

    def test_and_what_has_all_that_it_needs_to_come_back_comes_back(self, serving: TpuMachine) -> None:
        serving.machine.docker.publish(OTHER_IMAGE)
        holds = serving.machine.docker.holds
        holds |= {"image inspect": threading.Event(), "pull": threading.Event()}
        serving.container.end(1)
        serving.until(lambda: serving.status["stage"] == "returning", "the return")
        serving.want("spec-b", image=OTHER_IMAGE)
        serving.until(lambda: "pull" in serving.machine.doings, "the pull of spec-b")
        holds.pop("image inspect").set()
        serving.until_serving("spec-a")
        holds["pull"].set()
        serving.until_serving("spec-b")

    def test_and_a_wish_taken_back_leaves_all_as_it_was(self, serving: TpuMachine) -> None:
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
        serving.want("spec-c")
        serving.until_serving("spec-c")
        assert "run spec-b" not in serving.machine.doings

    def test_weights_are_missing(self, serving: TpuMachine) -> None:
        serving.want("spec-b", weights=[_weights(serving, "google/other/main")])
        serving.until_trouble("weights", f"gs://{BUCKET}/google/other/main/{MANIFEST} is not there")
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
        tpu.want("spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
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

    def test_what_serves_comes_back_by_itself_meanwhile(self, serving: TpuMachine) -> None:
        serving.stage("google/other/main")
        fetched = Path(serving.destination("google/other/main"), "model.safetensors")
        serving.want("spec-b", image=OTHER_IMAGE, weights=[_weights(serving, "google/other/main")])
        serving.until_trouble("image")
        serving.until(fetched.exists, "the weights of spec-b")
        serving.container.end(1)
        serving.until(lambda: "run spec-a" in serving.machine.doings, "spec-a to be started again")
        serving.until_serving("spec-a")
        assert fetched.exists()  # what spec-b has got so far is not taken for something old


class TestAMalformedSpecification:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("{not json", ["not JSON"]),
            ('{"schema": 1, "port": "8000", "colour": 1}', ["colour is not known", "port is not a whole number", "image"]),
        ],
    )  # fmt: skip
    def test_is_reported_and_changes_nothing(self, serving: TpuMachine, text: str, words: list[str]) -> None:
        before = serving.container.id
        serving.metadata.set("gemma4-spec", text)
        serving.until_trouble("spec")
        assert all(word in serving.errors["spec"] for word in words)
        assert serving.serves("spec-a")
        assert serving.container.id == before
        serving.want("spec-b")
        serving.until_serving("spec-b")
        assert not serving.errors

    def test_that_carries_a_token_is_refused_without_repeating_it(self, serving: TpuMachine) -> None:
        leaked = "hf_SomebodyPutThisIntoMetadata42"
        serving.want("spec-b", env={"HF_TOKEN": leaked})
        serving.until_trouble("spec", "hfTokenSecret")
        assert leaked not in serving.output.read_text() + json.dumps(serving.status)
        assert serving.serves("spec-a")

    def test_or_none_at_all_is_waited_for(self, tpu: TpuMachine) -> None:
        tpu.start()
        tpu.until_trouble("spec", "no attribute gemma4-spec")
        tpu.want("spec-a")
        tpu.until_serving("spec-a")


class TestAContainerThatDoesNotComeUp:
    @pytest.mark.parametrize(
        ("behaviour", "word"),
        [
            (Behaviour(dies_with=1, last_output="ValueError: head_dim 512"), "head_dim 512"),
            (Behaviour(dies_with=137), "out of memory"),
            (Behaviour(generates=False), "EngineCore encountered an issue"),
        ],
        ids=["crashes", "out of memory", "healthy but cannot generate"],
    )
    def test_gives_way_to_the_last_good_one(self, serving: TpuMachine, behaviour: Behaviour, word: str) -> None:
        serving.machine.docker.behaviours["spec-b"] = behaviour
        serving.want("spec-b")
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        tries = serving.machine.doings.count("run spec-b")
        begun, back = serving.machine.doings.index("run spec-b"), serving.machine.doings.index("run spec-a")
        assert tries == 3
        assert "port open" not in serving.machine.doings[begun:back]
        assert word in json.dumps(serving.said("trouble"))
        assert "spec-a comes back" in serving.errors["rejected"]
        assert serving.status["wanted"] == "spec-b"

    def test_within_its_time_is_given_up_at_once(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").healthy = False
        serving.want("spec-b", readyTimeoutSeconds=0.2)
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        assert serving.machine.doings.count("run spec-b") == 1

    def test_is_not_tried_again_until_the_attribute_changes(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").dies_with = 1
        serving.want("spec-b")
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        serving.kill()
        serving.start()
        serving.until(lambda: len(serving.said("wanted")) == 3, "the same wish again")
        serving.until_trouble("rejected")
        serving.until_serving("spec-a")
        assert serving.machine.doings.count("run spec-b") == 3
        serving.machine.docker.behaviour("spec-b").dies_with = None
        serving.want("spec-b", generation="2")
        serving.until_serving("spec-b")
        assert not serving.errors

    def test_with_nothing_to_go_back_to_is_tried_on_and_on(self, tpu: TpuMachine) -> None:
        tpu.machine.docker.behaviour("spec-a").dies_with = 1
        tpu.want("spec-a")
        tpu.start()
        tpu.until(lambda: tpu.machine.doings.count("run spec-a") >= 5, "five tries")
        assert "port open" not in tpu.machine.doings
        assert "start" in tpu.errors
        tpu.machine.docker.behaviour("spec-a").dies_with = None
        tpu.until_serving("spec-a")
        assert not tpu.errors

    def test_waits_longer_from_try_to_try(self, tmp_path: Path) -> None:
        tpu = TpuMachine(tmp_path, RESTART_S="0.1", RESTART_CAP_S="0.4")
        tpu.stage()
        tpu.machine.docker.behaviour("spec-a").dies_with = 1
        tpu.want("spec-a")
        tpu.start()
        begun: list[float] = []
        while len(begun) < 4:
            tpu.until(lambda: tpu.machine.doings.count("run spec-a") > len(begun), "the next try")
            begun.append(time.monotonic())
        tpu.close()
        waits = [later - earlier for earlier, later in itertools.pairwise(begun)]
        assert [wait >= floor for wait, floor in zip(waits, (0.1, 0.2, 0.4), strict=True)] == [True] * 3


class TestAServerThatFalls:
    def test_ill_is_out_of_reach_until_it_generates_again(self, serving: TpuMachine) -> None:
        before = serving.container.id
        serving.machine.docker.behaviour("spec-a").generates = False
        serving.until(lambda: serving.machine.firewall.state == "closed", "the port to close")
        serving.until_trouble("serving")
        serving.until(lambda: serving.status["stage"] == "unhealthy", "the status to say so")
        serving.machine.docker.behaviour("spec-a").generates = True
        serving.until_serving("spec-a")
        assert serving.container.id == before
        assert not serving.errors

    def test_failing_is_out_of_reach_also_while_an_old_answer_goes_on(self, serving: TpuMachine) -> None:
        over = threading.Event()

        def go_on() -> None:
            while not over.wait(0.005):
                serving.container.tokens += 1

        threading.Thread(target=go_on, daemon=True).start()
        serving.machine.docker.behaviour("spec-a").generates = False
        serving.until(lambda: serving.machine.firewall.state == "closed", "the port to close")
        asked = serving.container.questions
        serving.until(lambda: serving.container.questions >= asked + 8, "more questions")
        over.set()
        assert serving.machine.doings == ["port closed"]  # and not open in between, for the old answer's sake

    def test_is_asked_for_the_model_that_is_wanted_now(self, serving: TpuMachine) -> None:
        before = serving.container.id
        serving.want("spec-a", model="google/gemma-4-tiny")
        serving.until(lambda: "google/gemma-4-tiny" in serving.container.asked, "a question with the other name")
        assert serving.container.id == before

    def test_ill_for_long_is_started_afresh(self, tmp_path: Path) -> None:
        tpu = TpuMachine(tmp_path, UNHEALTHY_S="0.2")
        tpu.stage()
        tpu.want("spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
        before, tpu.container.behaviour = tpu.container.id, Behaviour(generates=False)
        tpu.until(lambda: tpu.machine.docker.container and tpu.container.id != before, "a new container")
        tpu.until_serving("spec-a")
        tpu.close()

    def test_dead_is_started_again_without_anybodys_help(self, serving: TpuMachine) -> None:
        serving.metadata.away = "silent"
        serving.google.fault("GET", "/", status=503, times=10_000)
        serving.machine.docker.refusals |= {"login": "no", "pull": "no"}
        serving.container.end(139)
        serving.until(lambda: "run spec-a" in serving.machine.doings, "a new container")
        serving.until_serving("spec-a")
        assert "exit code 139" in json.dumps(serving.said("trouble"))

    def test_behind_a_firewall_that_cannot_be_changed_is_reported(self, serving: TpuMachine) -> None:
        serving.machine.failing["iptables-restore"] = "iptables: Permission denied"
        serving.machine.docker.behaviour("spec-a").generates = False
        serving.until_trouble("port", "the port cannot be closed")


class TestLoadIsNoIllness:
    """A server that generates for somebody keeps its port and its container, however slowly it answers us."""

    @pytest.fixture
    def loaded(self, tmp_path: Path) -> Iterator[TpuMachine]:
        """Serves spec-b, which has not proven itself, after spec-a, which has; patience is short."""
        tpu = TpuMachine(tmp_path, GENERATION_TIMEOUT_S="0.2", UNHEALTHY_S="2", STABLE_S="60")
        tpu.stage()
        tpu.want("spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
        tpu.want("spec-b")
        tpu.until_serving("spec-b")
        tpu.machine.doings.clear()
        over = threading.Event()

        def generate_for_others() -> None:
            while not over.wait(0.005):
                if tpu.machine.docker.container:
                    tpu.machine.docker.container.tokens += 1

        thread = threading.Thread(target=generate_for_others, daemon=True)
        thread.start()
        yield tpu
        over.set()
        thread.join()
        tpu.close()

    @pytest.mark.parametrize(
        "behaviour",
        [Behaviour(slow_s=0.5), Behaviour(silent=True), Behaviour(busy=True)],
        ids=[
            "every answer comes late",
            "our question stands at the end of the queue",
            "our question is never answered",
        ],
    )
    def test_of_a_server_that_generates_for_others(self, loaded: TpuMachine, behaviour: Behaviour) -> None:
        before, loaded.container.behaviour = loaded.container, behaviour
        looks = before.requests.count("/metrics")
        loaded.until(lambda: before.requests.count("/metrics") >= looks + 8, "some looks")
        assert loaded.machine.doings == []
        assert loaded.container is before
        assert loaded.status["stage"] == "serving"
        assert loaded.status["failures"] == 0
        assert not loaded.said("stop")
        assert "rejected" not in loaded.errors

    def test_of_a_server_whose_health_is_slow_alone(self, loaded: TpuMachine, monkeypatch: pytest.MonkeyPatch) -> None:
        answer = _Vllm.do_GET

        def late(handler: _Vllm) -> None:
            if handler.path == "/health":
                time.sleep(0.5)
            answer(handler)

        monkeypatch.setattr(_Vllm, "do_GET", late)
        looks = loaded.container.requests.count("/metrics")
        loaded.until(lambda: loaded.container.requests.count("/metrics") >= looks + 12, "some looks")
        assert loaded.machine.doings == []
        assert not loaded.errors

    def test_three_looks_of_four_do_not_ask(self, loaded: TpuMachine) -> None:
        paths = loaded.container.requests
        begin = len(paths)
        loaded.until(lambda: paths[begin:].count("/v1/chat/completions") >= 3, "some questions")
        assert paths[begin:].count("/metrics") >= 9

    def test_of_an_idle_server_that_answers_late(self, serving: TpuMachine) -> None:
        serving.container.behaviour.slow_s = 0.15
        asked = serving.container.questions
        serving.until(lambda: serving.container.questions >= asked + 3, "some questions")
        assert serving.machine.doings == []
        assert not serving.errors


class TestAServerThatHangs:
    """It listens and generates nothing for anybody, while a request waits: ours."""

    @pytest.mark.parametrize(
        "behaviour",
        [Behaviour(silent=True), Behaviour(deaf=True)],
        ids=["healthy but cannot generate", "its event loop stands still"],
    )
    def test_is_started_afresh_in_time_and_open_until_then(self, tmp_path: Path, behaviour: Behaviour) -> None:
        tpu = TpuMachine(tmp_path, GENERATION_TIMEOUT_S="0.3", UNHEALTHY_S="0.4")
        tpu.stage()
        tpu.want("spec-a")
        tpu.start()
        tpu.until_serving("spec-a")
        tpu.machine.doings.clear()
        hung = tpu.container
        hung.behaviour, begin = behaviour, len(hung.requests)
        tpu.until_trouble("serving", "Its port stays open")
        tpu.until(lambda: "run spec-a" in tpu.machine.doings, "a new container")
        tpu.until_serving("spec-a")
        assert tpu.machine.doings[:3] == ["port closing", "port closed", "stop"]
        assert "generated nothing for" in json.dumps(tpu.said("trouble"))
        assert len(hung.requests) - begin < 15  # one question at a time, and each stands for long
        tpu.close()


class TestTheMetadataServer:
    @pytest.mark.parametrize("how", ["silent", "503"])
    def test_away_at_boot_is_waited_for(self, tpu: TpuMachine, how: str) -> None:
        tpu.metadata.away = how
        tpu.want("spec-a")
        tpu.start()
        tpu.until_trouble("metadata")
        tpu.metadata.away = ""
        tpu.until_serving("spec-a")
        tpu.until(lambda: not tpu.errors, "the errors to go")

    @pytest.mark.parametrize("how", ["silent", "503"])
    def test_away_later_leaves_what_serves_alone(self, serving: TpuMachine, how: str) -> None:
        before = serving.container.id
        serving.metadata.away = how
        serving.until_trouble("metadata")
        serving.want("spec-b")
        assert serving.serves("spec-a")
        assert serving.container.id == before
        serving.metadata.away = ""
        serving.until_serving("spec-b")
        serving.until(lambda: not serving.errors, "the errors to go")


class TestASupervisorThatEnds:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_leaves_what_serves_and_the_next_one_adopts_it(self, serving: TpuMachine, number: int) -> None:
        before = serving.container.id
        code = serving.kill(number)
        assert code == (0 if number == signal.SIGTERM else -number)
        assert serving.container.running
        assert serving.machine.firewall.state == "open"
        serving.start()
        serving.until(lambda: serving.said("adopted"), "the adoption")
        serving.until(lambda: len(serving.said("wanted")) == 2, "the wish")
        serving.until_serving("spec-a")
        assert serving.container.id == before
        assert serving.machine.doings == []

    def test_and_forgets_everything_still_adopts_it(self, serving: TpuMachine) -> None:
        before = serving.container.id
        serving.kill()
        (serving.state / "state.json").write_text("{half a rec")
        serving.start()
        serving.until(lambda: serving.said("adopted"), "the adoption")
        serving.until_serving("spec-a")
        assert serving.container.id == before

    def test_while_it_fetches_goes_on_fetching(self, serving: TpuMachine) -> None:
        hold = serving.machine.docker.holds.setdefault("pull", threading.Event())
        serving.want("spec-b")
        serving.until(lambda: "pull" in serving.machine.doings, "the pull")
        serving.kill()
        hold.set()
        serving.start()
        serving.until_serving("spec-b")

    def test_while_it_starts_a_container_goes_on_waiting_for_it(self, serving: TpuMachine) -> None:
        serving.machine.docker.behaviour("spec-b").healthy = False
        serving.want("spec-b")
        serving.until(lambda: "run spec-b" in serving.machine.doings, "the container")
        serving.until(lambda: serving.status["stage"] == "starting", "the start")
        serving.kill()
        serving.start()
        serving.until(lambda: serving.said("adopted"), "the adoption")
        assert serving.machine.firewall.state == "closed"
        serving.machine.docker.behaviour("spec-b").healthy = True
        serving.until_serving("spec-b")
        assert serving.machine.doings.count("run spec-b") == 1

    def test_with_the_machine_closes_the_port_first(self, serving: TpuMachine) -> None:
        serving.machine.going_down = True
        serving.kill(signal.SIGTERM)
        assert serving.machine.doings == ["port closed"]
        assert serving.container.running  # that one is docker's to end

    @pytest.mark.parametrize("verb", ["stop", "rm", "run"])
    def test_in_the_middle_of_a_switch_loses_nothing(self, serving: TpuMachine, verb: str) -> None:
        hold = serving.machine.docker.holds.setdefault(verb, threading.Event())
        serving.want("spec-b")
        serving.until(lambda: serving.machine.ran("docker", verb)[1 if verb == "run" else 0 :], f"docker {verb}")
        serving.kill()
        del serving.machine.docker.holds[verb]
        hold.set()
        serving.start()
        serving.until_serving("spec-b")


class TestAReboot:
    def test_of_what_serves_brings_everything_back(self, serving: TpuMachine) -> None:
        serving.reboot()
        assert not Path(serving.destination()).exists()
        serving.start()
        serving.until(lambda: "run spec-a" in serving.machine.doings, "the container")
        serving.until_serving("spec-a")
        assert serving.machine.doings == ["port closed", "run spec-a", "port open"]  # the image was still on the disk
        assert Path(serving.destination(), "config.json").exists()

    def test_after_which_the_machine_has_another_address_starts_the_server_there(self, serving: TpuMachine) -> None:
        serving.reboot()
        serving.metadata.values["network-interfaces/0/ip"] = "127.0.0.5"
        serving.start()
        serving.until(lambda: "run spec-a" in serving.machine.doings, "the container")
        serving.until_serving("spec-a")
        assert serving.container.argument("--host") == "127.0.0.5"

    def test_in_the_middle_of_a_change_ends_in_the_change(self, serving: TpuMachine) -> None:
        hold = serving.machine.docker.holds.setdefault("pull", threading.Event())
        serving.stage("google/other/main")
        serving.want("spec-b", weights=[_weights(serving, "google/other/main")])
        serving.until(lambda: "pull" in serving.machine.doings, "the pull")
        serving.reboot()
        hold.set()
        serving.start()
        serving.until_serving("spec-b")

    def test_in_the_middle_of_a_start_starts_it_again(self, tpu: TpuMachine) -> None:
        tpu.machine.docker.behaviour("spec-a").healthy = False
        tpu.want("spec-a")
        tpu.start()
        tpu.until(lambda: tpu.status.get("stage") == "starting", "the start")
        tpu.reboot()
        tpu.machine.docker.behaviour("spec-a").healthy = True
        tpu.start()
        tpu.until_serving("spec-a")

    def test_serves_the_old_while_the_new_cannot_be_had(self, serving: TpuMachine) -> None:
        serving.want("spec-b", image=OTHER_IMAGE)
        serving.until_trouble("image")
        serving.reboot()
        serving.start()
        serving.until(lambda: serving.serves("spec-a") and "image" in serving.errors, "spec-a to serve")

    def test_before_docker_answers_is_sat_out(self, serving: TpuMachine) -> None:
        serving.reboot()
        serving.machine.docker.down = True
        serving.start()
        serving.until_trouble("docker")
        serving.machine.docker.down = False
        serving.until_serving("spec-a")
        assert not serving.errors


class TestAnUpgradeOfTheSupervisor:
    def test_replaces_the_program_and_not_the_container(self, serving: TpuMachine) -> None:
        assert serving.process is not None
        before, process = serving.container.id, serving.process.pid
        version = serving.status["supervisor"]
        serving.metadata.set("gemma4-supervisor", _changed_program())
        serving.until(lambda: serving.status["supervisor"] != version, "the new version")
        serving.until(lambda: len(serving.said("adopted")) == 1, "the adoption")
        serving.until_serving("spec-a")
        assert serving.process.pid == process
        assert serving.process.poll() is None
        assert serving.container.id == before
        assert serving.program.read_bytes() == base64.b64decode(_changed_program())
        assert serving.machine.doings == ["systemctl daemon-reload"]
        assert not serving.errors

    @pytest.mark.parametrize(
        ("value", "word"),
        [("not base64!", "not base64"), ("bm8gemlwIGZpbGU=", "fails"), (None, "")],
        ids=["no base64", "no program", "a program that stumbles"],
    )
    def test_that_does_not_work_is_refused(self, serving: TpuMachine, value: str | None, word: str) -> None:
        version = serving.status["supervisor"]
        broken = value or _changed_program("raise RuntimeError('half written')\n")
        serving.metadata.set("gemma4-supervisor", broken)
        serving.until_trouble("supervisor")
        assert word in serving.errors["supervisor"]
        assert serving.status["supervisor"] == version
        serving.want("spec-b")
        serving.until_serving("spec-b")
        serving.metadata.set("gemma4-supervisor", archive.in_base64(serving.program.read_bytes()))
        serving.until(lambda: not serving.errors, "the error to go")


class TestTheSecretsCheck:
    """A check that could not fail would prove nothing."""

    def test_finds_a_token_wherever_it_gets_out(self, serving: TpuMachine) -> None:
        serving.kill()
        serving.check_secrets()
        token, systemctl = serving.metadata.issued[0], [str(serving.machine.bin / "systemctl")]
        left = serving.state / "left"
        leaks: list[Callable[[], Any]] = [
            lambda: serving.output.write_text(f"{token}\n"),
            lambda: subprocess.run([*systemctl, f"--{token}"], stdin=subprocess.DEVNULL, env={}, check=True),
            lambda: subprocess.run(systemctl, stdin=subprocess.DEVNULL, env={"T": token}, check=True),
            lambda: serving.metadata.reports.append(f"{{{HF_TOKEN}}}"),
            lambda: left.write_bytes(base64.b64encode(f"oauth2accesstoken:{token}".encode())),
        ]
        for leak in leaks:
            leak()
            with pytest.raises(AssertionError, match="a token can be read"):
                serving.check_secrets()
            serving.output.write_text("")
            serving.machine.commands.clear()
            serving.metadata.reports.clear()
            left.unlink(missing_ok=True)


def _weights(tpu: TpuMachine, prefix: str = PREFIX) -> dict[str, str]:
    return {"bucket": BUCKET, "prefix": prefix, "destination": tpu.destination(prefix)}


def _changed_program(first_lines: str = "# another version\n") -> str:
    """The same program but for the beginning of its entry."""
    return archive.in_base64(archive.supervisor(first_lines))
