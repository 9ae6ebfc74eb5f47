"""Real vLLM servers on this machine's CPU, for tests that somebody asked for by naming a laboratory.

A laboratory is a directory with a virtual environment `venv` that has vLLM's CPU build, and tiny random Gemma 4
checkpoints beside it: `tiny` (text) and, if wanted, `tiny-mm` (text and pictures). GEMMA4_VLLM_LAB names it, or several
with a colon between them, one for each version of vLLM: commands are parsed by all, servers run in the first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.ports import ReservedPort

LABS = [Path(folder) for folder in os.environ.get("GEMMA4_VLLM_LAB", "").split(os.pathsep) if folder]
LAB = LABS[0] if LABS else None
URL = os.environ.get("GEMMA4_VLLM_URL", "")
NO_LAB = "name a directory with venv/ and tiny/ in GEMMA4_VLLM_LAB to run real vLLM servers on this CPU"
NO_URL = "name a running server in GEMMA4_VLLM_URL to check it"
SPEC_HASH = "spec-lab"
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "gemma4", "--reasoning-parser", "gemma4")
MAX_MODEL_LEN = 4096
FLAGS: tuple[str, ...] = (
    *("--dtype", "bfloat16", "--max-model-len", str(MAX_MODEL_LEN), "--max-num-seqs", "16", "--enforce-eager"),
    *("--kv-cache-memory-bytes", "256M", "--distributed-executor-backend", "uni"),
)
START_LIMIT_S = 600.0
ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}


def version_of(lab: Path) -> str:
    """The version of a laboratory's vLLM, as its environment has it on file."""
    (folder,) = lab.glob("venv/lib/*/site-packages/vllm-[0-9]*.dist-info")
    return folder.stem.split("-")[1].partition("+")[0]


@dataclass(frozen=True)
class RealVllm:
    """A server's address and where it logs."""

    url: str
    log: Path
    pid: int = 0
    """Of its process and of the group of all its processes; 0 of one that somebody else started."""

    def log_tail(self) -> list[str]:
        """The last lines, as a check's caller would hand them in."""
        return self.log.read_text(errors="replace").splitlines()[-200:]


@contextmanager
def running(model: Path, scratch: Path, *flags: str, path: str = "") -> Iterator[RealVllm]:
    """A server of `model`, not yet ready; `path` goes into PYTHONPATH. Gone afterwards, with all its processes."""
    with ReservedPort() as port:
        yield from _running(model, scratch, port, flags, path)


def _running(model: Path, scratch: Path, port: int, flags: Sequence[str], path: str) -> Iterator[RealVllm]:
    assert LAB is not None
    command = [str(LAB / "venv/bin/vllm"), "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--served-model-name", "gemma", SPEC_HASH, *FLAGS, *flags]
    log = scratch / f"vllm-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path},
            start_new_session=True,
        )
    try:
        yield RealVllm(f"http://127.0.0.1:{port}", log, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_healthy(server: RealVllm) -> None:
    """Imports alone take a quarter of a minute, more on a busy machine."""
    import requests

    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        try:
            if requests.get(f"{server.url}/health", timeout=5).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(1)
    raise AssertionError(f"not healthy within {START_LIMIT_S:.0f} s:\n" + "\n".join(server.log_tail()[-20:]))


def quantised(model: Path, target: Path) -> Path:
    """`model`'s configuration as a w4a16 checkpoint's, without weights: to be loaded with `--load-format dummy`."""
    target.mkdir()
    for file in model.iterdir():
        if file.suffix in (".json", ".jinja"):
            shutil.copy(file, target)
    config = json.loads((target / "config.json").read_text())
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }
    (target / "config.json").write_text(json.dumps(config))
    return target


def fp8_everywhere(target: Path) -> str:
    """A vLLM plugin for CPUs without AVX-512, on which vLLM refuses an fp8 KV cache at the start: without that refusal
    the server becomes healthy and breaks on its first computation, as it does where the CPU can do it. Returns what
    PYTHONPATH needs; empty where the CPU can."""
    if "avx512f" in Path("/proc/cpuinfo").read_text():
        return ""
    info = target / "fp8_everywhere-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fp8-everywhere\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nfp8_everywhere = fp8_everywhere:register\n")
    (target / "fp8_everywhere.py").write_text(
        "def register():\n"
        "    import vllm.v1.attention.backends.cpu_attn as attention\n"
        "    chosen = attention._get_attn_isa\n"
        "    attention._get_attn_isa = lambda dtype, block, head=None, kv=None: chosen(dtype, block, head)\n"
    )
    return str(target)
