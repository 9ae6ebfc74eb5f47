"""What is known not to work, or to be wasted, with TPU slices: zones, durations, addresses, and what their gateway lets in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network

from infra.catalog import Accelerator, catalog
from infra.errors import Fault, Findings
from infra.planning.gateway.limits import MOST_IN_FLIGHT
from infra.planning.gateway.service_limits import TEMPERATE_CONCURRENCY
from infra.planning.performance.startup import StartupEstimate
from infra.planning.platforms.tpu.slices import SHORTEST_QUEUE_S, SlicesPlan, limits_of
from infra.planning.settings.cidr import DOCKER, is_private
from infra.planning.settings.declarations import MOST_CONCURRENCY, Settings
from infra.planning.settings.resolve import WRITTEN, Origin
from infra.planning.units import parse_duration, read_duration, read_minutes, read_predicted, read_usd, spell_duration

_FLEX_START_S = (600, 7 * 86_400)
_KNOWN_QUEUE_S = 7 * 86_400
"""No bound on a request's validity is documented for queued resources; the same of Compute Engine ends at 7 days."""


def check_slices(
    settings: Settings,
    slices: SlicesPlan,
    startup: StartupEstimate,
    origins: Mapping[str, Origin],
    max_num_seqs: int,
) -> Findings:
    """Return all faults of the slices. Of the model, only the time that it takes to start matters here."""
    refusals = (*_run_duration(settings, slices, startup), *_validity(settings), *_ranges(settings, slices))
    warnings = (
        *_gateway_region(settings, slices),
        *_short_run(settings, slices, startup),
        *_no_end(settings, slices, origins),
        *_waiting(settings, slices),
        *_unattended(settings, slices),
        *_in_flight(settings, slices, max_num_seqs),
    )
    return Findings(refusals, warnings)


def check_zone(settings: Settings, accelerator: Accelerator, zone: str) -> Findings:
    """Refuse a zone where Google was seen to refuse flex-start, and warn where nobody is known to have asked for it: the
    answer costs nothing."""
    limits = limits_of(accelerator)
    if settings.tpu.provisioning != "flex-start" or zone not in accelerator.locations:
        return Findings()
    seen = ", ".join(limits.flex_start_zones)
    if zone in limits.flex_start_refused_zones:
        fact = f"Google was seen to refuse flex-start requests for TPU v6e in {zone}."
        fix = f"Write one of: {seen}, or another tpu.provisioning."
        return Findings((Fault("tpu.zone", fact, "The TPU API would refuse this one too.", fix),))
    if zone in limits.flex_start_zones:
        return Findings()
    fact = f"it is not known whether {zone} takes flex-start requests: no report of one was found."
    consequence = "If it does not, the TPU API says so within seconds, and no slice is paid for."
    return Findings(warnings=(Fault("tpu.zone", fact, consequence, f"Seen to take them: {seen}."),))


def _gateway_region(settings: Settings, slices: SlicesPlan) -> Iterator[Fault]:
    """Warn of a region in which nothing of the catalog is: whether the gateway can be there was not checked."""
    if settings.region is None or settings.region in _known_regions():
        return
    fact = f"{settings.region} is in no row of the catalog, so whether Cloud Run is there was not checked."
    consequence = "If it is not, the gateway's deployment is refused."
    fix = f"Leave it out for {slices.region}, or look it up with: gcloud run regions list."
    yield Fault("region", fact, consequence, fix)


def _known_regions() -> set[str]:
    """Return the regions in which some accelerator or price of the catalog is: some of Google's, not all."""
    facts = catalog()
    places = {place for one in facts.accelerators.values() for place in (*one.locations, *one.invited_locations)}
    priced = {price.region for price in facts.prices if price.region}
    return priced | {re.sub(r"-[a-z]$", "", place) for place in places}


def _run_duration(settings: Settings, slices: SlicesPlan, startup: StartupEstimate) -> Iterator[Fault]:
    low, high = _FLEX_START_S
    run_s, start_s = slices.max_run_duration_s, startup.from_zero.mid
    if run_s is None:
        return
    text = settings.tpu.max_run_duration
    if not low <= run_s <= high:
        fact = f"{text} is outside what flex-start takes: 10m to 7d."
        fix = "Write at most 7d and let the next slice queue before the first ends, or use tpu.provisioning: on-demand."
        yield Fault("tpu.maxRunDuration", fact, "The TPU API would refuse the request.", fix)
    elif run_s <= start_s:
        fact = f"{text} is not longer than the start, which takes {_start(startup)}."
        fix = f"Write at least {_twice(start_s)}, or leave it out."
        yield Fault("tpu.maxRunDuration", fact, "The slice would be paid for and end before it serves.", fix)


def _short_run(settings: Settings, slices: SlicesPlan, startup: StartupEstimate) -> Iterator[Fault]:
    run_s, start_s = slices.max_run_duration_s, startup.from_zero.mid
    if run_s is not None and start_s < run_s < 2 * start_s:
        fact = f"{settings.tpu.max_run_duration} is less than twice the start, which takes {_start(startup)}."
        fix = f"Write at least {_twice(start_s)}."
        yield Fault("tpu.maxRunDuration", fact, "Most of what is paid for would be spent on starting.", fix)


def _start(startup: StartupEstimate) -> str:
    return read_predicted(startup.from_zero, read_duration, ends=read_minutes)


