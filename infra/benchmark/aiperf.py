"""Runs aiperf, the load generator, in an environment of its own, and reads what it recorded of each request.

aiperf gets a file of whole request bodies, which it sends as they are, and counts tokens by the server's usage. It never
needs the model's tokenizer; since it insists on one, it gets a toy. The identity token goes to it through its environment,
which other users of the machine cannot read as they can read a command line; aiperf writes it into none of its files (tried
with 0.13.0).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.errors import Gemma4Error, SettingsError
from infra.serving.server_errors import cleaned

ENVIRONMENT = ".venv-bench"
INSTALL = "make bench-tools"
VERSION = "0.13.0"
"""The version that requirements-bench.txt pins and whose files this module reads."""

_TOKEN_VARIABLE = "OPENAI_API_KEY"  # noqa: S105 - a name
_REQUEST_LIMIT_S = 3600  # Cloud Run ends a request then at the latest
_STOP_S = 5.0
_ENDS = (signal.SIGTERM, signal.SIGHUP)
_SHORT = Path("/tmp")  # noqa: S108 - a folder of our own is made in it
_STREAMS_PER_WORKER = 250
_LOOKS_PER_SECOND = 500
"""How often aiperf looks for a stream that is free. Its phases of type `concurrency` look without a pause, which takes up to
half a core from a server on the same machine (0.13.0, timing/strategies/request_rate.py); 2 ms are nothing to a request."""
# A local folder is refused as a tokenizer while these are set.
_UNWANTED = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "AIPERF_CONFIG", _TOKEN_VARIABLE)
_TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"},
}


@dataclass(frozen=True)
class Load:
    """What aiperf sends: the first `warmup` bodies of `bodies` uncounted, then the others, `concurrency` at any time."""

    url: str
    model: str
    bodies: Sequence[Mapping[str, Any]]
    warmup: int
    concurrency: int

    @property
    def counted(self) -> int:
        """How many requests are counted."""
        return len(self.bodies) - self.warmup


@dataclass(frozen=True)
class Answered:
    """A request that was answered whole. Times in seconds; `itl_s` is None where there were not two tokens."""

    sent_s: float
    ttft_s: float
    itl_s: float | None
    e2e_s: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Recorded:
    """What aiperf recorded of a load."""

    answered: tuple[Answered, ...]
    """Counted requests, in the order of sending."""
    errors: Mapping[str, int]
    """Counted requests without a whole answer: how often each reason was given."""
    warmup_output_tokens: int
    warmup_failed: int
    cpu_s: float
    """Seconds of a core that aiperf used with all its processes, its start included."""

    @property
    def duration_s(self) -> float:
        """From the sending of the first request to the end of the last one that was answered."""
        if not self.answered:
            return 0.0
        return max(one.sent_s + one.e2e_s for one in self.answered) - min(one.sent_s for one in self.answered)


def find(root: Path) -> Path:
    """Return aiperf of the project's own environment, else that on the PATH. Raises SettingsError, which says what to type."""
    own = root / ENVIRONMENT / "bin" / "aiperf"
    if own.is_file() and os.access(own, os.X_OK):
        return own
    on_path = shutil.which("aiperf")
    if on_path is None:
        raise SettingsError.of(
            "aiperf",
            f"is neither in {ENVIRONMENT} nor on the PATH, and gemma4 bench sends its load with it.",
            fix=f"Type: {INSTALL}. Without a checkout: pipx install aiperf=={VERSION}",
        )
    return Path(on_path)


