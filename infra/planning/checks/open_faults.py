"""Open faults of vLLM that a configuration meets: which they are, and what a plan says of them.

Those that end a server at its start are warnings. All others share one note: a fault that is open is no reason to choose
otherwise, but saves whoever meets it a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.catalog import Catalog, OpenFault
from infra.errors import Fault
from infra.planning.server.server import Server
from infra.planning.settings.declarations import Settings

NAMED = 3
"""How many threads a note names; the row of the whole plan has all."""


def met_by(settings: Settings, server: Server, facts: Catalog) -> tuple[OpenFault, ...]:
    """Return the open faults that the configuration meets, those that end a server first."""
    return tuple(one for one in facts.open_faults.values() if _meets(one, settings, server))


def _meets(fault: OpenFault, settings: Settings, server: Server) -> bool:
    """Return whether every condition of a fault holds; the threads are of vLLM on GPUs."""
    cured = any(f"{name}:" in fault.cure for name in settings.serving.env)
    return (
        server.implementation.uses_cuda
        and not cured
        and (not fault.architectures or server.architecture.id in fault.architectures)
        and (not fault.weight_formats or server.model.weight_format in fault.weight_formats)
        and fault.speculation in (None, server.speculation)
        and (not fault.several_devices or server.tensor_parallel > 1)
        and fault.compute_capability in (None, server.accelerator.compute_capability)
        and (not fault.with_env or fault.with_env in settings.serving.env)
        and (not fault.tools or settings.serving.tools)
    )


def stopping_faults(met: Sequence[OpenFault]) -> Iterator[Fault]:
    """Yield a warning for each fault that may end the server at its start."""
    for one in met:
        if one.stops_the_server:
            fact = f"may meet an open fault of vLLM ({one.thread}, seen in {one.seen_in}): {one.what}."
            consequence = "Whether it is mended in the version that serves is not known."
            yield Fault("images.serving", fact, consequence, one.cure)


def open_faults_note(met: Sequence[OpenFault]) -> Iterator[str]:
    """Yield one note on the faults that do not end a server at its start."""
    others = [one for one in met if not one.stops_the_server]
    if others:
        named = "; ".join(f"{one.thread.rpartition('/')[2]}, {one.what}" for one in others[:NAMED])
        more = f"; {len(others) - NAMED} more with --full" if len(others) > NAMED else ""
        yield f"Open faults of vLLM that this configuration may meet: {named}{more}."
