"""A TPU machine in small: the real supervisor as a process of its own, between fakes of everything around it."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import os
import py_compile
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from containers import archive
from containers.shared.web import TransientError, call
from tests.fakes.docker import FakeContainer
from tests.fakes.google import FakeGoogle
from tests.fakes.machine_commands import MachineCommands
from tests.fakes.metadata_server import FakeMetadata
from tests.fakes.ports import ReservedPort

HF_TOKEN = "hf_PlantedHuggingFaceToken0001"
SECRETS = "secretmanager/v1/projects/demo-project/secrets"
BUCKET, PREFIX = "weights", "google/gemma-4-tiny/main"
REGISTRY = "us-east5-docker.pkg.dev"
MANIFEST = "gemma4-manifest.json"
MODEL = {"config.json": b'{"model_type": "gemma4"}', "model.safetensors": bytes(range(256)) * 12_000, "empty.txt": b""}
LOG = {
    "project_id": "demo-project",
    "location": "us-east5-a",
    "namespace": "gemma4",
    "node_id": "gemma4-v6e4-blue",
    "stack": "v6e4",
    "machine": "blue",
}
ADDRESS = "127.0.0.2"
"""The machine's own, which is not the placeholder of its record."""
NAME, ZONE = "blue-a", "gemma4-v6e4"
RECORD = f"{NAME}.{ZONE}.internal."
MEMBER = {"name": NAME, "project": "demo-project", "zone": ZONE, "record": RECORD}
# What takes seconds on a real machine takes a fraction of one here.
QUICK = {
    "WATCH_S": "2",
    "RETRY_S": "0.03",
    "RETRY_CAP_S": "0.1",
    "RESTART_S": "0.03",
    "RESTART_CAP_S": "0.1",
    "START_POLL_S": "0.05",
    "PROBE_S": "0.1",
    "GENERATION_TIMEOUT_S": "5",
    "UNHEALTHY_S": "60",
    "STABLE_S": "0.2",
    "ROLL_S": "0.1",
    "LEAVE_S": "0.2",
    "RECORD_RETRY_CAP_S": "0.1",
    "DRAIN_CAP_S": "10",
    "REPORT_S": "0.02",
    "STREAMS": "4",
    "RANGE_MIB": "1",
    "IMAGE_GIB": "0",
    "LOG_S": "0.2",
    "LOG_CAP_S": "0.4",
}


