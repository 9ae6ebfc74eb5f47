"""What an operator looks at: alert policies and channels (`/monitoring`), log entries (`/logging`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from tests.fakes.google.product import Product, apply_changes, page, route
from tests.fakes.google.wire import ErrorAnswer, Request
from tests.fakes.google.world import World


class Monitoring(Product):
    """`/monitoring/v3` and `/v1`: alert policies, notification channels, dashboards; all plain resources."""

    prefix: ClassVar[str] = "monitoring"

    @route("POST", "projects/{project}/{collection}")
    def create(self, request: Request, project: str, collection: str) -> Any:
        name = f"projects/{project}/{collection}/{self.world.serial()}"
        self.resources[name] = request.json() | {"name": name, "etag": self.world.etag()}
        for number, condition in enumerate(self.resources[name].get("conditions", [])):
            condition["name"] = f"{name}/conditions/{number}"
        return self.resources[name]

    @route("GET", "projects/{project}/{collection}")
    def index(self, request: Request, project: str, collection: str) -> Any:
        start = f"projects/{project}/{collection}/"
        return page([one for name, one in self.resources.items() if name.startswith(start)], request, collection)

    @route("GET", "projects/{project}/{collection}/{identifier}")
    def get(self, request: Request, project: str, collection: str, identifier: str) -> Any:
        return self.known(f"projects/{project}/{collection}/{identifier}")

    @route("PATCH", "projects/{project}/{collection}/{identifier}")
    def patch(self, request: Request, project: str, collection: str, identifier: str) -> Any:
        found = self.known(f"projects/{project}/{collection}/{identifier}")
        apply_changes(found, request)
        found["etag"] = self.world.etag()
        return found

    @route("DELETE", "projects/{project}/{collection}/{identifier}")
    def delete(self, request: Request, project: str, collection: str, identifier: str) -> Any:
        self.remove(f"projects/{project}/{collection}/{identifier}")
        return {}


class Logging(Product):
    """`/logging/v2`: entries added with `add`, found again by comparisons joined with AND, OR and parentheses."""

    prefix: ClassVar[str] = "logging"
    controls: ClassVar[tuple[str, ...]] = (
        *Product.controls,
        "add",
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.entries: list[dict[str, Any]] = []

    def add(
        self,
        text: str,
        resource: str,
        resource_labels: dict[str, str],
        labels: dict[str, str] | None = None,
        **fields: Any,
    ) -> None:
        """`fields` may hold severity, jsonPayload, timestamp …; `text` becomes textPayload where it is not empty."""
        entry = {"timestamp": self.world.now(), "labels": labels or {}, "severity": "DEFAULT"} | fields
        entry.setdefault("insertId", f"entry-{len(self.entries):06d}")
        entry["resource"] = {"type": resource, "labels": resource_labels}
        if text:
            entry["textPayload"] = text
        self.entries.append(entry)

    @route("POST", "entries:write")
    def write_entries(self, request: Request) -> Any:
        """Of `generic_node` alone, which is what a slice writes as; the same entry twice is one."""
        body = request.json()
        if not request.token:
            raise ErrorAnswer(401, "Request is missing required authentication credential.")
        shared: dict[str, Any] = {key: body[key] for key in ("logName", "resource") if key in body}
        resource = shared.get("resource", {})
        if resource.get("type") != "generic_node" or set(resource.get("labels", {})) != _NODE_LABELS:
            raise ErrorAnswer(400, "Log entry has an unknown monitored resource, or not its labels.")
        if not re.fullmatch(r"projects/[^/]+/logs/[\w.-]+", shared.get("logName", "")) or not body.get("entries"):
            raise ErrorAnswer(400, "No log entries were written: a name or the entries are missing.")
        known = {(entry.get("insertId"), entry["timestamp"]) for entry in self.entries}
        for entry in body["entries"]:
            if entry["severity"] not in _ORDERED or not isinstance(entry["jsonPayload"], dict):
                raise ErrorAnswer(400, "Log entry has a field that is none of its own.")
            if (entry["insertId"], entry["timestamp"]) not in known:
                self.entries.append({**shared, "labels": body.get("labels", {}), **entry})
        return {}

    @route("POST", "entries:list")
    def list_entries(self, request: Request) -> Any:
        body = request.json()
        if not body.get("resourceNames"):
            raise ErrorAnswer(400, "resource_names is required")
        holds = _Filter(body.get("filter", "")).parsed()
        found = [entry for entry in self.entries if holds(entry)]
        found.sort(key=lambda entry: entry["timestamp"], reverse=body.get("orderBy") == "timestamp desc")
        begin, size = int(body.get("pageToken") or 0), body.get("pageSize", 50)
        more = {"nextPageToken": str(begin + size)} if len(found) > begin + size else {}
        return {"entries": found[begin : begin + size]} | more

    def leftovers(self) -> list[str]:
        return []


_NODE_LABELS = {"project_id", "location", "namespace", "node_id"}


_ORDERED = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
_TOKEN = re.compile(
    r'\s*(?:(?P<sign>\(|\)|AND\b|OR\b)|(?P<path>[\w./"-]+?)\s*(?P<operator>>=|<=|=~|=|:)\s*"(?P<value>(?:[^"\\]|\\.)*)")'
)


class _Filter:
    """Parses a filter into a function of an entry. AND binds more closely than OR here, so mixing needs parentheses."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text.strip(), 0

    def parsed(self) -> Callable[[dict[str, Any]], bool]:
        if not self.text:
            return lambda _: True
        holds = self._any()
        if self.at != len(self.text):
            raise ErrorAnswer(400, f"Unparseable filter: {self.text[self.at :]}")
        return holds

    def _any(self) -> Callable[[dict[str, Any]], bool]:
        parts = [self._all()]
        while self._takes("OR"):
            parts.append(self._all())
        return lambda entry: any(part(entry) for part in parts)

    def _all(self) -> Callable[[dict[str, Any]], bool]:
        parts = [self._one()]
        while self._takes("AND"):
            parts.append(self._one())
        return lambda entry: all(part(entry) for part in parts)

    def _one(self) -> Callable[[dict[str, Any]], bool]:
        if self._takes("("):
            inner = self._any()
            if not self._takes(")"):
                raise ErrorAnswer(400, "Unparseable filter: a parenthesis is open")
            return inner
        match = _TOKEN.match(self.text, self.at)
        if not match or match["sign"]:
            raise ErrorAnswer(400, f"Unparseable filter: {self.text[self.at :]}")
        self.at = match.end()
        path, operator, value = match["path"], match["operator"], re.sub(r"\\(.)", r"\1", match["value"])
        return lambda entry: _holds(entry, path, operator, value)

    def _takes(self, sign: str) -> bool:
        match = _TOKEN.match(self.text, self.at)
        if match and match["sign"] == sign:
            self.at = match.end()
            return True
        return False


def _holds(entry: dict[str, Any], path: str, operator: str, value: str) -> bool:
    found: Any = entry
    for key in re.findall(r'"([^"]+)"|([^."]+)', path):
        found = found.get(key[0] or key[1]) if isinstance(found, dict) else None
    if found is None:
        return False
    if operator == "=~":
        return re.search(value, str(found)) is not None
    if path == "severity" and operator in (">=", "<="):
        level, bound = _ORDERED.index(str(found)), _ORDERED.index(value)
        return level >= bound if operator == ">=" else level <= bound
    if operator == ">=":
        return str(found) >= value
    if operator == "<=":
        return str(found) <= value
    return value in str(found) if operator == ":" else str(found) == value
