"""Images by tag and weights without a revision: what a plan says of them, and when it refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.errors import Fault, Findings
from infra.planning.artifacts import adapters_of
from infra.planning.settings.declarations import Settings


def check_pins(settings: Settings, loose: Sequence[str]) -> Findings:
    """Refuse what is `loose`, in words, where the settings ask for everything to be pinned."""
    if not (loose and settings.images.require_pinned):
        return Findings()
    fact = f"is set, and these are not pinned: {', '.join(loose)}."
    fix = f"{_way(settings)}Run gemma4 pin online and commit the lock file, or take images.requirePinned out."
    return Findings((Fault("images.requirePinned", fact, "What is deployed could change unseen.", fix),))


def pins_note(settings: Settings, loose: Sequence[str]) -> Iterator[str]:
    """Yield what is `loose` where that is no reason to refuse the plan."""
    if loose and not settings.images.require_pinned:
        what = ", ".join(loose)
        note = f"Not pinned: {what}. The same plan may deploy something else tomorrow; `gemma4 pin` fixes them."
        yield f"{note} {_way(settings)}".rstrip()


def _way(settings: Settings) -> str:
    """Return how adapters are pinned, which the lock file does not hold; empty where all are."""
    loose = any(not one.pinned for one in adapters_of(settings))
    return "Adapters are pinned in serving.adapters, with @ and a commit. " if loose else ""
