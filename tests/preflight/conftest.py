"""Ready projects for the checks, and nothing of this machine's: neither its Pulumi nor anybody's token."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.google import FakeGoogle
from tests.fakes.hub_headers import HubOfHeaders
from tests.fakes.registry import FakeRegistry
from tests.preflight.ready_project import ReadyProject

Made = Callable[[str], ReadyProject]
TOOLS = {"pulumi", "pulumi-language-python", "docker"}


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The programs on the PATH; a test takes some away."""
    there = set(TOOLS)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in there else None)
    return there


@pytest.fixture
def made(tmp_path: Path, tools: set[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Makes the ready project of a stack."""
    monkeypatch.delenv("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", raising=False)
    hub, registry = HubOfHeaders(), FakeRegistry({})
    with FakeGoogle() as google:

        def make(stack: str) -> ReadyProject:
            project = ReadyProject(tmp_path, stack, google, hub, registry)
            project.prepare()
            return project

        yield make
    hub.close()
    registry.close()
