"""`/run/v2`: services, whose every change of template makes a revision; jobs come from next door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.fakes.google import cloud_run_rules, schemas
from tests.fakes.google.jobs import PACKAGE, Jobs
from tests.fakes.google.product import page, required, route
from tests.fakes.google.watch import Logging
from tests.fakes.google.wire import Request, already_exists, not_found
from tests.fakes.google.world import PROJECT_NUMBER, World

SERVICES = "projects/{project}/locations/{location}/services"
COMPUTED = (
    "uid",
    "createTime",
    "creator",
    "generation",
    "observedGeneration",
    "latestReadyRevision",
    "latestCreatedRevision",
)
TRAFFIC = [{"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", "percent": 100}]
STARTUP_FAILED = (
    "The user-provided container failed the configured startup probe checks. Logs for this revision might contain more "
    "information."
)
LINKS = (
    "\n\nLogs URL: https://console.cloud.google.com/logs/viewer?project=demo-project \n"
    "For more troubleshooting guidance, see https://cloud.google.com/run/docs/troubleshooting#container-failed-to-start"
)
STEPS = (
    ("ContainerReady", "Container image import completed in 23.22s."),
    ("ResourcesAvailable", "Provisioning imported containers completed in 31.91s. Checking container health."),
    ("ContainerHealthy", "Containers became healthy in 11.53s."),
)
NEVER = 1_000_000_000


@dataclass
class Start:
    """How a revision starts: a look at it or at its operation brings it one step on, through the image, the instance and
    one step for each entry of `log`, which is written then. With a `failure` it ends badly."""

    looks: int = 0
    log: Sequence[str] = ()
    failure: str = ""
    operation: str = ""
    seen: int = field(default=0, init=False)


class CloudRun(Jobs):
    """`revisions` lists each service's revisions, oldest first."""

    controls: ClassVar[tuple[str, ...]] = (
        *Jobs.controls,
        "fail_next_revision",
        "start_next_revision",
        "serve_at",
        "limit_gpus",
    )

    def __init__(self, world: World, logging: Logging) -> None:
        super().__init__(world, logging)
        self.revisions: dict[str, list[dict[str, Any]]] = {}
        self.operation_polls = 0
        self._next = Start()
        self._starting: dict[str, Start] = {}
        self._uris: dict[str, str] = {}
        self._gpu_quota: int | None = None

    def fail_next_revision(self, message: str = STARTUP_FAILED, log: Sequence[str] = ()) -> None:
        """The next revision never gets ready: the operation ends with an error, the service stays with what it had."""
        self._next = Start(failure=message, log=log)

    def start_next_revision(self, log: Sequence[str], failure: str = "") -> None:
        """The next revision takes its time: one look for the image, one for the instance, one for each line."""
        self._next = Start(looks=len(log) + 3, log=log, failure=failure)

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

    @route("GET", SERVICES + "/{service}/revisions/{revision}")
    def get_revision(self, request: Request, project: str, location: str, service: str, revision: str) -> Any:
        owner = self.known(f"projects/{project}/locations/{location}/services/{service}")
        name = f"{owner['name']}/revisions/{revision}"
        found = next((one for one in self.revisions[owner["name"]] if one["name"] == name), None)
        if found is None:
            raise not_found(name)
        shown = dict(found)
        self._look(name)
        return shown

    @route("GET", "{parent*}/operations/{operation}")
    def get_operation(self, request: Request, parent: str, operation: str) -> Any:
        name = f"{parent}/operations/{operation}"
        for revision in [revision for revision, start in self._starting.items() if start.operation == name]:
            self._look(revision)
        return self.world.poll(name)

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
        for revision in self.revisions.pop(f"{parent}/services/{service}"):
            self._starting.pop(revision["name"], None)
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
        revision = self._add_revision(after) if template != before.get("template") else None
        generation = str(int(before.get("generation", "0")) + 1)
        uri = self._uri(name)
        after |= {
            "generation": generation,
            "updateTime": self.world.now(),
            "uri": uri,
            "urls": [uri],
            "trafficStatuses": [{**target, "uri": uri} for target in after["traffic"]],
            "reconciling": False,
            "etag": self.world.etag(),
        }
        self.resources[name] = after
        if revision is None:
            after |= {key: before[key] for key in ("terminalCondition", "conditions") if key in before}
            after |= {"observedGeneration": generation} if "latestReadyRevision" in after else {}
            return self.operation(parent, response=self._shown(after), polls=self.operation_polls)
        return self._start(parent, after, revision)

    def _add_revision(self, service: dict[str, Any]) -> dict[str, Any]:
        short = service["name"].rsplit("/", 1)[-1]
        number = len(self.revisions[service["name"]]) + 1
        given = service["template"].get("revision") or f"{short}-{number:05d}-{self.world.serial():03d}"
        own = {"name": f"{service['name']}/revisions/{given}", "createTime": self.world.now(), "service": short}
        revision: dict[str, Any] = service["template"] | own
        self.revisions[service["name"]].append(revision)
        service["latestCreatedRevision"] = revision["name"]
        return revision

    def _start(self, parent: str, service: dict[str, Any], revision: dict[str, Any]) -> dict[str, Any]:
        start, self._next = self._next, Start()
        start.operation = str(self.operation(parent, polls=NEVER)["name"])
        self._starting[revision["name"]] = start
        service["reconciling"] = revision["reconciling"] = True
        service["terminalCondition"] = self._condition("Ready", "CONDITION_RECONCILING", "Deploying revision.")
        service["conditions"] = []
        revision["conditions"] = [self._condition("Ready", "CONDITION_RECONCILING", "Deploying revision.")]
        if not start.looks:
            self._settle(service, revision, start)
            self.world.operations[start.operation].polls = self.operation_polls
        return self.world.operations[start.operation].as_json()

    def _look(self, revision: str) -> None:
        """Bring a revision that starts one step on."""
        start = self._starting.get(revision)
        if start is None or not start.looks:
            return
        start.seen += 1
        service = self.resources[revision.partition("/revisions/")[0]]
        found = next(one for one in self.revisions[service["name"]] if one["name"] == revision)
        if start.seen >= start.looks:
            start.log = start.log[start.seen - 3 :]
            self._settle(service, found, start)
            self.world.operations[start.operation].polls = 0
            return
        if start.seen > 2:
            self._write(found, start.log[start.seen - 3])
        done = [self._condition(kind, "CONDITION_SUCCEEDED", said) for kind, said in STEPS[: min(start.seen, 2)]]
        found["conditions"] = [found["conditions"][0], *done]

    def _settle(self, service: dict[str, Any], revision: dict[str, Any], start: Start) -> None:
        """End a revision's start: its conditions, the service's, and the operation that made it."""
        for line in start.log:
            self._write(revision, line)
        short = revision["name"].rsplit("/", 1)[-1]
        state, said, of_service = "CONDITION_SUCCEEDED", "Deploying revision succeeded in 37.02s.", ""
        if start.failure:
            echo = f"Ready condition status changed to False for Revision {short} with message: {start.failure}{LINKS}"
            self._write(revision, "", severity="ERROR", protoPayload={"status": {"code": 9, "message": echo}})
            state, said = "CONDITION_FAILED", f"{start.failure}{LINKS}"
            of_service = f"Revision '{short}' is not ready and cannot serve traffic. {said}"
        else:
            service["latestReadyRevision"] = revision["name"]
            service["observedGeneration"] = service["generation"]  # which a failure leaves where it was
        steps = [self._condition(kind, "CONDITION_SUCCEEDED", text) for kind, text in STEPS[:2]]
        reason = {"revisionReason": "HEALTH_CHECK_CONTAINER_ERROR"} if start.failure else {}
        last = [self._condition(kind, state, said) | reason for kind in ("Ready", "ContainerHealthy")]
        revision |= {"conditions": [*last, *steps], "reconciling": False}
        terminal = self._condition("Ready", state, of_service)
        terminal |= {"reason": "REVISION_FAILED"} if start.failure else {}
        configurations = {**terminal, "type": "ConfigurationsReady"}
        routes = {**terminal, "type": "RoutesReady"} if "latestReadyRevision" not in service else {}
        routes = routes or self._condition("RoutesReady", "CONDITION_SUCCEEDED", "")
        service |= {"terminalCondition": terminal, "conditions": [routes, configurations], "reconciling": False}
        operation = self.world.operations[start.operation]
        operation.response = self._shown(service)
        operation.error = {"code": 9, "message": of_service} if start.failure else None
        del self._starting[revision["name"]]

    def _condition(self, kind: str, state: str, message: str) -> dict[str, Any]:
        said = {"message": message} if message else {}
        return {"type": kind, "state": state, "lastTransitionTime": self.world.now(), **said}

    def _write(self, revision: dict[str, Any], line: str, **fields: Any) -> None:
        _, project, _, location, _, service, _, short = revision["name"].split("/")
        labels = {"service_name": service, "location": location, "revision_name": short, "project_id": project}
        self.logging.add(line, "cloud_run_revision", labels, **fields)

    def _shown(self, service: dict[str, Any]) -> dict[str, Any]:
        return {"@type": f"{PACKAGE}.Service", **service}

    def _uri(self, name: str) -> str:
        _, _, _, location, _, short = name.split("/")
        given = self._uris.get(short) or self._uris.get("")
        return given or f"https://{short}-{PROJECT_NUMBER}.{location}.run.app"
