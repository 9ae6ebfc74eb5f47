"""The fake itself: finds the product, applies faults, writes down what was asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fakes.google import control
from tests.fakes.google.artifacts import ArtifactRegistry
from tests.fakes.google.capacity_advice import ComputeAdvice
from tests.fakes.google.cloud_run import CloudRun
from tests.fakes.google.dns import Dns
from tests.fakes.google.faults import FaultRule
from tests.fakes.google.iam import CustomRoles, Iam, IamCredentials, Projects
from tests.fakes.google.listener import Listener
from tests.fakes.google.oauth import OAuth
from tests.fakes.google.product import Product
from tests.fakes.google.secret_manager import SecretManager
from tests.fakes.google.services import CloudBilling, CloudQuotas, OrgPolicy, ServiceUsage
from tests.fakes.google.storage import Storage
from tests.fakes.google.time_series import TimeSeries
from tests.fakes.google.tpu import Tpu
from tests.fakes.google.uploads import Uploads
from tests.fakes.google.watch import Logging, Monitoring
from tests.fakes.google.wire import ErrorAnswer, Request, Response, error_body, expired_token, fingerprint
from tests.fakes.google.world import World

BODY_KEPT = 64 * 1024  # bytes of a body that is not JSON, as kept in `requests`

# The gcp provider's keys, and below which path each product answers.
ENDPOINTS = {
    "artifactRegistryCustomEndpoint": "artifactregistry/v1/",
    "cloudBillingCustomEndpoint": "cloudbilling/v1/",
    "cloudQuotasCustomEndpoint": "cloudquotas/v1/",
    "cloudRunV2CustomEndpoint": "run/v2/",
    "computeCustomEndpoint": "compute/v1/",
    "dnsCustomEndpoint": "dns/v1/",
    "iamBetaCustomEndpoint": "iam/v1/",
    "iamCustomEndpoint": "iam/v1/",
    "iamCredentialsCustomEndpoint": "iamcredentials/v1/",
    "loggingCustomEndpoint": "logging/v2/",
    "monitoringCustomEndpoint": "monitoring/",
    "orgPolicyCustomEndpoint": "orgpolicy/v2/",
    "resourceManagerCustomEndpoint": "crm/v1/",
    "secretManagerCustomEndpoint": "secretmanager/v1/",
    "serviceUsageCustomEndpoint": "serviceusage/v1/",
    "storageCustomEndpoint": "storage/v1/",
    "tpuV2CustomEndpoint": "tpu/v2alpha1/",
}


@dataclass(frozen=True)
class Recorded:
    """One request as it came in. `token` is a fingerprint, enough to tell two bearers apart and no more."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    status: int
    token: str
    quota_project: str = ""


