"""What is wrong with the durations of capacity that waits in a queue and ends by itself, for whichever platform buys it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from infra.catalog import catalog
from infra.errors import Fault
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.behind_gateway import SHORTEST_QUEUE_S, BehindGateway, CapacitySettings
from infra.planning.settings.resolve import WRITTEN, Origin
from infra.planning.units import parse_duration, read_duration, read_minutes, read_predicted, read_usd, spell_duration

SHORTEST_RUN_S, LONGEST_RUN_S = 600, 7 * 86_400
KNOWN_QUEUE_S = 7 * 86_400
"""No bound on a request's validity is documented for queued resources; the same of Compute Engine ends at 7 days."""


@dataclass(frozen=True)
class QueuedCapacity:
    """What one stack asks for, and its durations as its settings spell them."""

    plan: BehindGateway
    asked: CapacitySettings

    @property
    def valid(self) -> str | None:
        """How long the request waits in a queue, as it is spelled; None: as long as the wait, or not at all."""
        return None if self.plan.valid_until_duration_s is None else self.asked.valid_until_duration

    def refusals(self, startup: StartupEstimate) -> Iterator[Fault]:
        """Yield what no request could be granted with, or what would end before it serves."""
        plan, group, noun = self.plan, self.plan.group, self.plan.machine_noun
        start_s, run_s, run = startup.from_zero.mid, plan.max_run_duration_s, self.asked.max_run_duration
        if run_s is not None and not SHORTEST_RUN_S <= run_s <= LONGEST_RUN_S:
            fact = f"{run} is outside what flex-start takes: 10m to 7d."
            other = f"or use {group}.provisioning: on-demand"
            fix = f"Write at most 7d and let the next {noun} queue before the first ends, {other}."
            yield Fault(f"{group}.maxRunDuration", fact, f"{plan.api} would refuse the request.", fix)
        elif run_s is not None and run_s <= start_s:
            fact = f"{run} is not longer than the start, which takes {_start(startup)}."
            consequence = f"The {noun} would be paid for and end before it serves."
            fix = f"Write at least {_twice(start_s)}, or leave it out."
            yield Fault(f"{group}.maxRunDuration", fact, consequence, fix)
        if self.valid is not None and parse_duration(self.valid) < SHORTEST_QUEUE_S:
            fact, consequence = (
                f"{self.valid} is too short for any request to be granted.",
                "The request would expire at once.",
            )
            yield Fault(f"{group}.validUntilDuration", fact, consequence, "Write for example 4h.")

    def warnings(self, startup: StartupEstimate, origins: Mapping[str, Origin]) -> Iterator[Fault]:
        """Yield what is wasted, does nothing, or is not known to be taken."""
        plan, group = self.plan, self.plan.group
        key, start_s, run_s = f"{group}.maxRunDuration", startup.from_zero.mid, plan.max_run_duration_s
        if run_s is not None and start_s < run_s < 2 * start_s:
            fact = f"{self.asked.max_run_duration} is less than twice the start, which takes {_start(startup)}."
            fix = f"Write at least {_twice(start_s)}."
            yield Fault(key, fact, "Most of what is paid for would be spent on starting.", fix)
        if run_s is None and origins.get(key) in WRITTEN:
            fact = f"has no effect with {group}.provisioning: {plan.provisioning}."
            consequence = f"The {plan.machine_noun} would run, and be paid for, until it is deleted."
            other = f", or use {group}.provisioning: {plan.lasting}" if plan.lasting else ""
            yield Fault(key, fact, consequence, f"Take it out{other}.")
        key = f"{group}.validUntilDuration"
        if self.valid is None and origins.get(key) in WRITTEN:
            fact = f"has no effect with {group}.provisioning: {plan.provisioning}, which waits in no queue."
            yield Fault(key, fact, "It would be ignored.", "Take it out.")
        yield from self._waiting()

    def _waiting(self) -> Iterator[Fault]:
        if self.valid is None or parse_duration(self.valid) < SHORTEST_QUEUE_S:
            return  # as long as the wait; or refused, and no other duration should follow it
        key, wait, valid_s = (
            f"{self.plan.group}.validUntilDuration",
            self.asked.wait_for_capacity,
            parse_duration(self.valid),
        )
        if parse_duration(wait) > valid_s:
            fact = f"{wait} is longer than {key} {self.valid}."
            consequence = "The request would have ended while up still waits."
            fix = f"Write at most {self.valid}, or raise {key}."
            yield Fault(f"{self.plan.group}.waitForCapacity", fact, consequence, fix)
        if valid_s > KNOWN_QUEUE_S:
            fact = f"{self.valid} is more than 7d; how long Google lets a request stand is not documented."
            fix = "Write at most 7d, or try it: a refusal costs nothing."
            yield Fault(key, fact, "Whether it takes this one is unknown.", fix)
        yield from self._unattended()

    def _unattended(self) -> Iterator[Fault]:
        """Warn of what is paid for one that is granted when `pulumi up` has stopped waiting for it."""
        plan = self.plan
        if not plan.unattended_s:
            return
        usd, lasts = plan.together * sum(line.usd for line in plan.hour(catalog())), "an hour until it is deleted"
        if plan.max_run_duration_s is not None:
            usd, lasts = usd * plan.max_run_duration_s / 3600, "until it ends"
        fact = f"{self.valid} may cost {read_usd(usd)} {lasts}, for what nobody waits for."
        longer = read_duration(plan.unattended_s)
        consequence = (
            f"In the {longer} after `pulumi up` has stopped waiting, a {plan.machine_noun} may still be granted."
        )
        fix = "Leave it out, and the request ends with the wait."
        yield Fault(f"{plan.group}.validUntilDuration", fact, consequence, fix)


def _start(startup: StartupEstimate) -> str:
    return read_predicted(startup.from_zero, read_duration, ends=read_minutes)


def _twice(start_s: float) -> str:
    return spell_duration(60 * -(-2 * start_s // 60))
