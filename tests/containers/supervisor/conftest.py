"""The machine with GPUs, as `tests/conftest.py` has the one with chips."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.gpu_machine import GpuMachine


@pytest.fixture
def gpu(tmp_path: Path) -> Iterator[GpuMachine]:
    """A machine with GPUs whose bucket is filled and whose metadata want nothing yet."""
    machine = GpuMachine(tmp_path)
    machine.stage()
    yield machine
    machine.close()
