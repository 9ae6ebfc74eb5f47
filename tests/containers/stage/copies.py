"""The weights copy as the job runs it: a process of its own between a fake Hub, CDN, bucket and metadata server."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.containers.packed import packed_stage
from tests.fakes.faulty_bucket import FakeStorage
from tests.fakes.hub import COMMIT, Content, FakeHub, HubFile

KIB, MIB = 1024, 1024 * 1024
MANIFEST = "model/gemma4-manifest.json"
# No site-packages: whatever is not in the standard library is not there.
PYTHON = [sys.executable, "-I", "-S"]
QUICK = ["--backoff-seconds", "0", "--chunk-mib", "1"]


def bytes_of(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


MODEL: dict[str, Content] = {
    "config.json": b'{"architectures": ["Gemma4ForConditionalGeneration"]}',
    "model-00001-of-00002.safetensors": bytes_of(3 * MIB + 700 * KIB + 1, seed=1),
    "model-00002-of-00002.safetensors": bytes_of(2 * MIB, seed=2),
    "tokenizer.json": bytes_of(300 * KIB, seed=3),
    "chat_template.jinja": b"",
}
BIG, SMALL = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
NOT_FOR_SERVING: dict[str, Content] = {
    ".gitattributes": b"*.safetensors filter=lfs",
    "original/params.json": b"{}",
    "consolidated.00.pth": b"double",
    "pytorch_model.bin": b"double",
    "model.gguf": b"double",
    "card.png": b"picture",
}


@dataclass
class Run:
    """What one run of the job printed and how it ended."""

    code: int
    text: str

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def error(self) -> str:
        """The one line that says what went wrong."""
        (entry,) = (entry for entry in self.entries if entry.get("event") == "failed")
        assert entry["severity"] == "ERROR"
        assert entry["exitCode"] == self.code
        return str(entry["message"])


def make_files(files: dict[str, Content]) -> dict[str, HubFile]:
    return {name: HubFile(content, lfs=False) for name, content in files.items()}


class Place:
    """The fakes, and the job between them."""

    def __init__(self, files: dict[str, Content], *, gated: bool = False, keeps_data: bool = True) -> None:
        self.hub = FakeHub(files, gated=gated)
        self.storage = FakeStorage(keeps_data=keeps_data)
        self.environ = {
            "HF_ENDPOINT": self.hub.url,
            "HF_TOKEN": self.hub.token,
            "STORAGE_ENDPOINT": self.storage.url,
            "GCE_METADATA_HOST": self.storage.metadata_host,
        }
        self.where = ["--repo", self.hub.repo, "--revision", COMMIT, "--destination", "gs://weights/model"]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [*PYTHON, str(packed_stage()), *QUICK, *self.where, *arguments]
        return subprocess.Popen(command, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments: str) -> Run:
        process = self.start(*arguments)
        text, _ = process.communicate(timeout=60)
        return Run(process.returncode, text)

    def verify(self, *arguments: str) -> Run:
        return self.run("--verify", *arguments)

    def stored(self, name: str) -> bytes:
        return self.storage.objects[f"model/{name}"].data

    def has(self, name: str) -> bool:
        return f"model/{name}" in self.storage.objects

    @property
    def manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(self.storage.objects[MANIFEST].data)
        return manifest

    def forget_requests(self) -> None:
        for log in (self.hub.hub_requests, self.hub.cdn_requests, self.storage.requests):
            log.clear()

    def close(self) -> None:
        self.hub.close()
        self.storage.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


MakePlace = Callable[..., Place]
