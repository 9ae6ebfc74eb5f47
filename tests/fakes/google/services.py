"""Which APIs a project has switched on, and how much of each it may use."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.fakes.google.product import Product, page, route
from tests.fakes.google.wire import Request, not_found
from tests.fakes.google.world import PROJECT_NUMBER, World


class ServiceUsage(Product):
    """`/serviceusage/v1`. Enabled APIs stay when a stack goes, so they never count as left over."""

    prefix: ClassVar[str] = "serviceusage"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.enabled: set[str] = set()

    @route("GET", "projects/{project}/services")
    def index(self, request: Request, project: str) -> Any:
        services = [self._record(service) for service in sorted(self.enabled)]
        return page(services, request, "services")

    @route("GET", "projects/{project}/services/{service}")
    def get(self, request: Request, project: str, service: str) -> Any:
        return self._record(service)

    @route("POST", "projects/{project}/services:batchEnable")
    def enable_all(self, request: Request, project: str) -> Any:
        services = request.json().get("serviceIds", [])
        self.enabled |= set(services)
        return self._done({"services": [self._record(service) for service in services]})

    @route("POST", "projects/{project}/services/{service}:enable")
    def enable(self, request: Request, project: str, service: str) -> Any:
        self.enabled.add(service)
        return self._done({"service": self._record(service)})

    @route("POST", "projects/{project}/services/{service}:disable")
    def disable(self, request: Request, project: str, service: str) -> Any:
        self.enabled.discard(service)
        return self._done({"service": self._record(service)})

    @route("POST", "projects/{project}/services/{service}:generateServiceIdentity")
    def service_identity(self, request: Request, project: str, service: str) -> Any:
        agent = f"service-{PROJECT_NUMBER}@gcp-sa-{service.partition('.')[0]}.iam.gserviceaccount.com"
        return self._done({"email": agent, "uniqueId": f"1{self.world.serial():020d}"})

    @route("GET", "operations/{operation}")
    def flat_operation(self, request: Request, operation: str) -> Any:
        return self.world.poll(f"operations/{operation}")

    def leftovers(self) -> list[str]:
        return []

    def _record(self, service: str) -> dict[str, Any]:
        return {
            "name": f"projects/{PROJECT_NUMBER}/services/{service}",
            "parent": f"projects/{PROJECT_NUMBER}",
            "config": {"name": service},
            "state": "ENABLED" if service in self.enabled else "DISABLED",
        }

    def _done(self, response: dict[str, Any]) -> dict[str, Any]:
        return self.world.start(f"operations/op-{self.world.serial()}", response=response)


class CloudBilling(Product):
    """`/cloudbilling/v1`: whether a project is paid for; `account` is empty where nobody pays."""

    prefix: ClassVar[str] = "cloudbilling"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.account = "billingAccounts/000000-000000-000000"

    @route("GET", "projects/{project}/billingInfo")
    def info(self, request: Request, project: str) -> Any:
        paid = {"billingAccountName": self.account, "billingEnabled": True} if self.account else {}
        return {"name": f"projects/{project}/billingInfo", "projectId": project, **paid}


class OrgPolicy(Product):
    """`/orgpolicy/v2`: the rules that count for a project, by constraint; one without rules allows everything."""

    prefix: ClassVar[str] = "orgpolicy"
    controls: ClassVar[tuple[str, ...]] = (*Product.controls, "restrict")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.rules: dict[str, list[dict[str, Any]]] = {}

    def restrict(self, constraint: str, **rule: Any) -> None:
        """`enforce=True`, `denyAll=True` or `values={"allowedValues": […]}`."""
        self.rules[constraint] = [rule]

    @route("GET", "projects/{project}/policies/{constraint}:getEffectivePolicy")
    def effective(self, request: Request, project: str, constraint: str) -> Any:
        rules = self.rules.get(constraint, [{"allowAll": True}])
        return {"name": f"projects/{PROJECT_NUMBER}/policies/{constraint}", "spec": {"rules": rules}}


class CloudQuotas(Product):
    """`/cloudquotas/v1`: quota values set with `set_quota`, by quota id and place (a region or a zone)."""

    prefix: ClassVar[str] = "cloudquotas"
    controls: ClassVar[tuple[str, ...]] = (
        *Product.controls,
        "set_quota",
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.values: dict[tuple[str, str], dict[str, int]] = {}

    def set_quota(self, service: str, quota: str, place: str, value: int) -> None:
        self.values.setdefault((service, quota), {})[place] = value

    @route("GET", "projects/{project}/locations/global/services/{service}/quotaInfos")
    def index(self, request: Request, project: str, service: str) -> Any:
        quotas = [self._info(project, service, quota) for known, quota in sorted(self.values) if known == service]
        return page(quotas, request, "quotaInfos")

    @route("GET", "projects/{project}/locations/global/services/{service}/quotaInfos/{quota}")
    def get(self, request: Request, project: str, service: str, quota: str) -> Any:
        if (service, quota) not in self.values:
            raise not_found(quota)
        return self._info(project, service, quota)

    def _info(self, project: str, service: str, quota: str) -> dict[str, Any]:
        places = self.values[service, quota]
        dimension = "zone" if "PerZone" in quota else "region"
        return {
            "name": f"projects/{project}/locations/global/services/{service}/quotaInfos/{quota}",
            "quotaId": quota,
            "service": service,
            "dimensions": [dimension],
            "dimensionsInfos": [
                {"dimensions": {dimension: place}, "details": {"value": str(value)}, "applicableLocations": [place]}
                for place, value in sorted(places.items())
            ],
        }
