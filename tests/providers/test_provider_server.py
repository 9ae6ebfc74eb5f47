"""The providers in the server that Pulumi starts for them: numbers as they arrive there, and what the state keeps of them."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import dill  # type: ignore[import-untyped]
import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from infra.providers.tpu_node import TpuNodeProvider
from infra.providers.tpu_queued_resource import TpuQueuedResourceProvider
from tests.fakes.google import FakeGoogle
from tests.fakes.slice_stack import NAME, SLICE, Clock, SliceStack
from tests.projects import ROOT
from tests.providers.test_frozen_names import FROZEN, loaded

PROVIDERS = [loaded(f"{name}Provider") for name in FROZEN]
LIMIT_S = 60
HOST = find_spec("pulumi.dynamic")


def serialised(provider: type) -> str:
    """As the SDK keeps a provider in the state of a stack."""
    return base64.b64encode(dill.dumps(provider())).decode()


@pytest.mark.parametrize("provider", PROVIDERS, ids=[cls.__name__ for cls in PROVIDERS])
class TestNamesInUsersState:
    def test_they_are_the_ones_that_deployed_stacks_hold(self, provider: type) -> None:
        kept = base64.b64decode(serialised(provider))
        assert provider.__module__.encode() in kept
        assert provider.__name__.encode() in kept

    def test_nothing_else_is_kept(self, provider: type) -> None:
        assert len(serialised(provider)) < 200
        assert vars(provider()) == {}


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    with FakeGoogle() as fake:
        yield fake


class Host:
    """The server, spoken to as the engine does."""

    def __init__(self, port: str, fake: FakeGoogle) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        settings = {f"gcp:{key}": value for key, value in fake.settings().items()}
        self._stub.Configure(provider_pb2.ConfigureRequest(args=_struct(settings)), timeout=LIMIT_S)

    def close(self) -> None:
        self._channel.close()

    def create(self, props: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        answer = self._stub.Create(provider_pb2.CreateRequest(properties=_struct(props)), timeout=LIMIT_S)
        return answer.id, _plain(answer.properties)

    def read(self, id_: str, props: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        answer = self._stub.Read(provider_pb2.ReadRequest(id=id_, properties=_struct(props)), timeout=LIMIT_S)
        return answer.id, _plain(answer.properties)

    def diff(self, id_: str, olds: dict[str, Any], news: dict[str, Any]) -> Any:
        request = provider_pb2.DiffRequest(id=id_, olds=_struct(olds), news=_struct(news))
        return self._stub.Diff(request, timeout=LIMIT_S)

    def delete(self, id_: str, props: dict[str, Any]) -> None:
        self._stub.Delete(provider_pb2.DeleteRequest(id=id_, properties=_struct(props)), timeout=LIMIT_S)


@contextmanager
def host(fake: FakeGoogle) -> Iterator[Host]:
    assert HOST is not None
    assert HOST.origin is not None
    command = [sys.executable, HOST.origin.replace("__init__", "__main__")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    try:
        assert process.stdout is not None
        served = Host(process.stdout.readline().strip(), fake)
        yield served
        served.close()
    finally:
        process.kill()
        process.communicate()


def test_a_slice_lives_through_the_server(google: FakeGoogle) -> None:
    stack = SliceStack(google, Clock())
    queue = {**_given(stack, "queue"), "__provider": serialised(TpuQueuedResourceProvider)}
    with host(google) as server:
        google.fault("POST", "/queuedResources", drop="after")
        queued_id, queued = server.create(queue)
        assert (queued_id.partition("/")[0], google.tpu.created) == (SLICE, 0)

        node = {**_given(stack, "node", ticket=queued["ticket"]), "__provider": serialised(TpuNodeProvider)}
        _, granted = server.create(node)
        assert (granted["node_id"], google.tpu.created) == (NAME, 1)
        (kept,) = google.tpu.resources.values()
        assert kept["runDuration"] == {"maxRunDuration": "86400s"}, "numbers arrive as floats"
        assert server.diff(SLICE, granted, node).changes == provider_pb2.DiffResponse.DIFF_NONE

        google.tpu.advance(NAME, to="SUSPENDED")
        _, ended = server.read(SLICE, granted)
        answer = server.diff(SLICE, ended, node)
        assert (answer.changes, list(answer.replaces)) == (provider_pb2.DiffResponse.DIFF_SOME, [])
        other = server.diff(queued_id, queued, {**queue, "zone": "us-east5-b"})
        assert (list(other.replaces), other.deleteBeforeReplace) == (["zone"], True)
        server.delete(queued_id, queued)
        assert google.leftovers() == []


def test_an_error_is_one_line_without_a_traceback(google: FakeGoogle) -> None:
    google.fault("POST", "/queuedResources", status=403, message="Permission 'tpu.queuedResources.create' denied")
    node = _given(SliceStack(google, Clock()), "node", ticket="t")
    with host(google) as server, pytest.raises(grpc.RpcError) as caught:
        server.create({**node, "__provider": serialised(TpuNodeProvider)})
    message = caught.value.details().strip()
    assert message.startswith("gemma4: tpu.googleapis.com refused")
    assert "\n" not in message


def _given(stack: SliceStack, name: str, **outputs: str) -> dict[str, Any]:
    """The inputs of a resource as the engine passes them on: without those that have no value."""
    (declared,) = [one for one in stack.program() if one.name == name]
    inputs = declared.inputs(lambda _resource, key: outputs[key])
    return {key: value for key, value in inputs.items() if value is not None}


def _struct(values: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(values, struct_pb2.Struct())


def _plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    found: dict[str, Any] = json_format.MessageToDict(struct)
    return found
