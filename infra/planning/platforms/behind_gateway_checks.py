"""What is wrong with machines behind a gateway, whatever they are: the terms on which they are asked for, the gateway's
region, their addresses, how much it lets in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.catalog import catalog
from infra.errors import Fault, Findings
from infra.planning.gateway.gateway_checks import check_gateway
from infra.planning.gateway.limits import MOST_IN_FLIGHT, most_requests_each
from infra.planning.gateway.service_limits import TEMPERATE_CONCURRENCY, check_request_timeout
from infra.planning.platforms.base import Draft
from infra.planning.platforms.behind_gateway import BehindGateway, CapacitySettings
from infra.planning.platforms.flex_start import QueuedCapacity
from infra.planning.settings.cidr import DOCKER, is_private
from infra.planning.settings.declarations import Settings


def check_behind_gateway(draft: Draft, deployed: BehindGateway, asked: CapacitySettings) -> Findings:
    """Return what is wrong with what is asked for, between a gateway and the servers behind it, and with the gateway."""
    settings, max_num_seqs, capacity = draft.settings, draft.server.max_num_seqs, QueuedCapacity(deployed, asked)
    unused = check_gateway(
        settings,
        draft.origins,
        names_setting=deployed.names_setting,
        servers=deployed.replicas,
        requests_each=deployed.requests_each,
        max_num_seqs=max_num_seqs,
    )
    timeout = check_request_timeout(deployed.gateway.request_timeout_s, longest_answer_s=draft.longest_answer_s)
    refusals = (*capacity.refusals(draft.startup), *_ranges(settings, deployed))
    warnings = (
        *capacity.warnings(draft.startup, draft.origins),
        *_gateway_region(settings, deployed),
        *_in_flight(settings, deployed, max_num_seqs),
    )
    return Findings(refusals, warnings) + timeout + Findings(warnings=tuple(unused))


def _gateway_region(settings: Settings, deployed: BehindGateway) -> Iterator[Fault]:
    """Warn of a region in which nothing of the catalog is: whether the gateway can be there was not checked."""
    if settings.region is None or settings.region in _known_regions():
        return
    fact = f"{settings.region} is in no row of the catalog, so whether Cloud Run is there was not checked."
    consequence = "If it is not, the gateway's deployment is refused."
    fix = f"Leave it out for {deployed.region}, or look it up with: gcloud run regions list."
    yield Fault("region", fact, consequence, fix)


def _known_regions() -> set[str]:
    """Return the regions in which some accelerator or price of the catalog is: some of Google's, not all."""
    facts = catalog()
    places = {place for one in facts.accelerators.values() for place in (*one.locations, *one.invited_locations)}
    priced = {price.region for price in facts.prices if price.region}
    return priced | {re.sub(r"-[a-z]$", "", place) for place in places}


def _ranges(settings: Settings, deployed: BehindGateway) -> Iterator[Fault]:
    key, own, beside, noun = (
        "network.subnetCidr",
        settings.network.subnet_cidr,
        deployed.subnet_cidr,
        deployed.server_noun,
    )
    fix = "Write for example 10.8.0.0/26."
    if not is_private(IPv4Network(beside)):
        fact = f"the {noun}s get the range beside it, {beside}, which is not private."
        yield Fault(key, fact, "What lives there on the internet could not be reached.", fix)
    elif any(IPv4Network(cidr).overlaps(DOCKER) for cidr in (own, beside)):
        fact = (
            f"{DOCKER}, which Docker on the {noun}s takes for itself, overlaps {own} or the {noun}s' own range beside it, "
            f"{beside}."
        )
        yield Fault(key, fact, f"A {noun} could not answer the gateway.", fix)


def _in_flight(settings: Settings, deployed: BehindGateway, max_num_seqs: int) -> Iterator[Fault]:
    """Yield a fault if the gateway admits fewer requests for one server than it could run at once, or too many."""
    held, count, noun = settings.scaling.concurrency, deployed.replicas, deployed.server_noun
    each = deployed.requests_each
    whose = f"the {noun}" if count == 1 else f"each of {count} {noun}s"
    if each < max_num_seqs:
        are = "1 request is" if each == 1 else f"{each} requests are"
        fact = f"{are} in flight for {whose}, less than serving.maxNumSeqs {max_num_seqs}."
        fits = max_num_seqs <= most_requests_each(count)
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