class TpuMachine:
    """The machine after boot; `start` starts the supervisor on it. `close` fails if a secret got out anywhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.google = FakeGoogle()
        self.google.__enter__()
        self.machine = MachineCommands(folder)
        self.metadata = FakeMetadata(gemma4_supervisor=archive.in_base64(compiled()), gemma4_log=json.dumps(LOG))
        self.metadata.set("gemma4-member", json.dumps(MEMBER))
        self.metadata.values["network-interfaces/0/ip"] = ADDRESS
        self._ask("POST", "dns/v1/projects/demo-project/managedZones", {"name": ZONE, "dnsName": f"{ZONE}.internal."})
        self.google.dns.write(ZONE, RECORD, "127.0.0.1")
        self._ports: list[ReservedPort] = []
        self.port, self.ready_port = self.new_port(), self.new_port()
        self.output = folder / "output.txt"
        self.shm, self.state, self.run_dir = (folder / name for name in ("shm", "state", "run"))
        self.shm.mkdir()
        self.state.mkdir()
        (folder / "dev" / "vfio").mkdir(parents=True)
        self.process: subprocess.Popen[bytes] | None = None
        self._tokens: list[str] = []
        self._ask("POST", f"{SECRETS}?secretId=hf", {"replication": {}})
        self.add_token("hf", HF_TOKEN)
        self.environ = {
            "PATH": f"{self.machine.bin}:{os.environ['PATH']}",
            **{f"GEMMA4_{name}": value for name, value in QUICK.items()},
            "GEMMA4_METADATA_HOST": self.metadata.host,
            "GEMMA4_STORAGE_URL": self.google.url,
            "GEMMA4_LOG_URL": f"{self.google.url}/logging",
            "GEMMA4_DNS_URL": self.google.url,
            "GEMMA4_SECRETS_URL": f"{self.google.url}/secretmanager",
            "GEMMA4_READY_ADDRESS": ADDRESS,
            "GEMMA4_READY_PORT": str(self.ready_port),
            "GEMMA4_STATE_DIR": str(self.state),
            "GEMMA4_RUN_DIR": str(self.run_dir),
            "GEMMA4_WEIGHTS_ROOT": str(self.shm / "weights"),
            "GEMMA4_UNIT_DIR": str(folder),
            "GEMMA4_DEVICE_DIR": str(folder / "dev"),
        }
        self.program = self.state / "supervisor.pyz"
        self.program.write_bytes(compiled())

    def new_port(self) -> int:
        """A port that is this machine's alone until it is closed."""
        self._ports.append(ReservedPort())
        return self._ports[-1].number

    def close(self) -> None:
        self.kill()
        try:
            self.check_secrets()
        finally:
            for port in self._ports:
                port.close()
            self.machine.close()
            self.metadata.close()
            self.google.__exit__()

    # What the world around does.

    def stage(self, prefix: str = PREFIX, files: Mapping[str, bytes] | None = None) -> None:
        """Fill the bucket as the weights copy does, the manifest last."""
        rows = []
        for name, data in (files or MODEL).items():
            self.google.storage.put_text(BUCKET, f"{prefix}/{name}", "")
            self.google.storage.store(BUCKET, f"{prefix}/{name}", data, {})
            rows.append({"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        manifest = {"schema": 1, "repo": "google/gemma-4-tiny", "revision": "0" * 40, "files": rows}
        self.google.storage.put_text(BUCKET, f"{prefix}/{MANIFEST}", json.dumps(manifest))

    def add_secret(self, name: str, token: str) -> None:
        self._ask("POST", f"{SECRETS}?secretId={name}", {"replication": {}})
        self.add_token(name, token)

    def add_token(self, name: str, token: str) -> None:
        """A new version of a secret that there is."""
        self._tokens.append(token)
        payload = {"payload": {"data": base64.b64encode(f"{token}\n".encode()).decode()}}
        self._ask("POST", f"{SECRETS}/{name}:addVersion", payload)

    def spec(self, name: str, **changes: Any) -> dict[str, Any]:
        """A specification of the fake model; `changes` by key."""
        document = {
            "schema": 1,
            "hash": name,
            "image": f"{REGISTRY}/demo/gemma4/vllm-tpu:v0.32.0",
            "registry": REGISTRY,
            "argv": [
                *("vllm", "serve", self.destination()),
                *("--served-model-name", "google/gemma-4-tiny", name),
                *("--host", "${VPC_ADDRESS}", "--port", "${PORT}"),
            ],
            "env": {"VLLM_XLA_CACHE_PATH": "/dev/shm/xla-cache"},
            "weights": [{"bucket": BUCKET, "prefix": PREFIX, "destination": self.destination()}],
            "servers": [{"suffix": "", "port": self.port, "devices": []}],
            "model": name,
            "readyTimeoutSeconds": 30,
            "drainSeconds": 45,
        }
        return {**document, **changes}

    def destination(self, prefix: str = PREFIX) -> str:
        return str(self.shm / "weights" / prefix)

    def want(self, name: str, **changes: Any) -> dict[str, Any]:
        """Set the node's attribute; the image is published unless `image` names one that a test left out."""
        document = self.spec(name, **changes)
        if "image" not in changes:
            self.machine.docker.publish(document["image"])
        self.metadata.set("gemma4-spec", json.dumps(document))
        return document

    def serve(self, name: str, **changes: Any) -> None:
        """Want a specification, start the supervisor unless it runs, and wait until it serves."""
        self.want(name, **changes)
        if self.process is None:
            self.start()
        self.until_serving(name)

    def publish(self, first_lines: str = "# another version\n") -> bytes:
        """Set the node's attribute to another version of the supervisor; returns that one."""
        program = compiled(first_lines)
        self.metadata.set("gemma4-supervisor", archive.in_base64(program))
        return program

    def reboot(self) -> None:
        """The process and the container end, memory is empty, disks stay."""
        self.kill()
        self.machine.docker.reboot()
        for folder in (self.shm, self.run_dir):
            subprocess.run(["rm", "-rf", str(folder)], check=True)
        self.shm.mkdir()

    # The supervisor.

    def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(self.program), "run"],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End the supervisor; returns its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(number)
        code = self.process.wait(30)
        self.process = None
        return code

    def restart(self, **settings: str) -> None:
        """Kill the supervisor and start the next one, with other settings from now on."""
        self.kill()
        self.configure(**settings)
        self.start()

    def configure(self, **settings: str) -> None:
        """Change settings of the supervisor from its next start on."""
        self.environ |= {f"GEMMA4_{name}": value for name, value in settings.items()}

    def children(self, word: str) -> list[str]:
        """Command lines of the commands that the supervisor runs now and that have `word` among their arguments."""
        assert self.process is not None
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                line = (process / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue  # it has ended meanwhile
            if parent == str(self.process.pid) and word in line:
                found.append(" ".join(line))
        return found

    @property
    def status(self) -> dict[str, Any]:
        """The status file; empty before there is one."""
        try:
            status: dict[str, Any] = json.loads((self.run_dir / "status.json").read_text())
        except FileNotFoundError:
            return {"errors": []}
        return status

    @property
    def errors(self) -> dict[str, str]:
        """What is wrong now, by place."""
        return {error["where"]: error["message"] for error in self.status["errors"]}

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The entries of the log. Fails if anything but whole JSON lines is in it."""
        text = self.output.read_text() if self.output.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["event"] == event]

    @property
    def token_files(self) -> list[Path]:
        """Where Hugging Face tokens may lie."""
        return sorted(self.run_dir.glob("huggingface-token*"))

    @property
    def container(self) -> FakeContainer:
        container = self.machine.docker.container
        assert container is not None
        return container

    def ask(self, path: str) -> tuple[int, dict[str, Any]]:
        """What the supervisor answers a gateway; 0 while nobody listens."""
        try:
            reply = call("GET", f"http://{self.environ['GEMMA4_READY_ADDRESS']}:{self.ready_port}{path}", timeout_s=5)
        except TransientError:
            return 0, {}
        return reply.status, json.loads(reply.body)

    @property
    def is_ready(self) -> bool:
        return self.ask(f"/ready/{NAME}")[0] == 200

    @property
    def address(self) -> str:
        """What a resolver answers for the machine's name."""
        return self.google.dns.addresses(ZONE).get(RECORD, "")

    def until_refused(self) -> None:
        self.until(lambda: not self.is_ready, "the server to take no requests")

    @property
    def taken(self) -> list[bool]:
        """What gateways were told, one after the other: True where the server takes requests."""
        return [bool(entry["ready"]) for entry in self.said("ready")]

    def serves(self, name: str) -> bool:
        """As a caller from another machine sees it: this specification's server runs, and takes requests."""
        container = self.machine.docker.container
        return (
            container is not None
            and container.running
            and container.labels["gemma4.hash"] == name
            and self.is_ready
            and self.status.get("stage") == "serving"
            and self.status.get("running") == name
        )

    def until_serving(self, name: str) -> None:
        self.until(lambda: self.serves(name), f"{name} to serve")

    def until(self, true: Callable[[], object], what: str, within_s: float = 30) -> float:
        """Wait for something; returns the seconds it took."""
        begin = time.monotonic()
        while not true():
            if time.monotonic() - begin > within_s:
                output = self.output.read_text() if self.output.exists() else "nothing"
                raise AssertionError(f"waited {within_s} s for {what}.\n{self.status}\n{output}")
            time.sleep(0.01)
        return time.monotonic() - begin

    def until_trouble(self, where: str, word: str = "") -> str:
        """Wait for an error of this place that has `word` in it; returns its message."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [message for place, message in self.errors.items() if place == where and word in message]
            return bool(found)

        self.until(is_there, f"trouble with {where}: {word}")
        return found[0]

    # Secrets.

    def check_secrets(self) -> None:
        """Fail if a planted token can be read anywhere but where it has to be."""
        tokens = [*self.metadata.issued, *self._tokens]
        tokens += [f"oauth2accesstoken:{token}" for token in tokens]
        forms = [form for token in tokens for form in (token, base64.b64encode(token.encode()).decode())]
        for place, text in self.visible().items():
            for form in forms:
                assert form not in text, f"a token can be read in {place}"

    def visible(self) -> dict[str, str]:
        """Everything that others than root may see, or that outlives the moment, by place."""
        texts = {"the node's metadata": json.dumps(self.metadata.attributes)}
        texts |= {f"report {number}": text for number, text in enumerate(self.metadata.reports)}
        if self.output.exists():
            texts["the log"] = self.output.read_text()
        for number, command in enumerate(self.machine.commands):
            texts[f"command {number}: {command.name}"] = json.dumps([command.arguments, dict(command.environ)])
        texts["Cloud Logging"] = json.dumps(self.google.logging.entries)
        docker = self.machine.docker
        for container in [*docker.past, *docker.containers.values()]:
            texts["docker inspect"] = repr((container.options, container.labels, container.env, container.command))
        for folder in (self.state, self.run_dir):
            for path in [path for path in folder.rglob("*") if path.is_file() and path not in self.token_files]:
                texts[str(path)] = path.read_bytes().decode(errors="replace")
        return texts

    def _ask(self, method: str, path: str, body: Any) -> None:
        request = urllib.request.Request(
            f"{self.google.url}/{path}",
            data=json.dumps(body).encode(),
            method=method,
            headers={"Authorization": "Bearer fake", "Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=5).close()


@functools.cache
def compiled(first_lines: str = "") -> bytes:
    """The supervisor with its bytecode beside it, since a test is over in the time that compiling takes."""
    memory = io.BytesIO(archive.supervisor(first_lines))
    with zipfile.ZipFile(memory, "a") as packed, tempfile.TemporaryDirectory() as folder:
        packed.extractall(folder)
        for name in [name for name in packed.namelist() if name.startswith("containers/") and name.endswith(".py")]:
            path = str(Path(folder, name))
            py_compile.compile(path, f"{path}c", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
            packed.write(f"{path}c", f"{name}c")
    return memory.getvalue()
