"""The supervisor's parts, each by itself; as a whole it is tested next door."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from containers import archive
from containers.shared.web import Reply, TimedOut, TransientError, backoff
from containers.tpu.gemma4_supervisor import desired_spec as specification
from containers.tpu.gemma4_supervisor import preparation, probe
from containers.tpu.gemma4_supervisor.context import Context
from containers.tpu.gemma4_supervisor.desired_spec import SpecError, parse
from containers.tpu.gemma4_supervisor.docker import Abandoned, Docker, explain, write_private
from containers.tpu.gemma4_supervisor.firewall import remote_connections
from containers.tpu.gemma4_supervisor.huggingface import token_files, unnamed_models
from containers.tpu.gemma4_supervisor.log import Log
from containers.tpu.gemma4_supervisor.machine_status import MachineStatus
from containers.tpu.gemma4_supervisor.metadata_server import MetadataServer
from containers.tpu.gemma4_supervisor.probe import Condition
from containers.tpu.gemma4_supervisor.server_lifecycle import Phase
from containers.tpu.gemma4_supervisor.server_output import ServerOutput
from containers.tpu.gemma4_supervisor.state import SavedState
from containers.tpu.gemma4_supervisor.supervisor_settings import SupervisorSettings

FOLDER = archive.HERE / "tpu"
README = (FOLDER / "README.md").read_text()
ROOT = Path("/dev/shm/weights")
SPEC: dict[str, Any] = {
    "schema": 1,
    "hash": "spec-0123456789ab",
    "image": "us-east5-docker.pkg.dev/p/r/vllm/vllm-tpu:v0.32.0",
    "registry": "us-east5-docker.pkg.dev",
    "argv": ["vllm", "serve", "/dev/shm/weights/g/m/main", "--host", "${VPC_ADDRESS}", "--port", "8000"],
    "env": {"HF_HOME": "/dev/shm/huggingface"},
    "weights": [{"bucket": "b", "prefix": "g/m/main", "destination": "/dev/shm/weights/g/m/main"}],
    "hfTokenSecret": None,
    "port": 8000,
    "model": "google/gemma-4-E2B-it",
    "readyTimeoutSeconds": 1800,
    "drainSeconds": 45,
}


def parsed(**changes: Any) -> specification.Spec:
    return parse(json.dumps({**SPEC, **changes}), ROOT)


class TestASpecification:
    def test_is_read_as_it_was_written(self) -> None:
        spec = parsed()
        assert spec.command("10.0.0.2") == (*SPEC["argv"][:3], "--host", "10.0.0.2", "--port", "8000")
        assert spec.weights[0].place == "gs://b/g/m/main"

    @pytest.mark.parametrize("key", sorted(specification._OPTIONAL))
    def test_has_defaults_for_what_may_be_left_out(self, key: str) -> None:
        without = {name: value for name, value in SPEC.items() if name != key}
        assert parse(json.dumps(without), ROOT).hash == SPEC["hash"]

    @pytest.mark.parametrize(
        ("changes", "fault"),
        [
            ({"hash": ""}, "hash is empty"),
            ({"image": "two words"}, "image is empty or has blanks"),
            ({"registry": "https://host/path"}, "registry is not a host name"),
            ({"argv": ["vllm"]}, "argv is not the full command"),
            ({"argv": ["vllm", 3]}, "argv is not the full command"),
            ({"env": {"A B": "1"}}, "'A B' is not a name"),
            ({"env": {"A": 1}}, "env.A is not text on one line"),
            ({"env": {"A": "1\nHF_TOKEN=x"}}, "env.A is not text on one line"),
            ({"env": {"HUGGING_FACE_HUB_TOKEN": "x"}}, "hfTokenSecret"),
            ({"argv": ["vllm", "serve", "--hf-token", "hf_0123456789abcdefXYZ"]}, "looks like a token"),
            ({"port": 0}, "port is not between"),
            ({"port": True}, "port is not a whole number"),
            ({"port": 8000.5}, "port is not a whole number"),
            ({"privileged": "yes"}, "privileged is not true or false"),
            ({"readyTimeoutSeconds": 0}, "readyTimeoutSeconds must be above 0"),
            ({"hfTokenSecret": "my-secret"}, "hfTokenSecret is not of the form"),
            ({"weights": ["gs://b/p"]}, "weights[0] is not an object"),
            ({"weights": [{**SPEC["weights"][0], "bucket": ""}]}, "weights[0] has an empty bucket"),
            ({"weights": [{**SPEC["weights"][0], "destination": "/etc"}]}, "weights[0] does not go below"),
            ({"weights": [{**SPEC["weights"][0], "destination": f"{ROOT}/../../etc"}]}, "does not go below"),
            ({"weights": [{**SPEC["weights"][0], "destination": str(ROOT)}]}, "does not go below"),
        ],
    )  # fmt: skip
    def test_that_cannot_be_meant_is_refused(self, changes: dict[str, Any], fault: str) -> None:
        with pytest.raises(SpecError, match=re.escape(fault)):
            parsed(**changes)

    @pytest.mark.parametrize(
        ("text", "fault"),
        [("{", "not JSON"), ("[]", "not a JSON object"), ('{"schema": 2}', "schema 2, this supervisor reads 1")],
    )
    def test_that_is_none_is_refused(self, text: str, fault: str) -> None:
        with pytest.raises(SpecError, match=fault):
            parse(text, ROOT)

    def test_names_every_fault_at_once(self) -> None:
        with pytest.raises(SpecError) as caught:
            parsed(port=0, registry="a/b", env={"A": 1})
        assert all(key in str(caught.value) for key in ("port", "registry", "env.A"))

    @pytest.mark.parametrize("key", specification._OF_THE_CONTAINER)
    def test_that_asks_for_another_container_has_another_fingerprint(self, key: str) -> None:
        others: dict[str, Any] = {
            "image": "i", "argv": ["vllm", "serve", "x"], "env": {}, "weights": [],
            "hfTokenSecret": "projects/p/secrets/s", "port": 8001, "drainSeconds": 46,
            "privileged": True,
        }  # fmt: skip
        assert parsed(**{key: others[key]}).fingerprint != parsed().fingerprint

    @pytest.mark.parametrize(
        "changes", [{"hash": "spec-x"}, {"readyTimeoutSeconds": 1}, {"model": "m"}, {"generation": 2}, {"registry": ""}]
    )
    def test_that_asks_for_the_same_container_has_the_same_fingerprint(self, changes: dict[str, Any]) -> None:
        assert parsed(**changes).fingerprint == parsed().fingerprint
        assert parsed(**changes).digest != parsed().digest


class TestTheReadme:
    """It is the contract: what it leaves out cannot be relied upon, and what it names must exist."""

    def test_names_every_field_of_a_specification(self) -> None:
        known = {*specification._FIELDS, *specification._OPTIONAL}
        assert first_column("A specification") == known

    def test_names_every_place_of_trouble(self) -> None:
        assert first_column("Places of trouble") == _words_in_code(r"(?:\.trouble|_try, )\(?\"([a-z]+)\"") | {
            "bootstrap"
        }

    def test_names_every_stage_from_the_first_on(self, tmp_path: Path) -> None:
        (row,) = [line for line in README.splitlines() if line.startswith("| `stage` |")]
        MachineStatus(Log(io.StringIO()), tmp_path / "status.json", lambda text: None, 10, 60).set(any=1)
        first = json.loads((tmp_path / "status.json").read_text())["stage"]
        assert {first, *(phase.value for phase in Phase), "bootstrap"} == set(re.findall(r"`([a-z]+)`", row)) - {
            "stage"
        }

    def test_names_every_event_of_the_journal(self) -> None:
        found = _words_in_code(r"log\.(?:info|warning|error)\(\s*\"([a-z-]+)\"")
        found |= _words_in_code(r"self\.(?:info|warning|error)\(\s*\"([a-z-]+)\"") | {
            "trouble",
            "recovered",
            "stage",
            "report",
        }
        assert first_column("Events") == found | {"bootstrap"}


class TestTheJournal:
    def test_blots_out_what_is_secret_in_every_form(self) -> None:
        stream = io.StringIO()
        log = Log(stream)
        log.hide("ya29.secret")
        log.error("fault", 'docker said: {"auth": "eWEyOS5zZWNyZXQ="}', stack="token=ya29.secret")
        assert "secret" not in stream.getvalue().replace("[secret]", "")
        assert "eWEyOS5zZWNyZXQ=" not in stream.getvalue()

    def test_keeps_beginning_and_end_of_what_is_endless(self) -> None:
        text = Log(io.StringIO()).clean("begin" + "x" * 100_000 + "end")
        assert len(text) < 2100
        assert text.startswith("begin")
        assert text.endswith("end")


class TestTheStatus:
    def test_that_is_published_last_is_the_newest(self, tmp_path: Path) -> None:
        arrived: list[dict[str, Any]] = []
        on_its_way, may_arrive = threading.Event(), threading.Event()

        def publish(text: str) -> None:
            if not on_its_way.is_set():  # the first one dawdles
                on_its_way.set()
                may_arrive.wait(5)
            arrived.append(json.loads(text))

        status = MachineStatus(Log(io.StringIO()), tmp_path / "status.json", publish, 60, 60)
        status.set(stage="serving")
        assert on_its_way.wait(5)
        threading.Timer(0.1, may_arrive.set).start()
        status.end("supervisor", "It starts again.")
        assert [len(report["errors"]) for report in arrived] == [0, 1]

    def test_keeps_what_ends_the_supervisor_though_another_thread_goes_on(self, tmp_path: Path) -> None:
        arrived: list[str] = []
        status = MachineStatus(Log(io.StringIO()), tmp_path / "status.json", arrived.append, 60, 60)
        status.end("supervisor", "It starts again.")
        status.clear("supervisor")
        assert "It starts again." in (tmp_path / "status.json").read_text()


class TestTheProbe:
    """The table in `probe`, row by row. An answer is a status, `late` for none in time, or `refused`."""

    @pytest.mark.parametrize(
        ("metrics", "health", "question", "metrics_after", "expected", "asked"),
        [
            (1, 200, 200, 1, Condition.HEALTHY, "metrics"),
            ("refused", 200, 200, 0, Condition.LOADING, "metrics"),
            ("late", 200, 200, 0, Condition.SLOW, "metrics"),
            (0, 503, 200, 0, Condition.LOADING, "metrics health"),
            (0, "refused", 200, 0, Condition.LOADING, "metrics health"),
            (0, "late", 200, 0, Condition.SLOW, "metrics health metrics"),
            (0, "late", 200, 1, Condition.HEALTHY, "metrics health metrics"),
            (0, 200, 200, 1, Condition.HEALTHY, "metrics health completions metrics"),
            (0, 200, 500, 1, Condition.FAILING, "metrics health completions metrics"),
            (0, 200, "refused", 1, Condition.FAILING, "metrics health completions metrics"),
            (0, 200, 503, 0, Condition.SLOW, "metrics health completions metrics"),
            (0, 200, 503, 1, Condition.HEALTHY, "metrics health completions metrics"),
            (0, 200, "late", 0, Condition.SLOW, "metrics health completions metrics"),
            (0, 200, "late", "late", Condition.SLOW, "metrics health completions metrics"),
            (0, 200, "late", 1, Condition.HEALTHY, "metrics health completions metrics"),
        ],
    )  # fmt: skip
    def test_finds_what_the_table_says(
        self, monkeypatch: pytest.MonkeyPatch, metrics: Any, health: Any, question: Any, metrics_after: Any,
        expected: Condition, asked: str,
    ) -> None:  # fmt: skip
        server = ScriptedServer(monkeypatch)
        server.look(0, 200, 200, 1)  # a first look, at which all was well
        finding = server.look(metrics, health, question, metrics_after)
        assert finding.condition is expected
        assert " ".join(path for path, _ in server.asked) == asked

    def test_waits_longer_once_the_server_is_slow_and_as_before_once_it_is_well(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = ScriptedServer(monkeypatch)
        patience = [
            max(seconds for _, seconds in server.asked)
            for answers in [
                (0, 200, 200, 1),
                (0, 200, "late", 0),
                (0, 200, "late", 0),
                ("late",),
                (1, 200, 200, 1),
                (1,),
            ]
            if server.look(*answers)
        ]
        assert patience == [60, 60, 180, 180, 180, 60]

    def test_takes_an_answer_without_the_counter_for_no_reading(self, monkeypatch: pytest.MonkeyPatch) -> None:
        readings = [Reply(200, {}, b"vllm:generation_tokens_total 9.0\n"), Reply(503, {}, b"busy")] * 4

        def hung(_method: str, url: str, **_: Any) -> Reply:
            if url.endswith("/metrics"):
                return readings.pop()
            if url.endswith("/health"):
                return Reply(200, {}, b"")
            raise TimedOut("silent")

        monkeypatch.setattr(probe, "call", hung)
        server = probe.Server(SupervisorSettings(), "10.0.0.2", 8000, lambda: "m")
        assert [server.look().condition for _ in range(4)] == [Condition.SLOW] * 4


class ScriptedServer:
    """Looks at a server that answers as it is told. Answers about metrics are tokens made since the last reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = probe.Server(SupervisorSettings(), "10.0.0.2", 8000, lambda: "m")
        self._tokens = 0
        self.asked: list[tuple[str, float]] = []
        monkeypatch.setattr(probe, "call", self._call)

    def look(self, metrics: Any, health: Any = 200, question: Any = 200, metrics_after: Any = 0) -> probe.Finding:
        self.asked = []
        self._script = {"metrics": [metrics, metrics_after], "health": [health], "completions": [question]}
        return self._server.look()

    def _call(self, _method: str, url: str, *, timeout_s: float, **_: Any) -> Reply:
        path = url.rpartition("/")[2]
        self.asked.append((path, timeout_s))
        answer = self._script[path].pop(0)
        if answer in ("late", "refused"):
            raise TimedOut("silent") if answer == "late" else TransientError("refused")
        if path == "metrics":
            self._tokens += answer
            return Reply(200, {}, f'vllm:generation_tokens_total{{engine="0"}} {self._tokens}.0\n'.encode())
        return Reply(answer, {}, b'{"choices": [{}]}')


