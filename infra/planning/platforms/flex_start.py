"""What is wrong with the durations of capacity that waits in a queue and ends by itself, for whichever platform buys it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from infra.errors import Fault
from infra.planning.performance.startup import StartupEstimate
from infra.planning.settings.resolve import WRITTEN, Origin
from infra.planning.units import parse_duration, read_duration, read_minutes, read_predicted, read_usd, spell_duration

SHORTEST_RUN_S, LONGEST_RUN_S = 600, 7 * 86_400
SHORTEST_QUEUE_S = 60
"""A request that stands for less is never granted."""
KNOWN_QUEUE_S = 7 * 86_400
"""No bound on a request's validity is documented for queued resources; the same of Compute Engine ends at 7 days."""


@dataclass(frozen=True)
class QueuedCapacity:
    """Durations of what one stack asks for, as its settings spell them, and how its platform's messages call it."""

    group: str
    """Of settings: tpu or machine."""
    what: str
    """One that is granted, as a noun: slice."""
    api: str
    """Who takes the request, at the beginning of a sentence."""
    provisioning: str
    lasting: str | None
    """Provisioning with an end that can be had in place of it; None where there is none."""
    run: str | None
    """None: it has no end."""
    valid: str | None
    """How long it waits in a queue; None: as long as the wait, or not at all."""
    wait: str
    """How long one `pulumi up` waits."""
    unattended_s: int
    """How long it still waits in the queue when nobody waits for it any more."""
    usd_per_hour: float
    """Of one that is granted."""

    @property
    def run_s(self) -> int | None:
        """Seconds until it ends."""
        return None if self.run is None else parse_duration(self.run)

    @property
    def valid_s(self) -> int | None:
        """Seconds that the request may stand in the queue."""
        return None if self.valid is None else parse_duration(self.valid)

    def refusals(self, startup: StartupEstimate) -> Iterator[Fault]:
        """Yield what no request could be granted with, or what would end before it serves."""
        key, start_s = f"{self.group}.maxRunDuration", startup.from_zero.mid
        if self.run_s is not None and not SHORTEST_RUN_S <= self.run_s <= LONGEST_RUN_S:
            fact = f"{self.run} is outside what flex-start takes: 10m to 7d."
            fix = (
                f"Write at most 7d and let the next {self.what} queue before the first ends, or use "
                f"{self.group}.provisioning: on-demand."
            )
            yield Fault(key, fact, f"{self.api} would refuse the request.", fix)
        elif self.run_s is not None and self.run_s <= start_s:
            fact = f"{self.run} is not longer than the start, which takes {_start(startup)}."
            consequence = f"The {self.what} would be paid for and end before it serves."
            yield Fault(key, fact, consequence, f"Write at least {_twice(start_s)}, or leave it out.")
        if self.valid_s is not None and self.valid_s < SHORTEST_QUEUE_S:
            fact = f"{self.valid} is too short for any request to be granted."
            yield Fault(
                f"{self.group}.validUntilDuration", fact, "The request would expire at once.", "Write for example 4h."
            )

    def warnings(self, startup: StartupEstimate, origins: Mapping[str, Origin]) -> Iterator[Fault]:
        """Yield what is wasted, does nothing, or is not known to be taken."""
        key, start_s = f"{self.group}.maxRunDuration", startup.from_zero.mid
        if self.run_s is not None and start_s < self.run_s < 2 * start_s:
            fact = f"{self.run} is less than twice the start, which takes {_start(startup)}."
            fix = f"Write at least {_twice(start_s)}."
            yield Fault(key, fact, "Most of what is paid for would be spent on starting.", fix)
        if self.run_s is None and origins.get(key) in WRITTEN:
            fact = f"has no effect with {self.group}.provisioning: {self.provisioning}."
            consequence = f"The {self.what} would run, and be paid for, until it is deleted."
            other = f", or use {self.group}.provisioning: {self.lasting}" if self.lasting else ""
            yield Fault(key, fact, consequence, f"Take it out{other}.")
        key = f"{self.group}.validUntilDuration"
        if self.valid_s is None and origins.get(key) in WRITTEN:
            fact = f"has no effect with {self.group}.provisioning: {self.provisioning}, which waits in no queue."
            yield Fault(key, fact, "It would be ignored.", "Take it out.")
        yield from self._waiting()

    def _waiting(self) -> Iterator[Fault]:
        if self.valid_s is None or self.valid_s < SHORTEST_QUEUE_S:
            return  # as long as the wait; or refused, and no other duration should follow it
        valid, key = self.valid, f"{self.group}.validUntilDuration"
        if parse_duration(self.wait) > self.valid_s:
            fact = f"{self.wait} is longer than {key} {valid}."
            consequence = "The request would have ended while up still waits."
            yield Fault(f"{self.group}.waitForCapacity", fact, consequence, f"Write at most {valid}, or raise {key}.")
        if self.valid_s > KNOWN_QUEUE_S:
            fact = f"{valid} is more than 7d; how long Google lets a request stand is not documented."
            fix = "Write at most 7d, or try it: a refusal costs nothing."
            yield Fault(key, fact, "Whether it takes this one is unknown.", fix)
        yield from self._unattended()

    def _unattended(self) -> Iterator[Fault]:
        """Warn of what is paid for one that is granted when `pulumi up` has stopped waiting for it."""
        if not self.unattended_s:
            return
        usd, lasts = self.usd_per_hour, "an hour until it is deleted"
        if self.run_s is not None:
            usd, lasts = usd * self.run_s / 3600, "until it ends"
        fact = f"{self.valid} may cost {read_usd(usd)} {lasts}, for what nobody waits for."
        longer = read_duration(self.unattended_s)
        consequence = f"In the {longer} after `pulumi up` has stopped waiting, a {self.what} may still be granted."
        fix = "Leave it out, and the request ends with the wait."
        yield Fault(f"{self.group}.validUntilDuration", fact, consequence, fix)


def _start(startup: StartupEstimate) -> str:
    return read_predicted(startup.from_zero, read_duration, ends=read_minutes)


def _twice(start_s: float) -> str:
    return spell_duration(60 * -(-2 * start_s // 60))
