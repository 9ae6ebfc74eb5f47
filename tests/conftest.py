"""What holds for all tests: no test is judged by its speed, and in CI the generated examples are the same each time."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fakes.tpu_machine import TpuMachine

# A shell in the background, nohup or a CI runner may start the tests with these ignored, which every process that a test starts
# would inherit; tests of Ctrl-C would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Looking for garbage among hundreds of modules and thousands of tests took a tenth of the tests' time.
gc.set_threshold(50_000, 20, 50)

settings.register_profile("gemma4", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("gemma4")


def pytest_collection_finish() -> None:
    """Keep the tests themselves and all that they have imported out of every later search for garbage."""
    gc.freeze()


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