def version(executable: Path) -> str:
    """Return aiperf's version. Raises Gemma4Error where it does not say one."""
    done = subprocess.run(  # noqa: S603
        [executable, "--version"], capture_output=True, text=True, check=False, env=_environment(None, Path.cwd())
    )
    words = done.stdout.split()
    if done.returncode or not words:
        raise Gemma4Error(f"{executable} --version failed: {_last_words(done.stderr or done.stdout)}. Type: {INSTALL}")
    return words[-1]


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty folder for `run`, gone afterwards. Its path is short: aiperf puts sockets under it, whose paths may have
    about a hundred characters, of which the usual folder of macOS takes half."""
    with tempfile.TemporaryDirectory(prefix="gemma4-bench-", dir=_SHORT if _SHORT.is_dir() else None) as folder:
        yield Path(folder)


def run(executable: Path, load: Load, *, token: str | None, folder: Path) -> Recorded:
    """Send a load and return what was recorded. `folder` is a `scratch_folder`, and takes what aiperf writes.

    Raises Gemma4Error where aiperf fails without records. Whatever ends this call, Ctrl-C too, ends aiperf with its children.
    """
    (folder / "bodies.jsonl").write_text("".join(json.dumps(body) + "\n" for body in load.bodies))
    (folder / "tokenizer.json").write_text(json.dumps(_TOKENIZER))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    (folder / "aiperf.json").write_text(json.dumps(configuration(load, folder, with_token=token is not None)))
    log = folder / "output.log"
    with log.open("wb") as output, _ended_as_by_ctrl_c():
        process = subprocess.Popen(  # noqa: S603
            [executable, "profile", "--config", folder / "aiperf.json"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(token, folder),
            cwd=folder,
            start_new_session=True,  # Ctrl-C is for this program, which then ends the whole group
        )
        try:
            cpu_s = _cpu_seconds_at_end(process)
        finally:
            _end(process)
    records = folder / "artifacts" / "profile_export.jsonl"
    if not records.is_file() or (process.returncode and not records.stat().st_size):
        raise Gemma4Error(
            f"aiperf ended with exit code {process.returncode}: {_last_words(log.read_text('utf-8', errors='replace'))}"
        )
    return read_records(records.read_text("utf-8").splitlines(), cpu_s=cpu_s)


def configuration(load: Load, folder: Path, *, with_token: bool) -> dict[str, Any]:
    """Return aiperf's configuration file: YAML, of which JSON is a part. It names the token's variable, not the token."""
    phase = {"type": "constant", "rate": _LOOKS_PER_SECOND, "concurrency": load.concurrency}
    warmup = {"name": "warmup", **phase, "requests": load.warmup, "exclude_from_results": True}
    workers = -(-load.concurrency // _STREAMS_PER_WORKER)
    endpoint = {
        "urls": [load.url],
        "type": "chat",
        "path": "/v1/chat/completions",
        "streaming": True,
        "use_server_token_count": True,
        "timeout": _REQUEST_LIMIT_S,
    }
    return {
        "benchmark": {
            "models": load.model,
            "endpoint": endpoint | ({"api_key": f"${{{_TOKEN_VARIABLE}}}"} if with_token else {}),
            "dataset": {
                "type": "file",
                "path": str(folder / "bodies.jsonl"),
                "format": "raw_payload",
                "sampling": "sequential",
            },
            "phases": [*([warmup] if load.warmup else []), {"name": "profiling", **phase, "requests": load.counted}],
            "tokenizer": {"name": str(folder)},
            "gpu_telemetry": {"enabled": False},
            "server_metrics": {"enabled": False},
            "runtime": {"ui": "none", "workers": workers, "record_processors": 1},
            "artifacts": {"dir": str(folder / "artifacts")},
            "logging": {"level": "warning"},
        }
    }


def read_records(lines: Sequence[str], *, cpu_s: float) -> Recorded:
    """Return what the lines of aiperf's profile_export.jsonl say. Raises Gemma4Error where they are not such lines."""
    answered: list[Answered] = []
    errors: Counter[str] = Counter()
    warmup_tokens = warmup_failed = 0
    try:
        for row in _rows(lines):
            warming, failed = row["metadata"]["benchmark_phase"] == "warmup", bool(row.get("error"))
            if warming:
                warmup_tokens += 0 if failed else int(_value(row, "usage_completion_tokens") or 0)
                warmup_failed += failed
            elif failed:
                errors[_reason(row["error"])] += 1
            else:
                answered.append(_answered(row))
    except (KeyError, TypeError, ValueError) as error:
        raise Gemma4Error(
            f"aiperf wrote records that cannot be read ({type(error).__name__}: {error}); version {VERSION} is expected. Type: "
            f"{INSTALL}"
        ) from None
    answered.sort(key=lambda one: one.sent_s)
    return Recorded(tuple(answered), dict(errors), warmup_tokens, warmup_failed, cpu_s)


def _rows(lines: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        if line.strip():
            yield json.loads(line)


def _answered(row: Mapping[str, Any]) -> Answered:
    itl_ms = _value(row, "inter_token_latency")
    return Answered(
        sent_s=row["metadata"]["request_start_ns"] / 1e9,
        ttft_s=_needed(row, "time_to_first_token") / 1e3,
        itl_s=None if itl_ms is None else itl_ms / 1e3,
        e2e_s=_needed(row, "request_latency") / 1e3,
        input_tokens=int(_needed(row, "usage_prompt_tokens")),
        output_tokens=int(_needed(row, "usage_completion_tokens")),
    )


def _value(row: Mapping[str, Any], name: str) -> float | None:
    found = row["metrics"].get(name)
    return None if found is None else float(found["value"])


def _needed(row: Mapping[str, Any], name: str) -> float:
    value = _value(row, name)
    if value is None:
        raise ValueError(f"an answered request has no {name}")
    return value


def _reason(error: Mapping[str, Any]) -> str:
    """Return a failure in words: the server's own, where it gave some, else the client's."""
    message = str(error.get("message") or "")
    try:
        message = str(json.loads(message)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = str(error.get("cause") or message)
    code = error.get("code")
    return cleaned(" ".join(f"{code or error.get('type') or 'failed'}: {message}".split()))


def _environment(token: str | None, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    return kept | {"TMPDIR": str(folder)} | ({_TOKEN_VARIABLE: token} if token is not None else {})


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Take a request to end, or a closed terminal, for Ctrl-C: else aiperf, which has a group of its own, would go on to load
    the server with nobody left to read it. What nohup lets a command ignore stays ignored. Only the main thread can; elsewhere
    nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _cpu_seconds_at_end(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process, and return the seconds of a core that it used with all children that it waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a process's group: first by asking, then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        if process.returncode is None:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                continue


def _last_words(text: str) -> str:
    """Return the end of a log as one line: what stands in aiperf's box of errors, where there is one."""
    lines = [line.strip(" │╭╮╰╯─•") for line in text.splitlines()]
    said = [line for line in lines if line]
    return " ".join(said[-8:])[-600:] or "it said nothing"
