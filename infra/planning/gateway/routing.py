"""How the gateway chooses among members that are ready, and what else it asks of a request: lines of its configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Routing:
    """Lines to put into HAProxy's configuration at the named places, each without its indentation.

    In the frontend, `var(txn.name)` is set where a request asks for a member or a group by its name, which only that one
    answers. The caller's Authorization headers are still there; they are removed behind these lines.
    """

    global_lines: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    """Whole sections of their own, such as a backend that holds a stick table: one text each, its lines indented."""
    frontend: tuple[str, ...] = ()
    """After what the gateway answers itself, before a backend is chosen."""
    balanced: tuple[str, ...] = ("balance leastconn",)
    """Of the backend with every member."""
    server: str = ""
    """Words to add to each server of that backend, such as its weight."""
    log_fields: tuple[tuple[str, str], ...] = ()
    """Further fields of a log line: name, and a log format that yields JSON, with quotes where it is text."""