class FakeGoogle:
    """Products are attributes (`run`, `tpu`, `storage` …). `clock` gives the seconds that timestamps are made of."""

    def __init__(self, *, project: str = "demo-project", port: int = 0, clock: Callable[[], float] = time.time) -> None:
        self.project = project
        self.world = World(project, clock)
        self.requests: list[Recorded] = []
        self.unknown: list[str] = []
        self.rules: list[FaultRule] = []
        self.expired: set[str] = set()
        self.logging = Logging(self.world)
        self.run = CloudRun(self.world, self.logging)
        self.roles = CustomRoles(self.world)  # before `iam`, which would take a role for an account
        self.iam, self.crm = Iam(self.world), Projects(self.world)
        self.iamcredentials, self.oauth = IamCredentials(self.world), OAuth(self.world)
        self.storage = Storage(self.world)
        self.uploads = Uploads(self.world, self.storage)
        self.secretmanager = SecretManager(self.world)
        self.artifactregistry = ArtifactRegistry(self.world)
        self.compute = ComputeAdvice(self.world)
        self.dns = Dns(self.world)
        self.serviceusage, self.cloudquotas = ServiceUsage(self.world), CloudQuotas(self.world)
        self.time_series = TimeSeries(self.world)  # before `monitoring`, which would take it for a collection
        self.cloudbilling, self.orgpolicy = CloudBilling(self.world), OrgPolicy(self.world)
        self.monitoring = Monitoring(self.world)
        self.tpu = Tpu(self.world)
        self.products: list[Product] = [one for one in vars(self).values() if isinstance(one, Product)]
        self._server = Listener(port, self.handle)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> FakeGoogle:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def endpoints(self) -> dict[str, str]:
        """The `gcp:` settings with which any client, the gcp provider included, calls this fake."""
        return {key: f"{self.url}/{path}" for key, path in ENDPOINTS.items()}

    def settings(self) -> dict[str, str]:
        """Everything a client needs: endpoints, project, an access token."""
        return self.endpoints() | {"project": self.project, "accessToken": "fake-access-token"}

    def fault(self, method: str, path: str, **fields: Any) -> FaultRule:
        """Make the next matching requests go wrong; see `FaultRule` for the fields."""
        rule = FaultRule(method, path, **fields)
        self.rules.append(rule)
        return rule

    def refuse(self, method: str, path: str, refusal: ErrorAnswer, *, times: int = 1) -> FaultRule:
        """A fault with one of Google's own bodies, from `wire`."""
        return self.fault(method, path, status=refusal.status, body=refusal.body, times=times)

    def expire(self, token: str) -> None:
        """Answer 401 to this bearer from now on."""
        self.expired.add(fingerprint(token))

    def leftovers(self) -> list[str]:
        """Every resource and project grant still there; enabled APIs and log entries do not count."""
        with self.world.lock:
            return [name for product in self.products for name in product.leftovers()]

    def clear(self) -> None:
        """Forget requests, unknown paths and faults; keep the resources."""
        with self.world.lock:
            self.requests, self.unknown, self.rules = [], [], []

    def sent(self, method: str, path: str) -> list[Recorded]:
        """The recorded requests with this method whose path contains `path`."""
        return [one for one in self.requests if one.method == method and path in one.path]

    def serve_forever(self) -> None:
        """For a process of its own, instead of `with`."""
        self._server.serve_forever()

    def handle(self, request: Request) -> Response | None:
        """The answer to one request; None cuts the connection."""
        if request.path.startswith(control.ROOT):
            with self.world.lock:
                return _refusals_answered(lambda: control.answer(self, request))
        with self.world.lock:
            rule = next((rule for rule in self.rules if rule.matches(request.method, request.path)), None)
            response = self._answer(request, rule)
            self._record(request, response.status if response else 0)
        if rule and rule.delay_s:
            time.sleep(rule.delay_s)
        return response

    def _answer(self, request: Request, rule: FaultRule | None) -> Response | None:
        if rule is None:
            return self._dispatch(request)
        rule.used += 1
        response = self._dispatch(request) if rule.carries_out else None
        if rule.drop:
            return None
        return Response(rule.answer(), rule.status, rule.headers) if rule.status else response

    def _dispatch(self, request: Request) -> Response:
        prefix, _, rest = request.path.lstrip("/").partition("/")
        if prefix != "oauth2" and (not request.token or request.token in self.expired):
            refusal = expired_token()
            return Response(refusal.body, refusal.status)
        # `v1/…` for all but uploads (`storage/v1/…`) and the token endpoint.
        below = rest.partition("/")[2] if prefix != "oauth2" else rest
        below = below.partition("/")[2] if prefix == "upload" else below
        for product in (one for one in self.products if one.prefix == prefix):
            response = _refusals_answered(lambda product=product: product.answer(request, below))  # type: ignore[misc]
            if response is not None:
                return response
        self.unknown.append(f"{request.method} {request.path}")
        return Response(error_body(404, f"the fake knows no {request.method} {request.path}"), 404)

    def _record(self, request: Request, status: int) -> None:
        body: Any = request.body[:BODY_KEPT].decode(errors="replace")
        if request.headers.get("content-type", "").startswith("application/json") and request.body:
            body = json.loads(request.body)
        query = dict(request.query)
        payer = request.headers.get("x-goog-user-project", "")
        self.requests.append(Recorded(request.method, request.path, query, body, status, request.token, payer))


def _refusals_answered(act: Callable[[], Response | None]) -> Response | None:
    try:
        return act()
    except ErrorAnswer as refusal:
        return Response(refusal.body, refusal.status)
