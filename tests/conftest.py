"""What holds for all tests: no test is judged by its speed, and in CI the generated examples are the same each time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fakes.tpu_machine import TpuMachine

settings.register_profile("gemma4", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("gemma4")


@pytest.fixture
def tpu(tmp_path: Path) -> Iterator[TpuMachine]:
    """A TPU machine whose bucket is filled and whose metadata want nothing yet."""
    machine = TpuMachine(tmp_path)
    machine.stage()
    yield machine
    machine.close()


@pytest.fixture
def serving(tpu: TpuMachine) -> TpuMachine:
    """The same with spec-a serving."""
    tpu.want("spec-a")
    tpu.start()
    tpu.until_serving("spec-a")
    tpu.machine.actions.clear()
    return tpu
