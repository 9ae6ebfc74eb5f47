"""What the preflight checks look at: a plan, the resources that it leads to, and ways to ask about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.google.session import GoogleSession
from infra.google.upstream_versions import HUGGING_FACE
from infra.planning.plan import Plan
from infra.planning.report.resources import ResourceRow


@dataclass(frozen=True)
class PulumiState:
    """What the Pulumi CLI says of the stack. `resources` are those of its state, by type and name; None where it could not be
    read, and `problem` says why."""

    version: str = ""
    resources: frozenset[tuple[str, str]] | None = frozenset()
    problem: str = ""
    fix: str = ""
    plugins: Sequence[Mapping[str, Any]] | None = None
    """As `pulumi plugin ls --json` lists them; None where it was not asked."""


@dataclass(frozen=True)
class Subject:
    """`connect` makes a session; each thread keeps its own."""

    plan: Plan
    connect: Callable[[], GoogleSession]
    resources: Sequence[ResourceRow] = ()
    pulumi: PulumiState = PulumiState()
    caller: str = ""
    """Who asks, as a member of grants: user:me@example.com; empty where the credentials do not tell."""
    hub_token: str = field(default="", repr=False)
    hub: str = HUGGING_FACE
    registry: str = ""
    """Another address than Docker Hub's and the registries' own; for tests."""
    _sessions: threading.local = field(default_factory=threading.local, repr=False)

    @property
    def session(self) -> GoogleSession:
        """This thread's session."""
        if not hasattr(self._sessions, "own"):
            self._sessions.own = self.connect()
        own: GoogleSession = self._sessions.own
        return own

    @property
    def project(self) -> str:
        """The project as the session has it; the plan's may be unset."""
        return self.session.project

    @property
    def member(self) -> str:
        """The caller as a command writes it: `user:YOU` where it is not known."""
        return self.caller or "user:YOU"

    def config(self, setting: str, value: object) -> str:
        """Return the command that writes a setting into the stack's file."""
        nested = "--path " if "." in setting else ""
        key = f"'gemma4:{setting}'" if nested else f"gemma4:{setting}"
        return f"pulumi config set {nested}{key} {value} -s {self.plan.stack}"
