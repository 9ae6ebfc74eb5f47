"""The gcp provider's settings, read by this program's own clients as well: where Google's APIs are, and who calls them.

A dynamic provider looks the keys up in the stack's configuration, a command in a stack file, a test in a dictionary. A key
that is missing there comes from the environment variables that the gcp provider itself reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from infra.errors import GoogleError


class Api(Enum):
    """One product of Google Cloud: the stem of its custom-endpoint setting, and its usual address."""

    ARTIFACT_REGISTRY = ("artifactRegistry", "https://artifactregistry.googleapis.com/v1/")
    CLOUD_BILLING = ("cloudBilling", "https://cloudbilling.googleapis.com/v1/")
    CLOUD_QUOTAS = ("cloudQuotas", "https://cloudquotas.googleapis.com/v1/")
    COMPUTE = ("compute", "https://compute.googleapis.com/compute/v1/")
    CLOUD_RUN = ("cloudRunV2", "https://run.googleapis.com/v2/")
    DNS = ("dns", "https://dns.googleapis.com/dns/v1/")
    IAM = ("iamBeta", "https://iam.googleapis.com/v1/")
    IAM_CREDENTIALS = ("iamCredentials", "https://iamcredentials.googleapis.com/v1/")
    LOGGING = ("logging", "https://logging.googleapis.com/v2/")
    MONITORING = ("monitoring", "https://monitoring.googleapis.com/")
    ORG_POLICY = ("orgPolicy", "https://orgpolicy.googleapis.com/v2/")
    RESOURCE_MANAGER = ("resourceManager", "https://cloudresourcemanager.googleapis.com/v1/")
    SECRET_MANAGER = ("secretManager", "https://secretmanager.googleapis.com/v1/")
    SERVICE_USAGE = ("serviceUsage", "https://serviceusage.googleapis.com/v1/")
    STORAGE = ("storage", "https://storage.googleapis.com/storage/v1/")
    TPU = ("tpuV2", "https://tpu.googleapis.com/v2alpha1/")

    @property
    def setting(self) -> str:
        """The gcp provider's key for a custom endpoint, without `gcp:`."""
        return f"{self.value[0]}CustomEndpoint"

    @property
    def variable(self) -> str:
        """The environment variable that holds the same."""
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.value[0])
        return f"GOOGLE_{words.upper()}_CUSTOM_ENDPOINT"

    @property
    def address(self) -> str:
        return self.value[1]

    @property
    def service(self) -> str:
        """The API's name, as `gcloud services enable` takes it."""
        return self.address.split("/")[2]


_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d+)?$")

# Settings other than endpoints, each with the environment variables that the gcp provider falls back to, in this order.
VARIABLES = {
    "billingProject": ("GOOGLE_BILLING_PROJECT",),
    "userProjectOverride": ("USER_PROJECT_OVERRIDE",),
    "accessToken": ("GOOGLE_OAUTH_ACCESS_TOKEN",),
    "credentials": ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON"),
    "impersonateServiceAccount": ("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",),
    "project": ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"),
}


@dataclass(frozen=True)
class GcpSettings:
    """`credentials` is a key file's JSON or its path. Without it and `access_token`, application default credentials are used.

    `quota_project` is charged for calls and must have the API enabled; where it is empty, the credentials decide.
    """

    project: str = ""
    access_token: str = field(default="", repr=False)
    credentials: str = field(default="", repr=False)
    impersonate: str = ""
    quota_project: str = ""
    endpoints: Mapping[Api, str] = field(default_factory=dict)

    @classmethod
    def read(cls, lookup: Callable[[str], str | None], env: Mapping[str, str] = os.environ) -> GcpSettings:
        """Read the settings. `lookup` takes a `gcp:` key without its prefix and returns its value or None."""

        def first(key: str, variables: tuple[str, ...]) -> str:
            return lookup(key) or next((env[name] for name in variables if env.get(name)), "")

        given = {key: first(key, variables) for key, variables in VARIABLES.items()}
        overridden = given["userProjectOverride"].lower() in ("true", "1", "t")  # as the provider reads a boolean
        endpoints = {api: first(api.setting, (api.variable,)) for api in Api}
        return cls(
            project=given["project"],
            access_token=given["accessToken"],
            credentials=given["credentials"],
            impersonate=given["impersonateServiceAccount"],
            quota_project=(given["billingProject"] or given["project"]) if overridden else "",
            endpoints={api: endpoint for api, endpoint in endpoints.items() if endpoint},
        )

    def url(self, api: Api, path: str) -> str:
        """Return the address of `path`. A custom endpoint of another API version gets the version that these clients use."""
        base = (self.endpoints.get(api) or api.address).rstrip("/")
        if own := _VERSION.search(api.address.rstrip("/")):
            base = _VERSION.sub(own.group(), base)
        return f"{base}/{path}"

    def required_project(self) -> str:
        """Return the project. Raises GoogleError where none is set."""
        if not self.project:
            raise GoogleError(
                "No Google Cloud project is set, so nothing can be asked of Google; "
                "say which one: `pulumi config set gcp:project PROJECT` or GOOGLE_CLOUD_PROJECT.",
                reason="NO_PROJECT",
            )
        return self.project
