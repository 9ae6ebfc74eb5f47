"""Runs the real Pulumi CLI with the real gcp provider on a copy of this project, against the fake Google Cloud.

Everything a run writes (state, plugins, stack files) stays in one temporary folder; no request leaves the machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.ops.plan_inputs import plan_stack
from infra.planning.plan import Plan
from tests.fakes.google import FakeGoogle
from tests.fakes.staging import stage_into
from tests.fakes.vllm import FakeVllm

TOKEN = "hf_engine_test_token_0123456789"
ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("pulumi", "pulumi-language-python", "pulumi-resource-gcp")
_COPIED = ("infra", "containers", "__main__.py", "Pulumi.yaml")


def missing_tools() -> str:
    """Why the engine height cannot run here; empty where it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"the engine height needs {', '.join(missing)} on the PATH" if missing else ""


@dataclass(frozen=True)
class Outcome:
    """What one Pulumi command did."""

    code: int
    output: str

    @property
    def errors(self) -> list[str]:
        """The messages of gemma4 among the diagnostics, one for each time that one is printed."""
        said = self.output.partition("Diagnostics:")[2]
        return [line.strip() for line in said.splitlines() if line.strip().startswith("error: gemma4:")]

    @property
    def summary(self) -> dict[str, int]:
        """Counts by operation of the closing `Resources:` block, e.g. {'to create': 27} or {'created': 27}."""
        counts = {}
        lines = self.output.splitlines()
        for line in lines[
            max((i for i, text in enumerate(lines) if text.strip() == "Resources:"), default=len(lines)) :
        ]:
            words = line.strip().lstrip("+~-± ").split(maxsplit=1)
            if len(words) == 2 and words[0].isdigit():
                counts[words[1].split(".")[0]] = int(words[0])
        return counts


class Engine:
    """One stack of the copied project. `config` values that are no text are written as objects."""

    def __init__(self, folder: Path, fake: FakeGoogle, stack: str, config: Mapping[str, Any]) -> None:
        self.fake, self.stack = fake, stack
        self.project = folder / "project"
        self.environment = self._prepare(folder)
        self._copy()
        self.run("stack", "init", stack)
        source = ROOT / f"Pulumi.{stack}.yaml"
        shipped = yaml.safe_load(source.read_text())["config"] if source.exists() else {}
        settings = {f"gcp:{key}": value for key, value in fake.settings().items()}
        self.configure({**shipped, **settings, **config})

    def configure(self, config: Mapping[str, Any]) -> None:
        """Lay values over the stack's file, keys with their namespace; a value of None takes a key out."""
        path = self.project / f"Pulumi.{self.stack}.yaml"
        document = yaml.safe_load(path.read_text()) if path.exists() else None
        document = document or {}
        merged = {**document.get("config", {}), **config}
        access = merged.get("gemma4:access") or {}
        merged["gemma4:access"] = {"settleTime": "0s", **access}  # the fake acts on grants at once
        document["config"] = {key: value for key, value in merged.items() if value is not None}
        path.write_text(yaml.safe_dump(document))

    def set_secret(self, key: str, value: str) -> None:
        """Write an encrypted configuration value."""
        self.run("config", "set", "--secret", key, value)

    def run(self, *arguments: str, timeout_s: float = 240, check: bool = True, **environment: str) -> Outcome:
        """Run `pulumi …` on the stack; with `check` a failure is an AssertionError with the whole output."""
        process = self.start(*arguments, **environment)
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise AssertionError(f"pulumi {' '.join(arguments)} took longer than {timeout_s} s:\n{output}") from None
        assert process.returncode == 0 or not check, f"pulumi {' '.join(arguments)} failed:\n{output}"
        return Outcome(process.returncode, output)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `pulumi …` in a process group of its own."""
        on_stack = [] if arguments[0] == "stack" else ["--stack", self.stack]
        return subprocess.Popen(
            ["pulumi", *arguments[:1], *on_stack, *arguments[1:], "--non-interactive", "--color", "never"],
            cwd=self.project,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def preview(self, **options: Any) -> Outcome:
        return self.run("preview", **options)

    def up(self, *, replace: Sequence[str] = (), **options: Any) -> Outcome:
        words = [word for urn in replace for word in ("--replace", urn)]
        return self.run("up", "--yes", "--skip-preview", *words, **options)

    def destroy(self, **options: Any) -> Outcome:
        return self.run("destroy", "--yes", "--skip-preview", **options)

    def state(self) -> dict[str, Any]:
        """The stack's state as exported: secrets stay encrypted."""
        exported: dict[str, Any] = json.loads(self.run("stack", "export", "--stack", self.stack).output)
        return exported

    def outputs(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("stack", "output", "--json", "--stack", self.stack).output)
        return found

    def plan(self) -> Plan:
        """What the stack as configured plans."""
        return plan_stack(self.stack, root=self.project).plan

    def _prepare(self, folder: Path) -> dict[str, str]:
        home, state = folder / "home", folder / "state"
        version = importlib.metadata.version("pulumi-gcp")
        plugin = home / "plugins" / f"resource-gcp-v{version}"
        for path in (plugin, state, self.project):
            path.mkdir(parents=True)
        (plugin / "pulumi-resource-gcp").symlink_to(shutil.which("pulumi-resource-gcp") or "")
        return {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("GOOGLE_", "CLOUDSDK_", "PULUMI_"))
            },
            "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": f"file://{state}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_GCP_SKIP_REGION_VALIDATION": "true",
        }

    def _copy(self) -> None:
        for name in _COPIED:
            source, target = ROOT / name, self.project / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        settings = self.project / "Pulumi.yaml"
        settings.write_text(settings.read_text().replace("virtualenv: .venv", f"virtualenv: {sys.prefix}"))


def serve(server: FakeVllm, google: FakeGoogle, stack: Engine) -> None:
    """Let the server be what the stack as configured plans, and the bucket have what it reads."""
    plan = stack.plan()
    server.model, server.spec_hash = plan.model.hub_id, plan.command.spec_hash
    server.max_model_len, server.metrics.kv_tokens = plan.server.max_model_len, plan.capacity.tokens
    google.run.serve_at(server.url)
    server.adapters = {one.name: f"I am {one.name}." for one in plan.adapters}
    google.run.executor = stage_into(google, plan.weights, plan.adapters)
