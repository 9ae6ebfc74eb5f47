"""This machine as gateways know it, from `gemma4-member` and `gemma4-drain`: its name, its record, whether it takes part."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

from .context import Context
from .dns_record import DnsRecord, RecordPlace
from .drain import Drain
from .metadata_server import DRAIN, MEMBER, AttributeWatch
from .server_lifecycle import OnMainThread

DRAINING, DRAINED = "draining", "drained"
LAST_S = 5.0
"""Longest wait for the record to be written, of a machine that goes down."""
_KEYS = {
    "name": r"[a-z]([a-z0-9-]*[a-z0-9])?",
    "project": r"[a-z0-9.:-]+",
    "zone": r"[a-z0-9-]+",
    "record": r"([a-z0-9-]+\.)+",
}


class Membership:
    """Follows the attributes. All methods run on the main thread.

    `requests` returns how many requests the servers have, None where they do not say; any thread may call it.
    """

    def __init__(self, context: Context, on_main_thread: OnMainThread, requests: Callable[[], float | None]) -> None:
        self._context, self._on_main_thread, self._requests = context, on_main_thread, requests
        self._record = DnsRecord(context.settings, context.metadata, context.log, context.status)
        self._drain: Drain | None = None
        self._follows_name = False
        self.stage = ""
        """`draining` or `drained`; blank while the machine takes part."""

    def start(self) -> None:
        """Follow the attributes from now on."""
        self._record.start()
        self._watch(DRAIN, self._on_drain)

    def leave_for_good(self) -> None:
        """Leave the gateways, because the machine goes down; returns once they know."""
        self._context.readiness.withdraw("the machine goes down")
        self._record.leave_gateways()
        time.sleep(self._context.settings.leave_s)
        self._record.wait_until_written(LAST_S)

    def _watch(self, attribute: str, changed: Callable[[str | None], None]) -> None:
        def on_change(value: str | None) -> None:
            self._on_main_thread(lambda: changed(value))

        AttributeWatch(self._context.settings, self._context.metadata, attribute, on_change).start()

    def _on_drain(self, text: str | None) -> None:
        if (text or "").strip().lower() == "true":
            self._begin_drain()
        elif self._drain:
            self._drain.undo()
            self._drain, self.stage = None, ""
            self._context.log.info("drain", "The machine is drained no more: gateways may send requests again.")
            self._context.readiness.withdraw("")
            self._record.join_gateways()
        if not self._follows_name:  # not before: a drained machine must not be ready for a moment
            self._follows_name = True
            self._watch(MEMBER, self._on_member)

    def _begin_drain(self) -> None:
        if self._drain:
            return
        self.stage = DRAINING
        self._context.log.info("drain", "The machine is drained: it takes no requests, and finishes those that it has.")
        self._context.readiness.withdraw("the machine is drained")
        self._record.leave_gateways()
        self._drain = Drain(self._context.settings, self._requests, self._on_drained)
        self._drain.start()

    def _on_drained(self, drain: Drain, left: float | None) -> None:
        def end() -> None:
            if drain is not self._drain:
                return
            self.stage = DRAINED
            if left == 0:
                self._context.log.info("drain", "The machine is drained: no request is left.")
                return
            what = "how many requests are left is not known" if left is None else f"{left:g} requests are left"
            text = f"The machine counts as drained after {self._context.settings.drain_cap_s:g} s: {what}."
            self._context.log.warning("drain", text)

        self._on_main_thread(end)

    def _on_member(self, text: str | None) -> None:
        try:
            name, place = ("", None) if text is None else parse_member(text)
        except ValueError as error:
            self._context.status.trouble("member", f"gemma4-member is malformed: {error}. What was known stays.")
            return
        self._context.status.clear("member")
        if not name:
            text = "The node has no attribute gemma4-member: it serves without a record, and no gateway finds it."
            self._context.log.warning("member", text)
        self._context.readiness.name(name)
        self._record.move(place)


def parse_member(text: str) -> tuple[str, RecordPlace]:
    """Return name and record of the attribute `gemma4-member`. Raises ValueError, which names the first fault."""
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict) or document.keys() != _KEYS.keys():
        raise ValueError(f"it is not an object of {', '.join(_KEYS)}")
    for key, form in _KEYS.items():
        if not isinstance(document[key], str) or not re.fullmatch(form, document[key]):
            raise ValueError(f"{key} is not of the form {form}")
    return document["name"], RecordPlace(document["project"], document["zone"], document["record"])
