"""What the tests of Google's clients share: a fake Google Cloud, and a clock that moves only by sleeping."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    with FakeGoogle() as running:
        yield running


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()
