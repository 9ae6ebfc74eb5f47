"""All servers of the machine: which of them is started, changed or brought back next. One failing never touches the others.

* **A change rolls.** A server that does not serve is changed first, since nothing is lost by that; then one after the other,
  each only when all that were changed serve, and have for `roll_s`. So of four servers three serve at any moment.
* **Servers that start together share what the first one compiled and downloaded.** So the first one starts alone, and the
  others at once as soon as it serves, or has failed: then they must not wait for it.
* **A rejected specification rolls back** in the same way, from those servers that have it to the last good one.
* **No two containers ever have the same port or device.** Where places differ between two specifications, whoever is in the
  way is stopped first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .context import Context
from .desired_spec import ServerPlace, Spec
from .docker import NAME, DockerError
from .server_lifecycle import Phase, ServerLifecycle
from .state import ServingRun

T = TypeVar("T")
WORST_FIRST = (
    Phase.WAITING, Phase.BACKOFF, Phase.RESTORING, Phase.STARTING, Phase.UNHEALTHY, Phase.SERVING,
)  # fmt: skip


class ServerGroup:
    """All methods run on the main thread. Calls `served` and `rejected` as its lifecycles do."""

    def __init__(
        self, context: Context, served: Callable[[ServingRun], None], rejected: Callable[[ServingRun, str], None]
    ) -> None:
        self._context, self._state, self._served, self._rejected = context, context.state, served, rejected
        self._servers: dict[str, ServerLifecycle] = {}
        self._unknown: set[str] = set()
        """Suffixes of containers that a supervisor has started and this one knows nothing of."""
        self._target: ServingRun | None = None
        self._brings_back = False
        for suffix in self._state.servers:
            self._server(suffix)

    # What is there.

    @property
    def is_busy(self) -> bool:
        """True while containers are being stopped or started."""
        return any(one.is_busy for one in self._servers.values())

    def has(self, spec: Spec) -> bool:
        """Return True if exactly the servers of `spec` are there, each with a container as it needs."""
        return self._servers.keys() == {place.suffix for place in spec.servers} and all(
            _fits(self._servers[place.suffix], place) for place in spec.servers
        )

    def has_served_for(self, seconds: float) -> bool:
        """Return True if all servers serve, and have done so for so long without a break."""
        return bool(self._servers) and all(one.has_served_for(seconds) for one in self._servers.values())

    def requests(self) -> float | None:
        """Return how many requests the servers have, None where one does not say. Any thread may call this."""
        counts = [one.requests() for one in [*self._servers.values()]]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def fields(self, wanted: Spec | None, stage: str) -> Mapping[str, Any]:
        """Return the fields of the status. Of the machine as a whole the worst of its servers counts, or `stage` if any."""
        servers = list(self._servers.values())
        runs = [one.current for one in servers if one.current]
        hashes = [run.spec.hash for run in runs]
        since = [one.serving_since for one in servers if one.serving_since]
        return {
            "stage": stage or min((one.phase for one in servers), key=WORST_FIRST.index, default=Phase.WAITING).value,
            "running": next((one for one in hashes if not wanted or one != wanted.hash), hashes[0] if hashes else None),
            "failures": max((run.failures for run in runs), default=0),
            **({"servingSince": max(since)} if since else {}),
            "servers": [_row(one) for one in servers],
        }

    # What is asked of it.

    def adopt_or_restart(self) -> bool:
        """Go on with the containers that run, and restart the other servers: what the supervisor does first.

        Returns False where docker does not answer: then it is not known which containers run.
        """
        try:
            adopted = [one.adopt() for one in self._servers.values()]
            self._unknown = {*self._context.docker.servers()} - self._servers.keys()
        except DockerError as error:
            self._context.status.trouble("docker", f"{error} Nothing can be started.")
            return False
        self._context.status.clear("docker")
        self._brings_back = not all(adopted)
        return True

    def adopt_containers(self, spec: Spec) -> None:
        """Go on with containers of exactly this specification that the saved state does not know."""
        for place in spec.servers:
            server = self._server(place.suffix)
            if server.current is None:
                server.adopt_container(spec)
                self._unknown -= {place.suffix} if server.current else set()
            if server.current is None:
                self._forget(server)

    def keep(self, spec: Spec) -> None:
        """Stay with a specification that all servers have; what waits is started again."""
        self._target, self._brings_back = None, True
        self._renew(spec)

    def bring_back(self) -> None:
        """Start again what waits, with what is still on this machine."""
        self._brings_back = True

    def roll_out(self, run: ServingRun) -> None:
        """Bring all servers to a specification of which everything is here, whatever they were being brought to before."""
        self._target, self._brings_back = run, False
        self._renew(run.spec)

    def stay(self) -> None:
        """Change no further server, because another specification is desired now; fetch nothing that only a restart needs."""
        self._target, self._brings_back = None, False
        for one in self._servers.values():
            one.stop_downloads()

    def tick(self) -> None:
        """Do what is due. To be called about every second."""
        for one in [*self._servers.values()]:
            one.tick()
        if self._target:
            self._advance(self._target)
        elif self._brings_back:
            self._restart_next()

    def halt(self) -> None:
        """Stop fetching; the containers stay as they are."""
        for one in self._servers.values():
            one.halt()

    def collect_output(self) -> None:
        """Read what the servers have printed. Any thread may call this."""
        for one in [*self._servers.values()]:
            one.collect_output()

    # One step at a time.

    def _advance(self, target: ServingRun) -> None:
        servers = [(self._server(place.suffix), place) for place in target.spec.servers]
        to_do = [(one, place) for one, place in servers if not _fits(one, place) or one.phase is Phase.WAITING]
        if not to_do:
            self._end_others(target.spec)
            return
        changed = [one for one, place in servers if (one, place) not in to_do]
        idle = [(one, place) for one, place in to_do if one.phase is not Phase.SERVING]
        next_ones = to_do[:1] if all(self._lets_go_on(one) for one in changed) else []
        if idle:
            next_ones = _startable(idle, changed)
        for one, place in next_ones:
            if self._make_way(one, place):
                self._change(one, target)

    def _change(self, one: ServerLifecycle, target: ServingRun) -> None:
        before, run = one.current, target.at(one.suffix)
        others_serve = any(other.phase is Phase.SERVING for other in self._servers.values() if other is not one)
        run.is_evidence = not (before and before.failures and others_serve)
        if before and _fits(one, run.place):
            one.restart()
        else:
            one.change_to(run)

    def _lets_go_on(self, one: ServerLifecycle) -> bool:
        """Return True if the next server may be changed: this one has the change, and serves, or has always failed."""
        run = one.current
        if run and not run.is_evidence and run.failures:
            return True
        is_good = run is not None and self._state.is_good(run)
        return one.has_served_for(0 if is_good else self._context.settings.roll_s)

    def _make_way(self, one: ServerLifecycle, place: ServerPlace) -> bool:
        """Stop whatever else has the port or the devices of `place`; returns whether nothing is left in the way."""
        for suffix in self._unknown - {one.suffix}:
            self._server(suffix).give_way()
        self._unknown.clear()
        is_free = True
        for other in self._servers.values():
            if other is one:
                continue
            if other.current and other.current.place.excludes(place):
                other.give_way()
            is_free = is_free and not (other.current is None and other.is_busy)
        return is_free

    def _end_others(self, spec: Spec) -> None:
        """Stop the servers that the specification does not have, once all that it has are started."""
        for one in [*self._servers.values()]:
            if spec.place(one.suffix) is None:
                if one.current:
                    one.give_way()
                if not one.is_busy:
                    self._forget(one)
        if self.has(spec):
            self._target = None

    def _restart_next(self) -> None:
        waiting = [one for one in self._servers.values() if one.current and one.phase is Phase.WAITING]
        others = [one for one in self._servers.values() if one.current and one not in waiting]
        next_ones = _startable(waiting, others)
        for one in next_ones:
            one.restart()
        self._brings_back = len(next_ones) < len(waiting)

    def _renew(self, spec: Spec) -> None:
        """Take over what of `spec` needs no other container, such as its time limits."""
        for one in self._servers.values():
            place = spec.place(one.suffix)
            if one.current and place and _fits(one, place):
                one.current.spec = spec
        self._state.save()

    def _server(self, suffix: str) -> ServerLifecycle:
        if suffix not in self._servers:
            context = self._context.of_server(suffix)
            self._servers[suffix] = ServerLifecycle(context, suffix, self._served, self._rejected)
        return self._servers[suffix]

    def _forget(self, one: ServerLifecycle) -> None:
        del self._servers[one.suffix]
        self._context.readiness.forget(one.suffix)


def _fits(one: ServerLifecycle, place: ServerPlace) -> bool:
    return one.current is not None and one.current.place.fingerprint == place.fingerprint


def _startable(idle: list[T], started: list[ServerLifecycle]) -> list[T]:
    """Return what may be started now: the first one alone, and all others once it has compiled what they use, or has failed."""
    if not started:
        return idle[:1]
    come_far = [
        one.phase in (Phase.SERVING, Phase.UNHEALTHY) or (one.current is not None and one.current.failures > 0)
        for one in started
    ]
    return idle if all(come_far) else []


def _row(one: ServerLifecycle) -> Mapping[str, Any]:
    return {
        "name": NAME + one.suffix,
        "stage": one.phase.value,
        "running": one.current.spec.hash if one.current else None,
        "failures": one.current.failures if one.current else 0,
        "servingSince": one.serving_since,
    }
