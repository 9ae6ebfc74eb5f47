"""containers/supervisor/README.md names every field, place of trouble, stage and event that the code has, and no other."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

from containers import archive
from containers.supervisor.gemma4_supervisor import desired_spec as specification
from containers.supervisor.gemma4_supervisor.log import Log
from containers.supervisor.gemma4_supervisor.machine_status import MachineStatus
from containers.supervisor.gemma4_supervisor.membership import DRAINED, DRAINING
from containers.supervisor.gemma4_supervisor.server_lifecycle import Phase

FOLDER = archive.HERE / "supervisor"
README = (FOLDER / "README.md").read_text()


class TestTheReadme:
    """It is the contract: what it leaves out cannot be relied upon, and what it names must exist."""

    def test_the_readme_names_every_field_of_a_specification(self) -> None:
        known = {*specification._FIELDS}
        assert first_column("A specification") == known

    def test_the_readme_names_every_place_of_trouble(self) -> None:
        assert first_column("Places of trouble") == _words_in_code(r"(?:\.trouble\(|_try, )\s*\"([a-z]+)\"") | {
            "bootstrap"
        }

    def test_the_readme_names_every_stage_from_the_first_on(self, tmp_path: Path) -> None:
        (row,) = [line for line in README.splitlines() if line.startswith("| `stage` |")]
        MachineStatus(Log(io.StringIO()), tmp_path / "status.json", lambda text: None, 10, 60).set(any=1)
        first = json.loads((tmp_path / "status.json").read_text())["stage"]
        assert {first, *(phase.value for phase in Phase), DRAINING, DRAINED, "bootstrap"} == set(
            re.findall(r"`([a-z]+)`", row)
        ) - {"stage"}

    def test_the_readme_names_every_event_of_the_log(self) -> None:
        found = _words_in_code(r"log\.(?:info|warning|error)\(\s*\"([a-z-]+)\"")
        found |= _words_in_code(r"self\.(?:info|warning|error)\(\s*\"([a-z-]+)\"") | {
            "trouble",
            "recovered",
            "stage",
            "report",
        }
        assert first_column("Events") == found | {"bootstrap"}


def first_column(heading: str) -> set[str]:
    """Words in code marks in the first cells of the table below a heading of the README."""
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`([\w-]+)`", row)}


def _words_in_code(pattern: str) -> set[str]:
    text = "\n".join(path.read_text() for path in (archive.HERE / archive.SUPERVISOR).glob("*.py"))
    return set(re.findall(pattern, text))
