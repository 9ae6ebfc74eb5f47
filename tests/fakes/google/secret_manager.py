"""`/secretmanager/v1`: secrets and their versions; deleting a secret takes its versions along."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.fakes.google.product import Product, page, required, route
from tests.fakes.google.wire import ErrorAnswer, Request, already_exists, not_found
from tests.fakes.google.world import PROJECT_NUMBER, World


class SecretManager(Product):
    prefix: ClassVar[str] = "secretmanager"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.versions: dict[str, list[dict[str, Any]]] = {}
        self._values: dict[str, str] = {}

    @route("POST", "projects/{project}/secrets")
    def create(self, request: Request, project: str) -> Any:
        name = f"projects/{project}/secrets/{required(request.query.get('secretId'), 'secretId')}"
        if name in self.resources:
            raise already_exists(name)
        answered_as = name.replace(f"projects/{project}", f"projects/{PROJECT_NUMBER}", 1)
        self.resources[name] = request.json() | {
            "name": answered_as,
            "createTime": self.world.now(),
            "etag": self.world.etag(),
        }
        self.versions[name] = []
        return self.resources[name]

    @route("GET", "projects/{project}/secrets")
    def index(self, request: Request, project: str) -> Any:
        return page(list(self.resources.values()), request, "secrets")

    @route("GET", "projects/{project}/secrets/{secret}")
    def get(self, request: Request, project: str, secret: str) -> Any:
        return self.known(f"projects/{project}/secrets/{secret}")

    @route("PATCH", "projects/{project}/secrets/{secret}")
    def patch(self, request: Request, project: str, secret: str) -> Any:
        return self.patched(f"projects/{project}/secrets/{secret}", request)

    @route("DELETE", "projects/{project}/secrets/{secret}")
    def delete(self, request: Request, project: str, secret: str) -> Any:
        name = f"projects/{project}/secrets/{secret}"
        self.remove(name)
        del self.versions[name]
        return {}

    @route("POST", "projects/{project}/secrets/{secret}:addVersion")
    def add_version(self, request: Request, project: str, secret: str) -> Any:
        name = f"projects/{project}/secrets/{secret}"
        self.known(name)
        number = len(self.versions[name]) + 1
        version = {
            "name": f"{self.resources[name]['name']}/versions/{number}",
            "createTime": self.world.now(),
            "state": "ENABLED",
            "etag": self.world.etag(),
        }
        self.versions[name].append(version)
        self._values[f"{name}/versions/{number}"] = request.json()["payload"]["data"]
        return version

    @route("GET", "projects/{project}/secrets/{secret}/versions")
    def list_versions(self, request: Request, project: str, secret: str) -> Any:
        name = f"projects/{project}/secrets/{secret}"
        self.known(name)
        return page(list(reversed(self.versions[name])), request, "versions")

    @route("GET", "projects/{project}/secrets/{secret}/versions/{version}")
    def get_version(self, request: Request, project: str, secret: str, version: str) -> Any:
        return self._version(project, secret, version)

    @route("GET", "projects/{project}/secrets/{secret}/versions/{version}:access")
    def access(self, request: Request, project: str, secret: str, version: str) -> Any:
        found = self._version(project, secret, version)
        if found["state"] != "ENABLED":
            raise ErrorAnswer(400, f"{found['name']} is in {found['state']} state.", canonical="FAILED_PRECONDITION")
        number = found["name"].rsplit("/", 1)[-1]
        data = self._values[f"projects/{project}/secrets/{secret}/versions/{number}"]
        return {"name": found["name"], "payload": {"data": data}}

    @route("POST", "projects/{project}/secrets/{secret}/versions/{version}:{verb}")
    def change_version(self, request: Request, project: str, secret: str, version: str, verb: str) -> Any:
        found = self._version(project, secret, version)
        states = {"enable": "ENABLED", "disable": "DISABLED", "destroy": "DESTROYED"}
        if verb not in states:
            raise ErrorAnswer(400, f"Unknown verb {verb}")
        found["state"] = states[verb]
        return found

    def _version(self, project: str, secret: str, version: str) -> dict[str, Any]:
        versions = self.versions.get(f"projects/{project}/secrets/{secret}", [])
        if version == "latest" and versions:
            return versions[-1]
        if not version.isdecimal() or not 0 < int(version) <= len(versions):
            raise not_found(f"{secret}/versions/{version}")
        return versions[int(version) - 1]
