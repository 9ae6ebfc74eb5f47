"""Names of grants: each follows from its member alone, so that no grant depends on who else is listed, or in what order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_CASELESS = ("user:", "group:", "serviceAccount:", "domain:")


def by_name(members: Iterable[str], *, without: str = "") -> dict[str, str]:
    """Return the members by the end of their grant's name, each once; `without` is granted elsewhere.

    Two resources for one grant would be worse than none: deleting either takes the member's right away.
    """
    named = {_name(member): member for member in reversed(list(members))}  # of two spellings the first one stays
    named.pop(_name(without), None)
    return dict(sorted(named.items()))


def _name(member: str) -> str:
    """Return a readable part, and a hash that tells apart what reads alike: `group-ml-example-com-1a2b3c4d`."""
    same = member.lower() if member.startswith(_CASELESS) else member
    slug = re.sub(r"[^a-z0-9]+", "-", member.lower())[:40].strip("-")
    return f"{slug}-{hashlib.sha256(same.encode()).hexdigest()[:8]}"
