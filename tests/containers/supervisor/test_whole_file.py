"""Files that are written whole or not at all, whoever writes them."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from containers.supervisor.gemma4_supervisor.whole_file import write_whole


class TestAFileThatTwoThreadsWrite:
    def test_is_written_by_one_after_the_other(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        in_the_middle, second_is_there, opened, real = threading.Event(), threading.Event(), [], os.fdopen

        def open_slowly(descriptor: int, mode: str) -> Any:
            opened.append(descriptor)
            if len(opened) == 1:
                in_the_middle.set()
                second_is_there.wait(0.3)  # it must not come, which takes that long to see
            else:
                second_is_there.set()
            return real(descriptor, mode)

        monkeypatch.setattr(os, "fdopen", open_slowly)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(write_whole, tmp_path / "token", "first")
            assert in_the_middle.wait(10)
            second = pool.submit(write_whole, tmp_path / "token", "second")
            first.result()
            second.result()
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"token": "second"}
