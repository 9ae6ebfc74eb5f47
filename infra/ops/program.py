"""Runs the real Pulumi program under a recording monitor: what it registers is what `pulumi preview` would create.

There is no second description of the resources. Nothing leaves the process: the monitor answers in memory, and secret
values are replaced by a mark before anything is kept. Imported only where the list is asked for: it imports pulumi.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import logging
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc
from pulumi.runtime.stack import run_pulumi_func

from infra.config import IN_MEMORY, STACK_FOLDER
from infra.errors import Gemma4Error
from infra.ops.plan_inputs import Planned
from infra.planning.names import UNKNOWN_PROJECT
from infra.planning.report.resources import ResourceList, ResourceRow
from infra.planning.settings.resolve import laid_over
from infra.planning.settings.stackfile import NAMESPACE

REDACTED = "[secret]"
_STACK_TYPE = "pulumi:pulumi:Stack"
Outputs = Callable[[mocks.MockResourceArgs], Mapping[str, Any]]


@dataclass(frozen=True)
class Registration:
    """One resource as the program registered it; `inputs` hold no secret value."""

    type: str
    name: str
    urn: str
    parent: str
    custom: bool
    inputs: Mapping[str, Any]
    depends_on: tuple[str, ...] = ()
    protect: bool = False
    ignore_changes: tuple[str, ...] = ()
    timeouts: Mapping[str, str] = field(default_factory=dict)
    secret_outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """One run of the program: the resources in the order of registration (the stack first), its messages, its exit code."""

    resources: tuple[Registration, ...]
    messages: tuple[str, ...]
    """Those of level info and above, each with its level before it: `error: …`."""
    exit_code: int = 0
    """0 unless the program refused."""


def run_program(
    root: Path, stack: str, config: Mapping[str, Any], *, preview: bool = True, outputs: Outputs | None = None
) -> Run:
    """Run `__main__.py` in `root` with `config` (as a stack file's `config:` holds it: objects or text).

    A resource's outputs are its inputs and what `outputs` adds; with `preview` all other outputs stay unknown.
    A secret is `{"secure": value}`; the program gets the value, marked as a secret. Raises what the program raises.
    """
    context = contextvars.copy_context()
    context.run(IN_MEMORY.set, True)
    return context.run(_run, root, stack, config, preview, outputs)


def resource_list(root: Path, planned: Planned) -> ResourceList:
    """Return the resources that the program registers for a plan: the stack, its components, and everything in them.

    Raises Gemma4Error where the program stops.
    """
    file = planned.file
    config = {f"gcp:{key}": value for key, value in file.gcp.items()}
    config |= {f"{NAMESPACE}:{key}": value for key, value in laid_over(file.settings, planned.overrides).items()}
    context = contextvars.copy_context()
    context.run(STACK_FOLDER.set, file.path.resolve().parent)
    run = context.run(run_program, root, planned.plan.stack, config)
    if run.exit_code:
        raise Gemma4Error("the program stopped, so its resources are not known: " + "; ".join(run.messages))
    components = {item.urn: item.name for item in run.resources if item.type != _STACK_TYPE}
    rows = []
    for item in run.resources:
        inputs = {key: _as_data(item.inputs[key], root) for key in sorted(item.inputs) if key not in _OWN_WORDS}
        options = {
            "protect": item.protect,
            "timeouts": dict(item.timeouts),
            "ignoreChanges": sorted(item.ignore_changes),
        }
        given = {name: value for name, value in options.items() if value}
        rows.append(ResourceRow(item.type, item.name, components.get(item.parent, ""), inputs, given))
    # Registrations race each other; the list must not.
    return ResourceList(tuple(sorted(rows, key=lambda row: (row.component, row.type, row.name))))


_OWN_WORDS = ("__provider", "urn")
"""Inputs of dynamic resources that say nothing of the cloud: the provider's code, and the resource's own address."""
LONGEST_INPUT = 2000
"""Characters of a text that a plan holds whole, unless it is a JSON object; of a longer one it holds length and SHA-256."""


def _as_data(value: Any, root: Path) -> Any:
    """Return an input as JSON data: the same from run to run and from machine to machine, and never a whole archive."""
    if isinstance(value, Mapping):
        return {key: _as_data(inner, root) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return [_as_data(inner, root) for inner in value]
    if isinstance(value, pulumi.FileAsset | pulumi.FileArchive) and (root / value.path).is_file():
        return f"[file {Path(value.path).name}, {_digest((root / value.path).read_bytes())}]"
    if isinstance(value, pulumi.AssetArchive):
        return {name: _as_data(inner, root) for name, inner in sorted(value.assets.items())}
    if isinstance(value, pulumi.Asset | pulumi.Archive):
        return f"[{type(value).__name__}, {_digest(json.dumps(vars(value), sort_keys=True, default=str).encode())}]"
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and len(value) > LONGEST_INPUT and not value.startswith("{"):
        return f"[text of {len(value):,} characters, {_digest(value.encode())}]"
    return value


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _run(root: Path, stack: str, config: Mapping[str, Any], preview: bool, outputs: Outputs | None) -> Run:
    log = _MessageLog()
    logger = logging.Logger("program", level=logging.INFO)
    logger.addHandler(log)
    recorder = _Recorder(_Echo(outputs))
    exit_code = 0

    def main() -> None:
        runpy.run_path(str(root / "__main__.py"), run_name="__main__")

    with _own_loop() as loop:  # before set_mocks, which otherwise waits on another loop for ever
        mocks.set_mocks(recorder.mocks, project="gemma4", stack=stack, preview=preview, logger=logger, monitor=recorder)
        pulumi.runtime.set_all_config(*_as_pulumi_holds_it(config))
        try:
            with _inside(root):
                loop.run_until_complete(run_pulumi_func(main))
        except SystemExit as end:
            exit_code = end.code if isinstance(end.code, int) else 1
    return Run(tuple(recorder.registrations), tuple(log.messages), exit_code)


def _as_pulumi_holds_it(config: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    values = {"gcp:project": UNKNOWN_PROJECT}
    secrets = []
    for key, value in config.items():
        if isinstance(value, Mapping) and set(value) == {"secure"}:
            values[key] = value["secure"] or REDACTED
            secrets.append(key)
        else:
            values[key] = value if isinstance(value, str) else json.dumps(value)
    return values, secrets


@contextmanager
def _own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Give the current thread an event loop of its own."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@contextmanager
def _inside(root: Path) -> Iterator[None]:
    """Run in the project's folder, as Pulumi does, and undo afterwards what the program did to the process."""
    before, path = Path.cwd(), list(sys.path)
    main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if main_thread else None
    os.chdir(root)
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        if main_thread:
            signal.signal(signal.SIGINT, handler)


class _MessageLog(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.levelname.lower()}: {record.getMessage()}")


class _Echo(mocks.Mocks):
    """Answers a registration with its inputs, plus the outputs that a test wants to be known."""

    def __init__(self, outputs: Outputs | None) -> None:
        self._outputs = outputs

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise NotImplementedError(f"the program looked up {args.token}: a plan must not depend on the cloud")

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if self._outputs is None:
            return None, dict(args.inputs)
        return f"{args.name}-id", {**args.inputs, **self._outputs(args)}


class _Recorder(mocks.MockMonitor):
    """A monitor that keeps every registration with its options."""

    def __init__(self, answers: mocks.Mocks) -> None:
        super().__init__(answers)
        self.registrations: list[Registration] = []
        self._lock = threading.Lock()

    def RegisterResource(self, request: Any) -> Any:
        with _own_loop():  # this runs on a worker thread, where the SDK would open a loop and leave it open
            response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        timeouts = request.customTimeouts
        registration = Registration(
            type=request.type,
            name=request.name,
            urn=response.urn,
            parent=request.parent,
            custom=bool(request.custom) and request.type != _STACK_TYPE,
            inputs=_redacted(rpc.deserialize_properties(request.object, keep_unknowns=True)),
            depends_on=tuple(request.dependencies),
            protect=bool(request.protect),
            ignore_changes=tuple(request.ignoreChanges),
            timeouts={key: value for key in ("create", "update", "delete") if (value := getattr(timeouts, key))},
            secret_outputs=tuple(request.additionalSecretOutputs),
        )
        with self._lock:
            self.registrations.append(registration)
        return response


def _redacted(value: Any) -> Any:
    if rpc.is_rpc_secret(value):
        return REDACTED
    if isinstance(value, Mapping):
        return {key: _redacted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item) for item in value]
    if value is rpc.UNKNOWN or type(value).__name__ == "Unknown":
        return "[unknown]"
    return value
