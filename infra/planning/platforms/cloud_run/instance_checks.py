"""What Cloud Run refuses of an instance, and what would be wasted on one: its size, its number, how its weights come, how many
requests it is sent."""

from __future__ import annotations

from collections.abc import Iterator

from infra.catalog import CloudRunLimits
from infra.errors import Fault
from infra.planning.gateway.service_limits import TEMPERATE_CONCURRENCY
from infra.planning.server.server import Server
from infra.planning.settings.declarations import MOST_CONCURRENCY, ScalingSettings, Settings

_REFUSED = "The deployment would be refused."


def refused_sizes(scaling: ScalingSettings, limits: CloudRunLimits) -> Iterator[Fault]:
    """Yield a refusal for each size or number that Cloud Run does not take with the GPU."""
    for key, value, bounds, unit in (
        ("scaling.cpu", scaling.cpu, limits.cpu, "vCPU"),
        ("scaling.memoryGib", scaling.memory_gib, limits.memory_gib, "GiB"),
    ):
        if value is not None and not bounds.min <= value <= bounds.max:
            fact = f"{value} {unit} is outside what Cloud Run takes with this GPU: {bounds.min:g} to {bounds.max:g}."
            yield Fault(key, fact, _REFUSED, f"Write {bounds.min:g} to {bounds.max:g}, or leave it out.")
    within = scaling.cpu is not None and limits.cpu.min <= scaling.cpu <= limits.cpu.max
    if within and limits.cpu_values and scaling.cpu not in limits.cpu_values:
        values = ", ".join(str(value) for value in limits.cpu_values)
        yield Fault(
            "scaling.cpu", f"Cloud Run does not offer {scaling.cpu} vCPU.", _REFUSED, f"Write one of: {values}."
        )
    if scaling.min_instances > scaling.max_instances:
        fact = f"{scaling.min_instances} is more than scaling.maxInstances {scaling.max_instances}."
        yield Fault("scaling.minInstances", fact, _REFUSED, "Raise maxInstances or lower minInstances.")


def unreadable_weights(settings: Settings, server: Server) -> Iterator[Fault]:
    """Yield a refusal where weights.access: stream leaves nothing that the server could read."""
    if settings.weights.access != "stream":
        return
    if settings.weights.from_hub:
        fact = "stream reads gs://, and weights.source huggingface fills no bucket."
        yield Fault("weights.access", fact, "There would be nothing to stream.", "Write weights.source: bucket.")
    elif not server.streamed:
        fact = f"{server.load_format} cannot read gs://, where weights.access: stream leaves the weights."
        fix = "Leave it out, or write weights.access: mount."
        yield Fault("serving.loadFormat", fact, "The server would find no weights.", fix)


def ill_chosen_concurrency(settings: Settings) -> Iterator[Fault]:
    """Yield a warning where an instance is sent too few requests for its server, or far too many."""
    concurrency, seqs = settings.scaling.concurrency, settings.serving.max_num_seqs
    if seqs is None:
        return
    if concurrency is None:
        if seqs > MOST_CONCURRENCY:
            fact = f"{seqs} is more than the {MOST_CONCURRENCY} requests that Cloud Run sends to an instance."
            yield Fault("serving.maxNumSeqs", fact, "The batch can never fill.", f"Write at most {MOST_CONCURRENCY}.")
    elif concurrency < seqs:
        fact = f"{concurrency} is less than serving.maxNumSeqs {seqs}."
        fix = f"Write at least {seqs}."
        if seqs > MOST_CONCURRENCY:
            fix = f"Write serving.maxNumSeqs: {concurrency}; no instance gets more than {MOST_CONCURRENCY}."
        yield Fault("scaling.concurrency", fact, "The batch can never fill.", fix)
    elif concurrency > TEMPERATE_CONCURRENCY * seqs:
        fact = f"{concurrency} is far above serving.maxNumSeqs {seqs}."
        fix = f"Write about {2 * seqs}, so that Cloud Run starts another instance instead."
        yield Fault("scaling.concurrency", fact, "Requests would queue inside the server.", fix)
