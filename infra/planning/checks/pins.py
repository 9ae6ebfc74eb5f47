"""Images by tag and weights without a revision: what a plan says of them, and when it refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.errors import Fault, Findings
from infra.planning.settings.declarations import Settings


def check_pins(settings: Settings, loose: Sequence[str]) -> Findings:
    """Refuse what is `loose`, in words, where the settings ask for everything to be pinned."""
    if not (loose and settings.images.require_pinned):
        return Findings()
    fact = f"is set, and these are not pinned: {', '.join(loose)}."
    fix = "Run gemma4 pin online and commit the lock file, or take images.requirePinned out."
    return Findings((Fault("images.requirePinned", fact, "What is deployed could change unseen.", fix),))


def pins_note(settings: Settings, loose: Sequence[str]) -> Iterator[str]:
    """Yield what is `loose` where that is no reason to refuse the plan."""
    if loose and not settings.images.require_pinned:
        what = ", ".join(loose)
        yield f"Not pinned: {what}. The same plan may deploy something else tomorrow; `gemma4 pin` fixes them."
