"""`/run/v2`: services, whose every change of template makes a revision; jobs come from next door."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.fakes.google import cloud_run_rules, schemas
from tests.fakes.google.jobs import PACKAGE, Jobs
from tests.fakes.google.product import page, required, route
from tests.fakes.google.watch import Logging
from tests.fakes.google.wire import Request, already_exists
from tests.fakes.google.world import PROJECT_NUMBER, World

SERVICES = "projects/{project}/locations/{location}/services"
COMPUTED = ("uid", "createTime", "creator", "generation", "latestReadyRevision", "latestCreatedRevision")
TRAFFIC = [{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", "percent": 100}]


class CloudRun(Jobs):
    """`revisions` lists each service's revisions, oldest first."""

    controls: ClassVar[tuple[str, ...]] = (*Jobs.controls, "fail_next_revision", "serve_at", "limit_gpus")

    def __init__(self, world: World, logging: Logging) -> None:
        super().__init__(world, logging)
        self.revisions: dict[str, list[dict[str, Any]]] = {}
        self.operation_polls = 0
        self._failure = ""
        self._uris: dict[str, str] = {}
        self._gpu_quota: int | None = None

    def fail_next_revision(self, message: str) -> None:
        """The next revision never gets ready: the operation ends with an error, the service stays with what it had."""
        self._failure = message

    def serve_at(self, uri: str, service: str = "") -> None:
        """Answer `uri` as the address of one service, by its short name, or of all."""
        self._uris[service] = uri

    def limit_gpus(self, allowed: int) -> None:
        self._gpu_quota = allowed

    @route("POST", SERVICES)
    def create_service(self, request: Request, project: str, location: str) -> Any:
        parent = f"projects/{project}/locations/{location}"
        name = f"{parent}/services/{required(request.query.get('serviceId'), 'serviceId')}"
        if name in self.resources:
            raise already_exists(name)
        self._check(request)
        self.revisions[name] = []
        self.resources[name] = {"uid": self.world.etag(), "createTime": self.world.now(), "creator": "you@example.com"}
        return self._apply(name, request.json(), parent)

    @route("GET", SERVICES)
    def index_services(self, request: Request, project: str, location: str) -> Any:
        start = f"projects/{project}/locations/{location}/services/"
        return page([one for name, one in self.resources.items() if name.startswith(start)], request, "services")

    @route("GET", SERVICES + "/{service}")
    def get_service(self, request: Request, project: str, location: str, service: str) -> Any:
        return self.known(f"projects/{project}/locations/{location}/services/{service}")

    @route("PATCH", SERVICES + "/{service}")
    def patch_service(self, request: Request, project: str, location: str, service: str) -> Any:
        parent = f"projects/{project}/locations/{location}"
        before = self.known(f"{parent}/services/{service}")
        mask = [field for field in request.query.get("updateMask", "").split(",") if field]
        given = request.json()
        body = {**before, **{field: given.get(field) for field in mask}} if mask else given
        if not mask:
            self._check(request)
        return self._apply(before["name"], {key: value for key, value in body.items() if value is not None}, parent)

    @route("DELETE", SERVICES + "/{service}")
    def delete_service(self, request: Request, project: str, location: str, service: str) -> Any:
        parent = f"projects/{project}/locations/{location}"
        gone = self.remove(f"{parent}/services/{service}")
        del self.revisions[f"{parent}/services/{service}"]
        return self.operation(parent, response={"@type": f"{PACKAGE}.Service", **gone}, polls=self.operation_polls)

    @route("GET", SERVICES + "/{service}/revisions")
    def index_revisions(self, request: Request, project: str, location: str, service: str) -> Any:
        name = self.known(f"projects/{project}/locations/{location}/services/{service}")["name"]
        return page(self.revisions[name][::-1], request, "revisions")

    def _check(self, request: Request) -> None:
        schemas.check("run.v2", "Service", request.json())
        cloud_run_rules.check_service(request.json(), self._gpu_quota)

    def _apply(self, name: str, body: dict[str, Any], parent: str) -> dict[str, Any]:
        before = self.resources[name]
        template = {"timeout": "300s", "maxInstanceRequestConcurrency": 80} | body["template"]
        after = {"ingress": "INGRESS_TRAFFIC_ALL", "launchStage": "GA", "traffic": TRAFFIC} | body
        after |= {key: before[key] for key in COMPUTED if key in before} | {"name": name, "template": template}
        if template != before.get("template"):
            self._add_revision(after)
        generation = str(int(before.get("generation", "0")) + 1)
        uri = self._uri(name)
        after |= {
            "generation": generation,
            "observedGeneration": generation,
            "updateTime": self.world.now(),
            "uri": uri,
            "urls": [uri],
            "trafficStatuses": [{**target, "uri": uri} for target in after["traffic"]],
            "reconciling": False,
            "etag": self.world.etag(),
        }
        self.resources[name] = after
        error = self._settle(after)
        response = {"@type": f"{PACKAGE}.Service", **after}
        return self.operation(parent, response=response, error=error, polls=self.operation_polls)

    def _add_revision(self, service: dict[str, Any]) -> None:
        short = service["name"].rsplit("/", 1)[-1]
        number = len(self.revisions[service["name"]]) + 1
        given = service["template"].get("revision") or f"{short}-{number:05d}-{self.world.serial():03d}"
        revision = {"name": f"{service['name']}/revisions/{given}", "createTime": self.world.now()}
        self.revisions[service["name"]].append(revision | service["template"] | {"service": short})
        service["latestCreatedRevision"] = revision["name"]
        if not self._failure:
            service["latestReadyRevision"] = revision["name"]

    def _settle(self, service: dict[str, Any]) -> dict[str, Any] | None:
        """Write the service's conditions; the error its operation ends with, if it does."""
        condition = {"type": "Ready", "state": "CONDITION_SUCCEEDED", "lastTransitionTime": self.world.now()}
        error = None
        if self._failure:
            short = service["latestCreatedRevision"].rsplit("/", 1)[-1]
            message = f"Revision '{short}' is not ready and cannot serve traffic. {self._failure}"
            condition |= {"state": "CONDITION_FAILED", "message": message, "reason": "REVISION_FAILED"}
            error = {"code": 9, "message": message}
            self._failure = ""
        service["terminalCondition"] = condition
        service["conditions"] = [{**condition, "type": "RoutesReady"}, {**condition, "type": "ConfigurationsReady"}]
        return error

    def _uri(self, name: str) -> str:
        _, _, _, location, _, short = name.split("/")
        given = self._uris.get(short) or self._uris.get("")
        return given or f"https://{short}-{PROJECT_NUMBER}.{location}.run.app"
