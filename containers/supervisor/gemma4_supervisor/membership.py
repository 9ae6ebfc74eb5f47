"""This machine as gateways know it, from `gemma4-member` and `gemma4-drain`: its name, its record, whether it takes part."""

from __future__ import annotations

import functools
import json
import re
import threading
import time
from collections.abc import Callable

from .context import Context
from .dns_record import DnsRecord, RecordPlace
from .metadata_server import DRAIN, MEMBER, AttributeWatch

DRAINING, DRAINED = "draining", "drained"
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

    def __init__(self, context: Context, requests: Callable[[], float | None]) -> None:
        self._context, self._requests = context, requests
        self._watch = functools.partial(AttributeWatch, context.settings, context.metadata, context.on_main_thread)
        self._record = DnsRecord(context.settings, context.metadata, context.log, context.status)
        self._place: RecordPlace | None = None
        self._drain_ends: threading.Event | None = None
        """Of a drain that goes on: set to end it before its time."""
        self._follows_name = False
        self.stage = ""
        """`draining` or `drained`; blank while the machine takes part."""

    def start(self) -> None:
        """Follow the attributes from now on."""
        self._record.start()
        self._watch(DRAIN, self._on_drain).start()

    def leave_for_good(self) -> None:
        """Leave the gateways, because the machine goes down; returns once they know."""
        self._take_part("the machine goes down")
        time.sleep(self._context.settings.leave_s)
        self._record.wait_until_written(self._context.settings.record_last_s)

    def _take_part(self, refusal: str) -> None:
        """Have the machine in the gateways, or out of them where there is a reason for a refusal."""
        self._context.readiness.withdraw(refusal)
        self._record.keep(self._place, is_member=not refusal)

    def _on_drain(self, text: str | None) -> None:
        wants_drain = (text or "").strip().lower() == "true"
        if wants_drain and not self._drain_ends:
            self.stage, self._drain_ends = DRAINING, threading.Event()
            text = "The machine is drained: it takes no requests, and finishes those that it has."
            self._context.log.info("drain", text)
            self._take_part("the machine is drained")
            threading.Thread(target=self._drain, args=(self._drain_ends,), name="drain", daemon=True).start()
        elif self._drain_ends and not wants_drain:
            self._drain_ends.set()
            self.stage, self._drain_ends = "", None
            self._context.log.info("drain", "The machine is drained no more: gateways may send requests again.")
            self._take_part("")
        if not self._follows_name:  # not before: a drained machine must not be ready for a moment
            self._follows_name = True
            self._watch(MEMBER, self._on_member).start()

    def _drain(self, ends: threading.Event) -> None:
        """Wait until the servers have answered what they have, on a thread of its own."""
        settings = self._context.settings
        end = time.monotonic() + settings.drain_cap_s
        ends.wait(settings.leave_s)  # requests may still come
        while (left := self._requests()) != 0 and time.monotonic() < end and not ends.is_set():
            ends.wait(settings.start_poll_s)
        self._context.on_main_thread(lambda: self._on_drained(ends, left))

    def _on_drained(self, ends: threading.Event, left: float | None) -> None:
        if ends.is_set():
            return
        self.stage = DRAINED
        if left == 0:
            self._context.log.info("drain", "The machine is drained: no request is left.")
            return
        what = "how many requests are left is not known" if left is None else f"{left:g} requests are left"
        text = f"The machine counts as drained after {self._context.settings.drain_cap_s:g} s: {what}."
        self._context.log.warning("drain", text)

    def _on_member(self, text: str | None) -> None:
        try:
            name, self._place = ("", None) if text is None else parse_member(text)
        except ValueError as error:
            self._context.status.trouble("member", f"gemma4-member is malformed: {error}. What was known stays.")
            return
        self._context.status.clear("member")
        if not name:
            text = "The node has no attribute gemma4-member: it serves without a record, and no gateway finds it."
            self._context.log.warning("member", text)
        self._context.readiness.name(name)
        self._record.keep(self._place, is_member=not self._drain_ends)


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
