"""An address that serves a model, the servers behind it, and clients of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from infra.google.session import GoogleSession
from infra.ops.endpoint.stack_state import StackState
from infra.ops.plan_inputs import Planned
from infra.serving.client import ServingClient, ServingTimeouts


@dataclass(frozen=True)
class Member:
    """One server behind an address: a TPU slice by its name, or the only one, whose name and path are empty."""

    name: str
    prefix: str
    """Path that selects it behind the gateway, e.g. /members/blue."""


@dataclass(frozen=True)
class TokenSource:
    """What makes the bearer token of a request."""

    token: Callable[[], str]
    """Returns a token that is valid for some minutes. Raises GoogleError."""
    forget: Callable[[], None] = lambda: None
    """Drops what was made, after the server refused it."""
    is_identity: bool = True
    """Whether it is Google's identity token, which ends within the hour, and not a key that stays."""


@dataclass(frozen=True)
class Endpoint:
    """An address that serves a model. `planned`, `state` and `session` are None of a URL that was given."""

    url: str
    """Without a path, e.g. https://gemma4-l4-….run.app."""
    members: tuple[Member, ...]
    served_model: str = ""
    """Name to ask for, as the stack's outputs say; empty: whatever the server lists first."""
    planned: Planned | None = None
    state: StackState | None = None
    session: GoogleSession | None = None
    tokens: TokenSource | None = field(default=None, repr=False)
    """None where nothing is asked for."""

    @property
    def name(self) -> str:
        """The stack's name, else the URL."""
        return self.planned.file.stack if self.planned else self.url

    def log_place(self, member: Member) -> Mapping[str, str]:
        """Return where a member logs, as `Deployment.log_place` does: of its turns the one that the state has deployed. Empty
        of a URL."""
        if self.planned is None:
            return {}
        plan = self.planned.plan
        deployed = {one.node_id for one in (self.state.specs if self.state else ())}
        hosts = plan.deployment.hosts(member.name)
        host = next((one for one in hosts if plan.names.member(one) in deployed), hosts[0])
        return plan.deployment.log_place(plan.names, host)

    @property
    def words(self) -> str:
        """What follows a command to mean this endpoint: the stack's name, or --url and the URL."""
        return self.planned.file.stack if self.planned else f"--url {self.url}"

    @cached_property
    def model(self) -> str:
        """The name to ask for. Raises AnswerError where the server has to be asked and does not answer."""
        if self.served_model:
            return self.served_model
        listed = self.client().models()
        return listed[0].name if listed else ""

    def client(self, member: Member | None = None, *, timeouts: ServingTimeouts | None = None) -> ServingClient:
        """Return a client of one member, or of whichever the gateway chooses."""
        return ServingClient(
            self.url,
            token=self.tokens.token if self.tokens else None,
            on_token_refused=self.tokens.forget if self.tokens else lambda: None,
            prefix=member.prefix if member else "",
            timeouts=timeouts,
        )