class TestSmallThings:
    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            ("Error response from daemon: manifest for i:t not found: manifest unknown", "There is no such image"),
            ("denied: Permission artifactregistry.repositories.downloadArtifacts denied", "artifactregistry.reader"),
            ("failed to register layer: write /x: no space left on device", "The boot disk is full"),
            ("net/http: TLS handshake timeout", "Private Google Access"),
            ("failed to connect to the docker API at unix:///var/run/docker.sock", "Docker is not running"),
            ("", "without a word"),
        ],
    )
    def test_what_docker_says_comes_with_what_to_do(self, said: str, expected: str) -> None:
        assert expected in explain("pull", said)

    @pytest.mark.parametrize(
        "said",
        [
            "docker: Error response from daemon: Conflict.\nSee 'docker run --help'.\n",
            "docker: Error response from daemon: Conflict.\n\nRun 'docker run --help' for more information\n",
            "WARNING: the daemon is old\ndocker: Conflict.\n\nRun 'docker run --help' for more information\n",
        ],
    )
    def test_where_docker_says_how_to_read_on_that_is_not_the_reason(self, said: str) -> None:
        assert explain("run", said) == "docker run: Conflict."

    @pytest.mark.parametrize(
        ("home", "argv", "kept"),
        [
            ("/dev/shm/hf", ["google/a-it"], {"google--a-it"}),
            ("/dev/shm/hf", ["--model=google/a"], {"google--a"}),
            ("/dev/shm/hf", ["google/a-it", '{"model": "google/a"}'], {"google--a", "google--a-it"}),
            ("/dev/shm/hf", ["/dev/shm/weights/google/a"], set()),
            ("/root/hf", [], {"google--a", "google--a-it"}),
            ("/dev/shm/../../root/hf", [], {"google--a", "google--a-it"}),
            (None, [], {"google--a", "google--a-it"}),
        ],
    )
    def test_models_in_memory_are_kept_where_the_command_names_them(
        self, tmp_path: Path, home: str | None, argv: list[str], kept: set[str]
    ) -> None:
        models = {"google--a", "google--a-it"}
        memory = tmp_path / "dev" / "shm"
        for folder in ("dev/shm/hf", "root/hf"):
            for model in models:
                (tmp_path / folder / "hub" / f"models--{model}").mkdir(parents=True)
        env = {} if home is None else {"HF_HOME": f"{tmp_path}{home}"}
        spec = parsed(env=env, argv=["vllm", "serve", *argv])
        gone = {folder.name.removeprefix("models--") for folder in unnamed_models(spec, memory)}
        assert models - gone == kept

    def test_a_token_that_came_too_late_is_not_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings, log = SupervisorSettings(run_dir=tmp_path), Log(io.StringIO())
        status = MachineStatus(log, tmp_path / "status.json", lambda text: None, 10, 60)
        state = SavedState(tmp_path / "state.json", ROOT, status)
        docker = Docker(settings, log)
        context = Context(
            settings, log, status, MetadataServer(settings, log), docker, state, ServerOutput(docker, print)
        )
        spec = parsed(hfTokenSecret="projects/p/secrets/s")
        late = preparation.Preparation(context, spec, lambda *_: None, lambda _: None)

        def answer(*_: object) -> str:
            late.abandon()
            return "hf_of_a_wish_that_was_given_up"

        monkeypatch.setattr(preparation, "secret", answer)
        with pytest.raises(Abandoned):
            late._token()
        assert token_files(tmp_path) == []

    def test_a_status_file_that_could_not_be_written_is_written_later_though_nothing_changes(
        self, tmp_path: Path
    ) -> None:
        file, reported = tmp_path / "status.json", threading.Event()
        blocked = file.with_name(f".{file.name}.new")
        blocked.mkdir()
        status = MachineStatus(Log(io.StringIO()), file, lambda text: reported.set(), 0.01, 60)
        status.set(stage="serving")
        assert reported.wait(10)  # the change has gone through: only the file is missing, and nothing else will happen
        blocked.rmdir()
        assert until(lambda: file.is_file() and json.loads(file.read_text())["stage"] == "serving")

    def test_callers_are_counted_without_the_machine_itself(self, tmp_path: Path) -> None:
        table = tmp_path / "tcp"
        table.write_text(
            "  sl  local_address rem_address   st tx_queue rx_queue\n"
            "   0: 0200000A:1F40 00000000:0000 0A 0:0\n"  # the listening socket
            "   1: 0200000A:1F40 0100000A:C001 01 0:0\n"  # a caller
            "   2: 0200000A:1F40 0200000A:C002 01 0:0\n"  # our own probe
            "   3: 0200000A:1F40 0100000A:C003 06 0:0\n"  # one that has ended
            "   4: 0200000A:0016 0100000A:C004 01 0:0\n"  # another port
        )
        assert remote_connections(8000, table) == 1

    def test_waits_double_up_to_a_cap(self) -> None:
        assert [backoff(5, 300, failures) for failures in (1, 2, 3, 7, 8, 10_000)] == [5, 10, 20, 300, 300, 300]

    def test_settings_come_from_the_environment_with_their_types(self) -> None:
        settings = SupervisorSettings.of(
            {"GEMMA4_PROBE_S": "0.5", "GEMMA4_STREAMS": "3", "GEMMA4_RUN_DIR": "/x", "PROBE_S": "9"}
        )
        assert (settings.probe_s, settings.streams, settings.run_dir) == (0.5, 3, Path("/x"))
        assert SupervisorSettings.of({}) == SupervisorSettings()

    def test_a_private_file_is_private_from_its_first_byte(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text("old")
        path.chmod(0o644)
        write_private(path, "new")
        assert path.read_text() == "new"
        assert path.stat().st_mode & 0o777 == 0o600


def until(holds: Callable[[], bool], seconds: float = 10) -> bool:
    """Wait until `holds`, or for `seconds`, and return the last answer."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return holds()


def first_column(heading: str) -> set[str]:
    """Words in code marks in the first cells of the table below a heading of the README."""
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`([\w-]+)`", row)}


def _words_in_code(pattern: str) -> set[str]:
    text = "\n".join(path.read_text() for path in (archive.HERE / archive.SUPERVISOR).glob("*.py"))
    return set(re.findall(pattern, text))
