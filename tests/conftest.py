"""What holds for all tests: no test is judged by its speed, and in CI the generated examples are the same each time."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("gemma4", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("gemma4")
