"""This machine as gateways know it: its name among their members, from the attribute `gemma4-member`."""

from __future__ import annotations

import json
from collections.abc import Callable

from .context import Context
from .metadata_server import MEMBER, AttributeWatch

OnMainThread = Callable[[Callable[[str | None], None]], Callable[[str | None], None]]
"""Returns a function that has the given one called on the main thread."""


class Membership:
    """Follows the attribute. All methods run on the main thread."""

    def __init__(self, context: Context, on_main_thread: OnMainThread) -> None:
        self._context, self._on_main_thread = context, on_main_thread

    def start(self) -> None:
        """Follow the attribute from now on."""
        settings, metadata = self._context.settings, self._context.metadata
        AttributeWatch(settings, metadata, MEMBER, self._on_main_thread(self._on_member)).start()

    def withdraw(self) -> None:
        """Take every server of this machine out of the gateways, because the machine goes down."""
        self._context.readiness.withdraw("the machine goes down")

    def _on_member(self, text: str | None) -> None:
        try:
            name = "" if text is None else str(json.loads(text)["name"])
        except (ValueError, KeyError, TypeError):
            self._context.status.trouble("member", "gemma4-member is malformed. No gateway sends requests here.")
            return
        self._context.status.clear("member")
        if not name:
            self._context.log.info("member", "The node has no attribute gemma4-member: it serves without a gateway.")
        self._context.readiness.name(name)
