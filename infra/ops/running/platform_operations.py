"""What each platform answers about a stack's servers: one class a platform, in the platform's own folder."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Set

from infra.errors import Gemma4Error
from infra.google.session import GoogleSession
from infra.google.times import timestamp_s
from infra.ops.running.machine_term import MachineTerm
from infra.ops.running.running_now import RunningNow
from infra.ops.running.service_now import read_service
from infra.ops.running.usage import Usage
from infra.planning.plan import Plan


class PlatformOperations(ABC):
    """Questions to Google about a stack that is deployed. None of them starts a server."""

    @abstractmethod
    def look(self, session: GoogleSession, plan: Plan, tickets: Set[str] | None = None) -> RunningNow:
        """Return what runs now. What cannot be asked is a gap, never an error. `tickets`: by which the stack's state knows its
        requests; None where it was not read."""

    @abstractmethod
    def usage(self, session: GoogleSession, plan: Plan, *, since: float, until: float) -> Iterator[Usage]:
        """Yield for how long each part that is paid by its running time ran between two moments, in seconds since 1970."""

    def terms(self, session: GoogleSession, plan: Plan, tickets: Set[str] | None = None) -> Iterable[MachineTerm]:
        """Return every machine that Google ends or may end, those that were not asked for included. Raises Gemma4Error."""
        raise Gemma4Error(
            f"nothing here renews machines {plan.platform.where} yet; `gemma4 status {plan.stack}` looks at them."
        )

    def deployed_since(self, session: GoogleSession, plan: Plan) -> float | None:
        """Return when the stack was deployed first, in seconds since 1970; None where it is not. Raises GoogleError.

        Each platform answers callers by a Cloud Run service: the server itself, or the gateway.
        """
        service = read_service(session, plan.names.prefix, plan.region, [])
        return None if service is None else timestamp_s(service.created)


def operations_of(plan: Plan) -> PlatformOperations:
    """Return what asks about the plan's servers. Raises Gemma4Error for a platform that nothing asks about yet."""
    if not plan.platform.operations:
        raise Gemma4Error(f"nothing here asks what runs {plan.platform.where} yet, so there is nothing to show.")
    operations: PlatformOperations = importlib.import_module(plan.platform.operations).OPERATIONS
    return operations
