"""Four servers on one machine: one failing, changing or coming back never touches the others."""

from __future__ import annotations

import threading

import pytest

from tests.fakes.docker import Behaviour
from tests.fakes.gpu_machine import SERVERS, GpuMachine, ReadinessSamples
from tests.fakes.tpu_machine import MODEL, NAME, TpuMachine

ALL = tuple(range(SERVERS))
MIB = 1024**2
"""What the machine's supervisor fetches at a time."""


@pytest.fixture
def four(gpu: GpuMachine) -> GpuMachine:
    """The same with spec-a serving on all four servers."""
    gpu.serve("spec-a")
    gpu.machine.actions.clear()
    return gpu


class TestTheServersOfOneMachine:
    def test_each_server_has_its_own_gpus_port_and_member(self, four: GpuMachine) -> None:
        for number in ALL:
            container, place = four.server(number), four.places[number]
            assert container.gpus == [f"nvidia{2 * number}", f"nvidia{2 * number + 1}"]
            assert container.argument("--port") == str(place["port"])
            assert four.ask(f"/ready/{NAME}-{number}")[0] == 200
        assert four.ask(f"/ready/{NAME}")[0] == 404
        assert len(four.machine.ran("docker", "pull")) == 1  # one image and one copy of the weights for all
        large = [seen for seen in four.google.requests if "model.safetensors" in seen.path and "alt" in seen.query]
        assert len(large) == -(-len(MODEL["model.safetensors"]) // MIB)

    def test_each_server_gets_the_driver_and_nothing_else_of_the_machine(self, gpu: GpuMachine) -> None:
        gpu.machine.docker.image_env = ["PATH=/usr/bin", "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/opt/own"]
        gpu.serve("spec-a", privileged=True)
        container = gpu.server(1)
        assert "--privileged" not in container.options
        assert container.options["--device"] == [
            f"{gpu.folder}/dev/{name}:/dev/{name}" for name in ("nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm")
        ]
        assert container.options["--ipc"] == ["host"]
        assert container.options["--ulimit"] == ["memlock=-1:-1"]
        assert "/var/lib/nvidia/lib64:/usr/local/nvidia/lib64:ro" in container.options["--volume"]
        assert "gemma4-cache:/root/.cache" in container.options["--volume"]  # of all servers
        assert container.env["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib:/opt/own:/usr/local/nvidia/lib64"

    def test_the_others_start_at_once_when_the_first_one_serves(self, gpu: GpuMachine) -> None:
        gpu.machine.docker.behaviour("spec-a").healthy = False
        gpu.want("spec-a")
        gpu.start()
        gpu.until(
            lambda: "gemma4-0" in gpu.machine.docker.containers and gpu.server(0).looks >= 3, "looks at the first"
        )
        assert list(gpu.machine.docker.containers) == ["gemma4-0"]
        first = gpu.server(0)
        first.behaviour = Behaviour()
        gpu.until(lambda: len(gpu.machine.docker.containers) == SERVERS, "the others, of which none serves yet")
        gpu.machine.docker.behaviour("spec-a").healthy = True
        gpu.until_serving("spec-a")

    def test_the_others_do_not_wait_for_a_first_one_that_fails(self, gpu: GpuMachine) -> None:
        gpu.machine.docker.dead_ports.add(int(gpu.places[0]["port"]))
        gpu.want("spec-a")
        gpu.start()
        gpu.until_ready(1, 2, 3)
        assert gpu.status["stage"] in ("backoff", "restoring", "starting")
        assert {error["server"] for error in gpu.status["errors"]} == {"gemma4-0"}

    def test_a_server_without_its_gpus_says_so_and_the_others_serve(self, gpu: GpuMachine) -> None:
        (gpu.folder / "dev" / "nvidia7").unlink()
        gpu.want("spec-a")
        gpu.start()
        gpu.until_ready(0, 1, 2)
        assert "dev/nvidia7; it has the GPUs 0, 1, 2, 3, 4, 5, 6" in gpu.until_trouble("start")

    def test_a_machine_without_a_driver_starts_nothing_with_all_of_the_machine(self, gpu: GpuMachine) -> None:
        for path in (gpu.folder / "dev").glob("nvidia*"):
            path.unlink()
        gpu.want("spec-a")
        gpu.start()
        assert "driver installed?" in gpu.until_trouble("start")
        assert not gpu.machine.ran("docker", "run")


class TestTheStatus:
    def test_the_status_has_a_row_for_each_server_and_the_worst_counts_for_the_machine(self, four: GpuMachine) -> None:
        four.server(2).behaviour = Behaviour(generates=False)
        four.until(lambda: four.status["stage"] == "unhealthy", "the status to say so")
        rows = {row["name"]: row for row in four.status["servers"]}
        assert [rows[f"gemma4-{number}"]["stage"] for number in ALL] == ["serving", "serving", "unhealthy", "serving"]
        assert {row["running"] for row in rows.values()} == {"spec-a"}
        (error,) = four.status["errors"]
        assert (error["where"], error["server"]) == ("serving", "gemma4-2")
        assert four.status["ready"] == [f"{NAME}-{number}" for number in (0, 1, 3)]

    def test_the_logs_name_the_server(self, four: GpuMachine) -> None:
        four.server(1).print("INFO of the second one")

        def found() -> list[str]:
            payloads = [entry["jsonPayload"] for entry in four.google.logging.entries]
            return [each["server"] for each in payloads if each["message"] == "INFO of the second one"]

        four.until(found, "the line")
        assert found() == ["gemma4-1"]
        assert {entry["server"] for entry in four.said("serving")} == {f"gemma4-{number}" for number in ALL}


class TestOneThatFails:
    def test_one_dies_and_three_go_on_serving_and_it_comes_back(self, four: GpuMachine) -> None:
        before, samples = four.ids, ReadinessSamples(four)
        four.server(2).end(139)
        four.until(lambda: four.machine.docker.containers.get("gemma4-2") and four.ids[2] != before[2], "a new one")
        four.until_serving("spec-a")
        assert all({0, 1, 3} <= {*ready} for ready in samples.close())
        assert [four.ids[number] for number in (0, 1, 3)] == [before[number] for number in (0, 1, 3)]

    def test_one_that_drains_for_long_keeps_nobody_waiting(self, four: GpuMachine) -> None:
        hold = four.machine.docker.holds.setdefault("stop gemma4-0", threading.Event())
        four.want("spec-b")
        four.until(lambda: four.machine.ran("docker", "stop"), "the stop of the first")
        before = four.server(3).id
        four.server(3).end(1)
        four.until(lambda: 3 in four.ready and four.server(3).id != before, "the fourth to come back")
        hold.set()
        four.until_serving("spec-b")


class TestAChange:
    def test_a_change_never_has_fewer_than_three_servers_ready(self, four: GpuMachine) -> None:
        samples = ReadinessSamples(four)
        four.serve("spec-b")
        seen = samples.close()
        assert min(map(len, seen)) == SERVERS - 1  # and each of them was out of reach for a while
        assert {number for ready in seen for number in {*ALL} - {*ready}} == {*ALL}

    def test_a_change_waits_until_the_server_before_has_served_for_a_while(self, gpu: GpuMachine) -> None:
        gpu.configure(ROLL_S="60")
        gpu.serve("spec-a")
        gpu.want("spec-b")
        gpu.until(lambda: gpu.hashes[0] == "spec-b" and len(gpu.ready) == SERVERS, "the first")
        looks = gpu.server(0).requests.count("/metrics")
        gpu.until(lambda: gpu.server(0).requests.count("/metrics") >= looks + 5, "some looks")
        assert gpu.hashes == ["spec-b", "spec-a", "spec-a", "spec-a"]
        assert gpu.status["running"] == "spec-a"

    def test_a_change_begins_with_a_server_that_does_not_serve(self, four: GpuMachine) -> None:
        four.machine.docker.dead_ports.add(int(four.places[3]["port"]))
        four.server(3).end(1)
        four.until(lambda: four.status["failures"] >= 2, "it to fail again")
        samples = ReadinessSamples(four)
        four.machine.actions.clear()
        four.machine.docker.dead_ports.remove(int(four.places[3]["port"]))
        four.serve("spec-b")
        assert min(map(len, samples.close())) == SERVERS - 1

    def test_a_change_is_neither_stopped_nor_rejected_by_a_server_that_failed_before(self, four: GpuMachine) -> None:
        port = int(four.places[1]["port"])
        four.machine.docker.dead_ports.add(port)
        four.server(1).end(1)
        four.until(lambda: four.status["failures"] >= 2, "it to fail again")
        four.want("spec-b")
        four.until(
            lambda: [four.hashes[number] for number in (0, 2, 3)] == ["spec-b"] * 3 and len(four.ready) == 3,
            "the others to have the change",
        )
        four.until(lambda: four.status["failures"] >= 4, "more failures than reject a specification")
        assert "rejected" not in four.errors
        four.machine.docker.dead_ports.remove(port)
        four.until_serving("spec-b")

    def test_a_change_that_is_withdrawn_half_way_brings_back_what_was_changed(self, four: GpuMachine) -> None:
        four.restart(ROLL_S="60")
        four.until_serving("spec-a")
        untouched = four.ids[1:]
        four.want("spec-b")
        four.until(lambda: four.hashes[0] == "spec-b", "the first")
        four.serve("spec-a")
        assert four.ids[1:] == untouched

    def test_a_change_of_one_servers_place_leaves_the_others_alone(self, four: GpuMachine) -> None:
        before = four.ids
        places = [{**place, "devices": [1, 0]} if place["suffix"] == "-0" else place for place in four.places]
        four.want("spec-b", servers=places, argv=four.spec("spec-a")["argv"], model="spec-a")
        four.until(lambda: four.status["running"] == "spec-b" and four.status["stage"] == "serving", "the change")
        assert four.ids[0] != before[0]
        assert four.ids[1:] == before[1:]


class TestARejection:
    def test_a_rejection_of_the_first_rolls_back_and_the_others_were_never_touched(self, four: GpuMachine) -> None:
        before = four.ids
        samples = ReadinessSamples(four)
        four.machine.docker.behaviour("spec-b").dies_with = 1
        four.want("spec-b")
        four.until_trouble("rejected", "spec-a comes back")
        four.until_serving("spec-a")
        assert four.ids[1:] == before[1:]
        assert four.machine.actions.count("run spec-b") == 3
        assert all({1, 2, 3} <= {*ready} for ready in samples.close())
        assert four.status["wanted"] == "spec-b"

    def test_a_rejection_half_way_brings_back_all_that_were_changed(self, four: GpuMachine) -> None:
        four.machine.docker.dead_ports_of["spec-b"] = int(four.places[2]["port"])
        fourth = four.ids[3]
        samples = ReadinessSamples(four)
        four.want("spec-b")
        four.until_trouble("rejected", "spec-a comes back")
        four.until_serving("spec-a")
        assert four.ids[3] == fourth
        assert min(map(len, samples.close())) >= SERVERS - 2
        four.restart()
        four.until_trouble("rejected")
        four.until_serving("spec-a")
        assert four.ids[3] == fourth


class TestASupervisorThatEnds:
    @pytest.mark.parametrize("forgets", [False, True], ids=["killed", "that forgets everything"])
    def test_a_supervisor_adopts_all_four(self, four: GpuMachine, forgets: bool) -> None:
        before = four.ids
        four.kill()
        if forgets:
            (four.state / "state.json").unlink()
        four.start()
        four.until(lambda: len(four.said("adopted")) == SERVERS, "four adoptions")
        four.until_serving("spec-a")
        assert four.ids == before
        assert four.machine.actions == []

    def test_a_change_goes_on_where_the_supervisor_was_killed(self, four: GpuMachine) -> None:
        four.want("spec-b")
        four.until(lambda: four.hashes[0] == "spec-b" and 0 in four.ready, "the first")
        four.kill()
        first = four.server(0).id
        four.start()
        four.until_serving("spec-b")
        assert four.server(0).id == first

    def test_a_reboot_brings_all_back_with_one_pull_and_the_first_one_first(self, four: GpuMachine) -> None:
        four.reboot()
        four.start()
        four.until_serving("spec-a")
        assert four.machine.actions == ["run spec-a"] * SERVERS
        starts = [entry["server"] for entry in four.said("start")][-SERVERS:]
        assert starts[0] == "gemma4-0"


class TestAnotherDivisionOfTheMachine:
    """`GpuMachine.close` fails a test in which two containers ran with the same GPU."""

    def test_servers_that_are_divided_anew_never_share_a_gpu_and_old_ones_go(self, four: GpuMachine) -> None:
        places = [
            {
                "suffix": f"-{number}",
                "port": four.places[number]["port"],
                "devices": [*range(4 * number, 4 * number + 4)],
            }
            for number in range(2)
        ]
        four.want("spec-b", servers=places)
        four.until(lambda: four.status["running"] == "spec-b" and four.status["stage"] == "serving", "the change")
        four.until(lambda: sorted(four.machine.docker.containers) == ["gemma4-0", "gemma4-1"], "the others to go")
        four.until(lambda: [row["name"] for row in four.status["servers"]] == ["gemma4-0", "gemma4-1"], "their rows")
        assert four.ask(f"/ready/{NAME}-3")[0] == 404
        assert four.server(1).gpus == ["nvidia4", "nvidia5", "nvidia6", "nvidia7"]

    def test_one_server_for_all_gpus_takes_the_place_of_four_and_four_that_of_one(self, four: GpuMachine) -> None:
        port = four.places[0]["port"]
        four.want("spec-b", servers=[{"suffix": "", "port": port, "devices": []}])
        four.until(lambda: four.ask(f"/ready/{NAME}")[0] == 200, "the one")
        four.until(lambda: [*four.machine.docker.containers] == ["gemma4"], "the four to go")
        four.serve("spec-c")
        assert len(four.machine.docker.containers) == SERVERS

    def test_containers_that_the_supervisor_has_forgotten_make_way(self, four: GpuMachine) -> None:
        four.kill()
        (four.state / "state.json").unlink()
        port = four.places[0]["port"]
        four.want("spec-b", servers=[{"suffix": "", "port": port, "devices": []}])
        four.start()
        four.until(lambda: four.ask(f"/ready/{NAME}")[0] == 200, "the one")
        assert [*four.machine.docker.containers] == ["gemma4"]


def test_a_machine_with_one_server_has_the_names_that_it_always_had(serving: TpuMachine) -> None:
    assert serving.container.name == "gemma4"
    assert [row["name"] for row in serving.status["servers"]] == ["gemma4"]
    assert all("server" not in entry for entry in serving.entries)
    serving.container.end(1)
    serving.until_trouble("start")
    assert all("server" not in error for error in serving.status["errors"])
