"""What all dynamic resources and their providers share: a type name, one-line errors, progress on the resource's own row.

Pulumi runs a provider in a process of its own, from a reference to its class that the stack's state holds: the module and
class names in this package are frozen (tests/providers/test_frozen_names.py). A provider holds no state; it reads secrets
from the stack's configuration and never captures them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import pulumi
from pulumi.dynamic import ConfigureRequest, DiffResult, ReadResult, Resource, ResourceProvider

from infra.google.gcp_settings import GcpSettings
from infra.google.session import GoogleSession
from infra.suggestions import printable

Progress = Callable[[str], None]


class _Failure(Exception):
    """Printed by Pulumi as `error: gemma4: message`: name and module below are all that remains of a traceback."""


_Failure.__module__ = "builtins"
_Failure.__qualname__ = "gemma4"


class DynamicResource(Resource):
    """Base of the dynamic resources. The class name is the resource's type: `pulumi-python:dynamic/gemma4:NAME`.

    The properties are the fields of the arguments, `urn`, and the outputs: whatever the class itself annotates.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__(module="gemma4", name=cls.__name__)

    def __init__(self, provider: Provider, name: str, args: object, opts: pulumi.ResourceOptions) -> None:
        urn = None if opts.parent is None else urn_under(opts.parent, type(self).__name__, name)
        outputs = dict.fromkeys(inspect.get_annotations(type(self)))
        super().__init__(provider, name, {**vars(args), "urn": urn, **outputs}, opts)


class Provider(ResourceProvider):
    """Base of the providers: one-line errors, and a `read` that asks nothing of Google or of the server."""

    serialize_as_secret_always = False  # nothing secret is captured, and a secret provider makes every diff slow

    def configure(self, req: ConfigureRequest) -> None:
        """Read the stack's settings of the gcp provider, decrypted; they stay in this process."""
        sys.tracebacklimit = 0  # for the provider's process: Pulumi would print the traceback
        self.gcp = GcpSettings.read(lambda key: req.config.get(f"gcp:{key}"))

    def session(self) -> GoogleSession:
        """Return a session for one operation: a session serves one thread, and the provider runs four."""
        return GoogleSession(self.gcp)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the state as it is: a refresh must not wake a server that has scaled to zero."""
        return ReadResult(id_, props)


def fail(message: str) -> NoReturn:
    """End the operation with one line of error."""
    raise _Failure(message) from None


def changed(olds: Mapping[str, Any], news: Mapping[str, Any], keys: tuple[str, ...]) -> list[str]:
    """Return those of `keys` that differ between old state and new inputs; an unknown new value counts as a change."""
    return [key for key in keys if olds.get(key) != news.get(key)]


def all_places(olds: Mapping[str, Any], news: Mapping[str, Any], keys: tuple[str, ...]) -> list[dict[str, str]]:
    """Return all places where a resource has been, the current one last. A place is the values of `keys`.

    A cleanup resource is never replaced when its place changes: Pulumi would keep the old half as a pending deletion and
    carry it out at the end of the next successful `up`, when the old place may be in use again.
    """
    own = {key: news[key] for key in keys}
    return [*(place for place in olds.get("places") or () if place != own), own]


def in_place(keys: list[str]) -> DiffResult:
    """Return a diff that updates in place if `keys` is not empty."""
    return DiffResult(changes=bool(keys))


def progress_on(urn: str | None) -> Progress:
    """Return a function that shows a line on the resource's own row, live, and not in the final diagnostics."""
    return _logger(urn, "INFO", ephemeral=True)


def warning_on(urn: str | None) -> Progress:
    """Return a function that adds a warning to the final diagnostics."""
    return _logger(urn, "WARNING", ephemeral=False)


def _logger(urn: str | None, severity: str, *, ephemeral: bool) -> Progress:
    if not urn or len(sys.argv) < 2:
        return lambda message: print(printable(message), flush=True)
    import grpc
    from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

    engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(sys.argv[1]))
    level = engine_pb2.LogSeverity.Value(severity)

    def show(message: str) -> None:
        engine.Log(engine_pb2.LogRequest(severity=level, message=printable(message), urn=urn, ephemeral=ephemeral))

    return show


def urn_under(parent: pulumi.Resource, kind: str, name: str) -> str:
    """Return the URN that the engine will give a dynamic resource under a component: the row for its progress.

    It is composed here, because an input taken from `parent.urn` would make the resource wait for its own parent.
    """
    own = f"{parent.pulumi_resource_type}$pulumi-python:dynamic/gemma4:{kind}"
    return f"urn:pulumi:{pulumi.get_stack()}::{pulumi.get_project()}::{own}::{name}"
