"""What people type and write wrongly, as cases; `make golden` writes the answers to tests/golden/messages.md.

Read `case.py` first, then the cases: `command_lines.py`, `broken_files.py` (stack files), `settings.py` (stack files with
wrong values), `machines.py` (machines of Compute Engine), `rows_files.py` (rows for the scorecard), `questions.py` (questions
to the model). A case holds what must be true of its answer: the exit code, the settings that are named, the word that is
offered instead. The words of the answers stand in the transcript alone, where their changes are reviewed like code.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.messages.broken_files import FILES
from tests.messages.case import Case
from tests.messages.command_lines import COMMAND_LINES
from tests.messages.machines import MACHINES
from tests.messages.questions import QUESTIONS
from tests.messages.rows_files import ROWS
from tests.messages.settings import SETTINGS

CASES: Mapping[str, tuple[Case, ...]] = {**SETTINGS, **MACHINES, **FILES, **COMMAND_LINES, **ROWS, **QUESTIONS}
"""All cases by the heading that they stand under in the transcript."""
EVERY = tuple(case for cases in CASES.values() for case in cases)
