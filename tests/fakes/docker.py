"""A docker that has one registry and runs containers by name: small servers that can fail in the ways vLLM does.

The server knows only what the supervisor asks it; `tests.fakes.vllm` has a whole one.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = tuple[int, str, str]
OK = ""
NO_ID = "sha256:"
GOODBYE = "INFO Shutting down"
"""What a server prints when it is told to stop."""
DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


@dataclass
class Behaviour:
    """How a server does: it may die at once, never be healthy, or be healthy and not generate."""

    dies_with: int | None = None
    last_output: str = "INFO vLLM API server version 0.32.0"
    healthy: bool = True
    generates: bool = True
    silent: bool = False
    """Accepts a completion and never answers it."""
    busy: bool = False
    """The same, but makes a token for somebody else meanwhile."""
    slow_s: float = 0
    """How long it takes for each answer, whatever is asked."""
    deaf: bool = False
    """Accepts connections and answers nothing, as an event loop that stands still."""


class FakeDocker:
    """`images` maps references to ids: what the registry has. `behaviours` go by a specification's hash.

    A server at one of `dead_ports` dies, whatever its specification; `dead_ports_of` is the port at
    which a specification's server dies.

    `refusals` maps a verb (login, pull, run …) to what docker prints while it fails; `holds` to an event that the
    verb waits for. So many of the next inspections are `garbled`; with `vanishes`, the container is gone after the next.
    """

    def __init__(self) -> None:
        self.images: dict[str, str] = {}
        self.local: dict[str, str] = {}
        self.behaviours: dict[str, Behaviour] = {}
        self.dead_ports: set[int] = set()
        self.dead_ports_of: dict[str, int] = {}
        self.refusals: dict[str, str] = {}
        self.holds: dict[str, threading.Event] = {}
        self.containers: dict[str, FakeContainer] = {}
        self.verdicts: dict[str, str] = {}
        """What the check of the GPUs says, by the first of them; `stuck` where its container never ends."""
        self.checks: list[FakeContainer] = []
        self.runs: type[FakeContainer] = FakeContainer
        """What comes of `docker run`."""
        self.image_env: list[str] = []
        """Of every image."""
        self.removed: list[str] = []
        self.shared: list[str] = []
        """Containers that ran with the same GPU at one time, which no machine survives."""
        self.past: list[FakeContainer] = []
        self.logins: list[tuple[str, str]] = []
        self.down = False
        self.garbled = 0
        self.vanishes = False

    @property
    def container(self) -> FakeContainer | None:
        """That of a machine's only server."""
        return self.containers.get("gemma4")

    def publish(self, image: str) -> str:
        """Put an image into the registry; returns its id."""
        self.images[image] = NO_ID + hashlib.sha256(image.encode()).hexdigest()
        return self.images[image]

    def close(self) -> None:
        for hold in self.holds.values():
            hold.set()
        for container in self.containers.values():
            container.may_end.set()
            container.stop()

    def reboot(self) -> None:
        """What a reboot does to containers: they have ended, and nobody starts them."""
        for container in self.containers.values():
            container.end(255)

    def behaviour(self, name: str) -> Behaviour:
        return self.behaviours.setdefault(name, Behaviour())

    def answer(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        """What the command line prints, and its exit code."""
        verb = "image " + arguments[1] if arguments[0] == "image" else arguments[0]
        if self.down:
            return _refused(verb, DOWN)
        for held in {verb, f"{verb} {arguments[-1]}"} & self.holds.keys():
            self.holds[held].wait(20)
        if verb in self.refusals:
            return _refused(verb, f"Error response from daemon: {self.refusals[verb]}")
        act: Callable[[Sequence[str], Mapping[str, str], str], Answer] = {
            "login": self._login,
            "pull": self._pull,
            "image inspect": self._image_inspect,
            "image rm": self._image_rm,
            "container": self._inspect,
            "ps": self._ps,
            "run": self._run,
            "stop": self._stop,
            "rm": self._rm,
            "logs": self._logs,
        }[verb]
        return act(arguments, environ, text)

    def _login(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        config = Path(environ["DOCKER_CONFIG"])
        (config / "config.json").write_text(json.dumps({"auths": {arguments[-1]: {"auth": "in plain"}}}))
        self.logins.append((arguments[-1], text))
        return 0, "Login Succeeded\n", "WARNING! Your credentials are stored unencrypted.\n"

    def _pull(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        image = arguments[-1]
        if image not in self.images:
            return 1, "", f"Error response from daemon: manifest for {image} not found: manifest unknown\n"
        self.local[image] = self.images[image]
        return 0, f"{image}\n", ""

    def _image_inspect(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        found = arguments[-1] if arguments[-1] in self.local.values() else self.local.get(arguments[-1])
        if not found:
            return 1, "", f"Error response from daemon: No such image: {arguments[-1]}\n"
        return 0, f"{json.dumps(self.image_env) if '{{json .Config.Env}}' in arguments else found}\n", ""

    def _image_rm(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        self.local = {name: each for name, each in self.local.items() if each != arguments[-1]}
        return 0, "", ""

    def _ps(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        return 0, "".join(f"{name}\n" for name in self.containers), ""

    def _inspect(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        container = self.containers.get(arguments[-1])
        if container is None:
            return 1, "[]\n", f"Error response from daemon: No such container: {arguments[-1]}\n"
        text = json.dumps([container.row()])
        if self.garbled:
            self.garbled -= 1
            text = text[:20]
        if self.vanishes:
            self.vanishes = False
            self._rm(arguments, environ, "")
        return 0, text, ""

    def _check(self, container: FakeContainer) -> Answer:
        self._refuse_shared_gpus(container)
        self.checks.append(container)
        verdict, before = self.verdicts.get(container.gpus[0], "pass"), len(self.removed)
        while verdict == "stuck" and container.name not in self.removed[before:]:
            threading.Event().wait(0.01)
        return 0, f"NCCL version 2.27.5+cuda13.0\n{verdict}\n", ""

    def _refuse_shared_gpus(self, container: FakeContainer) -> None:
        for other in self.containers.values():
            if other.running and not {*other.gpus}.isdisjoint(container.gpus):
                self.shared.append(f"{other.name} and {container.name} would share a GPU")

    def _run(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        container = self.runs.of(arguments)
        if "--rm" in arguments:
            return self._check(container)
        if container.name in self.containers:
            said = f'Conflict. The name "/{container.name}" is already in use.'
            return _refused("run", f"Error response from daemon: {said}")
        if container.image not in self.local.values():
            return _refused("run", f"Error response from daemon: No such image: {container.image}")
        self._refuse_shared_gpus(container)
        self.containers[container.name] = container
        name, port = container.labels["gemma4.hash"], int(container.argument("--port"))
        behaviour = self.behaviour(name)
        if port in self.dead_ports or self.dead_ports_of.get(name) == port:
            behaviour = replace(behaviour, dies_with=1)
        container.start(behaviour)
        return 0, f"{container.id}\n", ""

    def _stop(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        container = self.containers.get(arguments[-1])
        if container is None:
            return 1, "", f"Error response from daemon: No such container: {arguments[-1]}\n"
        container.stop()
        return 0, f"{container.name}\n", ""

    def _rm(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        self.removed.append(arguments[-1])
        container = self.containers.pop(arguments[-1], None)
        if container:
            container.stop()
            self.past.append(container)
        return 0, f"{arguments[-1]}\n", ""

    def _logs(self, arguments: Sequence[str], environ: Mapping[str, str], text: str) -> Answer:
        container = self.containers.get(arguments[-1])
        if container is None:
            return 1, "", f"Error response from daemon: No such container: {arguments[-1]}\n"
        if "--timestamps" not in arguments:
            return 0, "", f"{container.behaviour.last_output}\n"
        since = arguments[arguments.index("--since") + 1] if "--since" in arguments else ""
        lines = [(stamp, line) for stamp, line in container.printed if stamp >= since]
        most = int(arguments[arguments.index("--tail") + 1])
        return 0, "", "".join(f"{stamp} {line}\n" for stamp, line in lines[-most:])


def _refused(verb: str, said: str) -> Answer:
    """`docker run` has an exit code of its own, and ends with where to read on."""
    if verb == "run":
        return 125, "", f"docker: {said}\n\nRun 'docker run --help' for more information\n"
    return 1, "", f"{said}\n"


@dataclass
class FakeContainer:
    """What `docker run` was asked for, and the server that came of it."""

    id: str
    image: str
    options: Mapping[str, Sequence[str]]
    labels: Mapping[str, str]
    env: Mapping[str, str]
    command: Sequence[str]
    mounted: Mapping[str, str]
    """Content of each mounted file, as it was at the start, by its path inside."""
    behaviour: Behaviour = field(default_factory=Behaviour)
    exit_code: int = 0
    tokens: int = 0
    questions: int = 0
    asked: list[str] = field(default_factory=list)
    """The models that questions were for."""
    requests: list[str] = field(default_factory=list)
    """The paths that were asked for."""
    printed: list[tuple[str, str]] = field(default_factory=list)
    """Lines with docker's time stamps."""
    streams: int = 0
    """Answers under way to requests for a stream, each of which goes on until `may_end`."""
    may_end: threading.Event = field(default_factory=threading.Event)
    looks: int = 0
    """How often it was asked for its health."""
    server: ThreadingHTTPServer | None = None

    @classmethod
    def of(cls, arguments: Sequence[str]) -> FakeContainer:
        options: dict[str, list[str]] = {}
        rest = list(arguments[1:])
        while rest[0].startswith("--"):
            name = rest.pop(0)
            options.setdefault(name, []).append("" if name in ("--detach", "--privileged", "--rm") else rest.pop(0))
        labels = dict(label.split("=", 1) for label in options.get("--label", ()))
        mounts = [volume.split(":") for volume in options.get("--volume", ())]
        files = {inside: Path(outside).read_text() for outside, inside, *_ in mounts if Path(outside).is_file()}
        serial = hashlib.sha256(repr((arguments, id(options))).encode()).hexdigest()
        env = dict(variable.split("=", 1) for variable in options.get("--env", ()))
        return cls(serial, rest[0], options, labels, env, [*options["--entrypoint"], *rest[1:]], files)

    @property
    def name(self) -> str:
        return self.options["--name"][0]

    @property
    def gpus(self) -> list[str]:
        """The GPUs that it alone has."""
        inside = [device.rpartition("/")[2] for device in self.options.get("--device", ())]
        return [name for name in inside if re.fullmatch(r"nvidia\d+", name)]

    @property
    def running(self) -> bool:
        return self.server is not None

    def argument(self, flag: str) -> str:
        return self.command[self.command.index(flag) + 1]

    def row(self) -> dict[str, Any]:
        state = {"Running": self.running, "ExitCode": self.exit_code, "OOMKilled": self.exit_code == 137}
        return {"Id": self.id, "State": state, "Config": {"Labels": dict(self.labels)}}

    def print(self, text: str) -> None:
        for line in text.split("\n"):
            seconds, nanoseconds = divmod(time.time_ns(), 10**9)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            self.printed.append((f"{stamp}.{nanoseconds:09d}Z", line))

    def start(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.print(behaviour.last_output)
        if behaviour.dies_with is not None:
            self.exit_code = behaviour.dies_with
            return
        address = (self.argument("--host"), int(self.argument("--port")))
        self.server = _Server(address, self)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Streams under way get `--stop-timeout` seconds, as vLLM gives them its `--shutdown-timeout`."""
        if self.running:
            self.print(GOODBYE)
            deadline = time.monotonic() + float(self.options["--stop-timeout"][0])
            while self.streams and time.monotonic() < deadline:
                time.sleep(0.01)
        self.end(0)

    def end(self, code: int) -> None:
        """The process ends, by itself or not."""
        if self.server:
            server, self.server, self.exit_code = self.server, None, code
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], container: FakeContainer) -> None:
        self.container = container
        super().__init__(address, _Vllm)

    def handle_error(self, *_: object) -> None:
        """Quiet: callers give up on purpose."""


class _Vllm(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        container = self.server.container
        self._take_time(container)
        if self.path == "/metrics":
            names = {"generation_tokens_total": container.tokens, "num_requests_running": container.streams}
            rows = {**names, "num_requests_waiting": 0}.items()
            lines = [f'vllm:{name}{{engine="0",model_name="m"}} {float(value)}\n' for name, value in rows]
            self._reply(200, "".join(lines))
        else:
            container.looks += 1
            self._reply(200 if container.behaviour.healthy else 503, "")

    def do_POST(self) -> None:
        container = self.server.container
        self._take_time(container)
        container.questions += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("stream"):
            self._stream(container)
        else:
            self._complete(container, body)

    def _complete(self, container: FakeContainer, body: Mapping[str, Any]) -> None:
        container.asked.append(body["model"])
        container.tokens += container.behaviour.busy
        while (container.behaviour.silent or container.behaviour.busy) and container.running:
            threading.Event().wait(0.02)
        if body["model"] not in container.command:
            self._reply(404, json.dumps({"error": {"type": "NotFoundError", "message": "no such model"}}))
        elif not container.behaviour.generates:
            self._reply(500, json.dumps({"error": {"message": "EngineCore encountered an issue", "code": 500}}))
        else:
            container.tokens += int(body["max_tokens"])
            self._reply(200, json.dumps({"choices": [{"message": {"content": "OK"}, "finish_reason": "length"}]}))

    def _stream(self, container: FakeContainer) -> None:
        container.streams += 1
        try:
            self.send_response(200)
            self.end_headers()
            while not container.may_end.wait(0.02):
                self.wfile.write(b"data: {}\n\n")
            self.wfile.write(b"data: [DONE]\n\n")
        finally:
            container.streams -= 1

    def _take_time(self, container: FakeContainer) -> None:
        container.requests.append(self.path)
        threading.Event().wait(container.behaviour.slow_s)
        while container.behaviour.deaf and container.running:
            threading.Event().wait(0.02)

    def _reply(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Quiet."""
