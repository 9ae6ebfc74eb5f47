"""The base of every product: routes by pattern, IAM policies and operations for free, a list of what is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar
from urllib.parse import unquote

from tests.fakes.google.wire import ErrorAnswer, Request, Response, not_found
from tests.fakes.google.world import PROJECT_NUMBER, World

Handler = Callable[..., Any]


def route(method: str, pattern: str) -> Callable[[Handler], Handler]:
    """Answer `method` on `pattern`, where `{name}` is one path segment and `{name*}` any number of them."""

    def mark(handler: Handler) -> Handler:
        routes: list[tuple[str, str]] = getattr(handler, "routes", [])
        routes.append((method, pattern))
        handler.routes = routes  # type: ignore[attr-defined]
        return handler

    return mark


class Product:
    """Handlers take the request and the pattern's names, and return a JSON-able body or a `Response`."""

    prefix: ClassVar[str]  # first segment of the path
    controls: ClassVar[tuple[str, ...]] = ("configure",)  # methods that /_fake/call may reach

    def __init__(self, world: World) -> None:
        self.world = world
        self.resources: dict[str, dict[str, Any]] = {}
        self._routes = list(_routes_of(self))

    def configure(self, **fields: Any) -> None:
        """Set public attributes by name, such as `pace` of the TPU fake or `operation_polls` of Cloud Run."""
        for name, value in fields.items():
            if name.startswith("_") or not hasattr(self, name):
                raise ValueError(f"{type(self).__name__} has no attribute {name}")
            setattr(self, name, value)

    def answer(self, request: Request, path: str) -> Response | None:
        """The answer to `path` (without prefix and version), or None when nothing here knows it."""
        path = path.replace(f"projects/{PROJECT_NUMBER}/", f"projects/{self.world.project}/", 1)
        for method, pattern, handler in self._routes:
            match = pattern.fullmatch(path) if method == request.method else None
            if match:
                names = {name: unquote(value) for name, value in match.groupdict().items()}
                result = handler(request, **names)
                return result if isinstance(result, Response) else Response(result)
        return None

    def leftovers(self) -> list[str]:
        return [f"{self.prefix}/{name}" for name in sorted(self.resources)]

    def known(self, name: str) -> dict[str, Any]:
        if name not in self.resources:
            raise not_found(name)
        return self.resources[name]

    def remove(self, name: str) -> dict[str, Any]:
        """Take a resource away together with its IAM policy."""
        gone = self.known(name)
        del self.resources[name]
        self.world.forget_policy(self.policy_key(name))
        return gone

    def patched(self, name: str, request: Request) -> dict[str, Any]:
        """Change a resource that has an etag, as `apply_changes` says."""
        found = self.known(name)
        apply_changes(found, request)
        found["etag"] = self.world.etag()
        return found

    def policy_key(self, resource: str) -> str:
        return f"{self.prefix}/{resource}"

    def operation(self, parent: str, **fields: Any) -> dict[str, Any]:
        """`parent` is the resource name up to and including its location."""
        return self.world.start(f"{parent}/operations/op-{self.world.serial()}", **fields)

    @route("GET", "{resource*}:getIamPolicy")
    @route("POST", "{resource*}:getIamPolicy")
    def get_policy(self, request: Request, resource: str) -> Any:
        self.check_policy_target(resource)
        return self.world.policy(self.policy_key(resource))

    @route("POST", "{resource*}:setIamPolicy")
    def set_policy(self, request: Request, resource: str) -> Any:
        self.check_policy_target(resource)
        return self.world.set_policy(self.policy_key(resource), request.json().get("policy", {}))

    def check_policy_target(self, resource: str) -> None:
        self.known(resource)

    @route("GET", "{parent*}/operations/{operation}")
    def get_operation(self, request: Request, parent: str, operation: str) -> Any:
        return self.world.poll(f"{parent}/operations/{operation}")


def page(items: list[Any], request: Request, key: str) -> dict[str, Any]:
    """One page of a listing: `pageSize` and `pageToken` as Google spells them."""
    start = int(request.query.get("pageToken") or 0)
    size = int(request.query.get("pageSize") or 0) or len(items) or 1
    shown: dict[str, Any] = {key: items[start : start + size]} if items else {}
    if start + size < len(items):
        shown["nextPageToken"] = str(start + size)
    return shown


def apply_changes(record: dict[str, Any], request: Request) -> None:
    """A PATCH: the fields that `updateMask` names, or else those of the body; one without a value goes away."""
    body = request.json()
    named = [field.partition(".")[0] for field in request.query.get("updateMask", "").split(",") if field]
    for field in named or list(body):
        if field in ("name", "createTime"):
            continue
        if body.get(field) is None:
            record.pop(field, None)
        else:
            record[field] = body[field]


def required(query_value: str | None, name: str) -> str:
    if not query_value:
        raise ErrorAnswer(400, f"Missing required parameter: {name}")
    return query_value


def _compiled(pattern: str) -> re.Pattern[str]:
    def group(match: re.Match[str]) -> str:
        name, many = match.group(1), match.group(2)
        return f"(?P<{name}>.+)" if many else f"(?P<{name}>[^/:]+)"

    literal = re.sub(r"[.]", r"\\.", pattern)
    return re.compile(re.sub(r"\{(\w+)(\*?)\}", group, literal))


def _routes_of(product: Product) -> Iterable[tuple[str, re.Pattern[str], Handler]]:
    """A class's own routes before those of its bases, in the order they are written."""
    seen: set[str] = set()
    for cls in type(product).__mro__:
        for name, member in vars(cls).items():
            if name in seen:
                continue
            for method, pattern in getattr(member, "routes", ()):
                yield method, _compiled(pattern), getattr(product, name)
            seen.add(name)
