"""Every planned command against the argument parsers of real vLLMs: one laboratory for each version.

Without a laboratory the committed flag tables are the check: tests/planning/server/test_command.py.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from containers.supervisor.gemma4_supervisor.desired_spec import ADDRESS, PORT
from infra.catalog.flags import TABLES
from tests.commands import planned_commands
from tests.lab.servers import LABS, NO_LAB, version_of

pytestmark = pytest.mark.lab
PARSE = Path(__file__).parent / "parse_commands.py"


def answers(lab: Path, commands: list[tuple[str, ...]]) -> tuple[str, list[str]]:
    """The version of a laboratory's vLLM, and what it says against each command."""
    asked = subprocess.run(
        [str(lab / "venv/bin/python"), str(PARSE)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    answer = json.loads(asked.stdout)
    return answer["version"], answer["said"]


def as_started(command: Sequence[str]) -> tuple[str, ...]:
    """The command as a machine's supervisor starts it, with an address and a port in it."""
    return tuple(part.replace(ADDRESS, "10.0.0.2").replace(PORT, "8000") for part in command)


@pytest.mark.parametrize("lab", LABS or [None], ids=str)
def test_vllms_own_parser_takes_every_stack_with_every_profile(lab: Path | None) -> None:
    if lab is None:
        pytest.skip(f"{NO_LAB}; the flag tables of {' and '.join(TABLES)} are checked elsewhere")
    planned = {name: as_started(command) for name, command in planned_commands()}
    wrong = [
        ("vllm", "serve", "/model", "--max-modle-len", "10"),
        ("vllm", "serve", "/model", "--enable-auto-tool-choice"),
        ("vllm", "serve", "/model", "--enable-auto-tool-choice", "--tool-call-parser", "gemma9"),
    ]
    version, said = answers(lab, [*planned.values(), *wrong])
    assert version == version_of(lab)
    assert version in TABLES
    assert {name: words for name, words in zip(planned, said, strict=False) if words} == {}
    assert all(said[len(planned) :]), "a wrong command passed: nothing was checked"
