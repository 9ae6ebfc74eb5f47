"""How commands reach Google: with the `gcp:` settings of a stack's file, else with the environment's."""

from __future__ import annotations

import sys

from infra.errors import GoogleError
from infra.google.gcp_settings import GcpSettings
from infra.google.session import ONCE_MORE, QUICK, GoogleSession
from infra.planning.settings.stackfile import StackFile


def google_session(file: StackFile | None, *, patient: bool = False) -> GoogleSession:
    """Return a session with the `gcp:` settings of a stack's file, and with the environment's where the file has none or
    an encrypted one. Raises GoogleError where no project is set.

    `patient` repeats requests for minutes, as the providers do: for commands that change something. Others answer soon,
    because somebody waits for them.
    """
    session = stack_session(file, patient=patient)
    gcp = session.gcp
    if file is None and not gcp.project:
        raise GoogleError(
            "No Google Cloud project is set, so nothing can be asked of Google. Set GOOGLE_CLOUD_PROJECT; a command "
            "that takes a stack also finds it in a stack file that has gcp:project, for example gemma4 zones v6e4.",
            reason="NO_PROJECT",
        )
    gcp.required_project()
    print(f"asking Google about project {gcp.project} …", file=sys.stderr, flush=True)
    return session


def stack_session(file: StackFile | None, *, patient: bool = False) -> GoogleSession:
    """Return the same session without a word and without looking for a project: for what may not ask Google after all."""
    settings = {} if file is None else {key: value for key, value in file.gcp.items() if isinstance(value, str)}
    gcp = GcpSettings.read(settings.get)
    return GoogleSession(gcp) if patient else GoogleSession(gcp, retry=ONCE_MORE, timeouts=QUICK)
