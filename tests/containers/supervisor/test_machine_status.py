"""The status that the supervisor publishes: always the newest, also after a failure."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

from containers.supervisor.gemma4_supervisor.log import Log
from containers.supervisor.gemma4_supervisor.machine_status import MachineStatus
from tests.fakes.gateway import until


class TestTheStatus:
    def test_the_status_that_is_published_last_is_the_newest(self, tmp_path: Path) -> None:
        arrived: list[dict[str, Any]] = []
        on_its_way, may_arrive = threading.Event(), threading.Event()

        def publish(text: str) -> None:
            if not on_its_way.is_set():  # the first one dawdles
                on_its_way.set()
                may_arrive.wait(5)
            arrived.append(json.loads(text))

        status = MachineStatus(Log(io.StringIO()), tmp_path / "status.json", publish, 60, 60)
        status.set(stage="serving")
        assert on_its_way.wait(5)
        threading.Timer(0.1, may_arrive.set).start()
        status.end("supervisor", "It starts again.")
        assert [len(report["errors"]) for report in arrived] == [0, 1]

    def test_the_status_keeps_what_ends_the_supervisor_though_another_thread_goes_on(self, tmp_path: Path) -> None:
        arrived: list[str] = []
        status = MachineStatus(Log(io.StringIO()), tmp_path / "status.json", arrived.append, 60, 60)
        status.end("supervisor", "It starts again.")
        status.clear("supervisor")
        assert "It starts again." in (tmp_path / "status.json").read_text()


class TestTheStatusFile:
    def test_a_status_file_that_could_not_be_written_is_written_later_though_nothing_changes(
        self, tmp_path: Path
    ) -> None:
        file, reported = tmp_path / "status.json", threading.Event()
        blocked = file.with_name(f".{file.name}.new")
        blocked.mkdir()
        status = MachineStatus(Log(io.StringIO()), file, lambda text: reported.set(), 0.01, 60)
        status.set(stage="serving")
        assert reported.wait(30)  # the change has gone through: only the file is missing, and nothing else will happen
        blocked.rmdir()
        until(lambda: file.is_file() and json.loads(file.read_text())["stage"] == "serving")
