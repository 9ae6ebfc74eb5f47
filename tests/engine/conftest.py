"""What the tests on the real engine share: a fake Google Cloud, and a fake server behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.harness import missing_tools
from tests.fakes.google import FakeGoogle
from tests.fakes.vllm import FakeVllm


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of them, and skip them with the reason where a tool is missing."""
    why = missing_tools()
    for item in items:
        if "tests/engine" in item.path.as_posix():
            item.add_marker(pytest.mark.engine)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    with FakeGoogle() as fake:
        yield fake


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    """Answers as a service and, behind the gateway, as any slice."""
    with FakeVllm() as fake:
        fake.prefixes = ("", *(f"/members/{name}{turn}" for name in ("blue", "green") for turn in ("", "-a", "-b")))
        yield fake