def _twice(start_s: float) -> str:
    return spell_duration(60 * -(-2 * start_s // 60))


def _no_end(settings: Settings, slices: SlicesPlan, origins: Mapping[str, Origin]) -> Iterator[Fault]:
    if slices.max_run_duration_s is None and origins.get("tpu.maxRunDuration") in WRITTEN:
        fact = f"has no effect with tpu.provisioning: {slices.provisioning}."
        consequence = "The slice would run, and be paid for, until it is deleted."
        fix = "Take it out, or use tpu.provisioning: flex-start."
        yield Fault("tpu.maxRunDuration", fact, consequence, fix)


def _validity(settings: Settings) -> Iterator[Fault]:
    text = settings.tpu.valid_until_duration
    if text is not None and parse_duration(text) < SHORTEST_QUEUE_S:
        fact = f"{text} is too short for any request to be granted."
        yield Fault("tpu.validUntilDuration", fact, "The request would expire at once.", "Write for example 4h.")


def _waiting(settings: Settings, slices: SlicesPlan) -> Iterator[Fault]:
    valid, wait = settings.tpu.valid_until_duration, settings.tpu.wait_for_capacity
    if valid is None or slices.valid_until_duration_s < SHORTEST_QUEUE_S:
        return  # as long as the wait; or refused, and no other duration should follow it
    if slices.wait_for_capacity_s > slices.valid_until_duration_s:
        fact = f"{wait} is longer than tpu.validUntilDuration {valid}."
        fix = f"Write at most {valid}, or raise tpu.validUntilDuration."
        yield Fault("tpu.waitForCapacity", fact, "The request would have ended while up still waits.", fix)
    if slices.valid_until_duration_s > _KNOWN_QUEUE_S:
        fact = f"{valid} is more than 7d; how long Google lets a request stand is not documented."
        fix = "Write at most 7d, or try it: a refusal costs nothing."
        yield Fault("tpu.validUntilDuration", fact, "Whether it takes this one is unknown.", fix)


def _unattended(settings: Settings, slices: SlicesPlan) -> Iterator[Fault]:
    """Warn of what is paid for a slice that is granted when `pulumi up` has stopped waiting for it."""
    if not slices.unattended_s:
        return
    usd, lasts = sum(line.usd for line in slices.hour(catalog())), "an hour until it is deleted"
    if slices.max_run_duration_s is not None:
        usd, lasts = usd * slices.max_run_duration_s / 3600, "until it ends"
    text, longer = settings.tpu.valid_until_duration, read_duration(slices.unattended_s)
    fact = f"{text} may cost {read_usd(usd)} {lasts}, for what nobody waits for."
    consequence = f"In the {longer} after `pulumi up` has stopped waiting, a slice may still be granted."
    yield Fault("tpu.validUntilDuration", fact, consequence, "Leave it out, and the request ends with the wait.")


def _ranges(settings: Settings, slices: SlicesPlan) -> Iterator[Fault]:
    key, own, beside = "network.subnetCidr", settings.network.subnet_cidr, slices.subnet_cidr
    fix = "Write for example 10.8.0.0/26."
    if not is_private(IPv4Network(beside)):
        fact = f"the slices get the range beside it, {beside}, which is not private."
        yield Fault(key, fact, "What lives there on the internet could not be reached.", fix)
    elif any(IPv4Network(cidr).overlaps(DOCKER) for cidr in (own, beside)):
        fact = (
            f"{DOCKER}, which Docker on the slices takes for itself, overlaps {own} or the slices' own range beside it, "
            f"{beside}."
        )
        yield Fault(key, fact, "A slice could not answer the gateway.", fix)


def _in_flight(settings: Settings, slices: SlicesPlan, max_num_seqs: int) -> Iterator[Fault]:
    """Yield a fault if the gateway admits fewer requests for one slice than the slice could run at once, or too many."""
    held, count = settings.scaling.concurrency, len(slices.names)
    each = slices.requests_each
    whose = "the slice" if count == 1 else f"each of {count} slices"
    if each < max_num_seqs:
        are = "1 request is" if each == 1 else f"{each} requests are"
        fact = f"{are} in flight for {whose}, less than serving.maxNumSeqs {max_num_seqs}."
        fits = max_num_seqs <= min(MOST_CONCURRENCY, MOST_IN_FLIGHT // count)
        fix = f"scaling.concurrency: {max_num_seqs}" if fits else f"serving.maxNumSeqs: {each}"
        yield Fault("scaling.concurrency", fact, "The batch can never fill.", f"Write {fix}.")
    elif held is not None and held * count > MOST_IN_FLIGHT:
        fact = f"{held} for {whose} is more than the {MOST_IN_FLIGHT} that the gateway is sent in all."
        fix = f"Write at most {MOST_IN_FLIGHT // count}."
        yield Fault("scaling.concurrency", fact, "Cloud Run would answer 429 earlier.", fix)
    elif held is not None and held > TEMPERATE_CONCURRENCY * max_num_seqs:
        fact = f"{held} is far above serving.maxNumSeqs {max_num_seqs}."
        fix = f"Write about {2 * max_num_seqs}, so that the gateway answers 429 instead."
        yield Fault("scaling.concurrency", fact, "Requests would queue inside the server.", fix)
