"""Every check of a plan, in the order in which a reader mends what they find."""

from __future__ import annotations

import importlib

from infra.planning.plan import Plan
from infra.preflight.free_names import check_bucket_name, check_names
from infra.preflight.granted_quotas import check_networks
from infra.preflight.image_checks import image_checks
from infra.preflight.organization_checks import (
    check_account_creation,
    check_ingress,
    check_locations,
    check_members,
)
from infra.preflight.permission_checks import check_invoker, check_permissions
from infra.preflight.preflight_check import PreflightCheck
from infra.preflight.project_checks import check_apis, check_billing, check_plan, check_project
from infra.preflight.pulumi_checks import check_cli, check_docker, check_plugin
from infra.preflight.weight_checks import (
    check_adapter_sources,
    check_bucket_content,
    check_hub_login,
    check_model,
    check_token,
)

FIRST = "project"
"""The check without which nothing can be asked of Google."""


def all_checks(plan: Plan) -> list[PreflightCheck]:
    """Return the checks of a plan. Its platform names the module with those that only it needs."""
    return [
        PreflightCheck("plan", "Plan", check_plan, seconds=0, google=False),
        PreflightCheck("pulumi", "Pulumi CLI and state", check_cli, seconds=2, google=False),
        PreflightCheck("plugin", "Provider plugin", check_plugin, seconds=0, google=False),
        PreflightCheck("docker", "Docker", check_docker, seconds=0, google=False),
        PreflightCheck(FIRST, "Credentials and project", check_project, key="gcp:project"),
        PreflightCheck("billing", "Billing", check_billing, key="gcp:project"),
        PreflightCheck("apis", "APIs", check_apis),
        PreflightCheck("permissions", "Permissions", check_permissions),
        PreflightCheck("invoker", "Token for the check", check_invoker, key="access.deployers"),
        PreflightCheck("org-locations", "Organization: places", check_locations, advisory=True),
        PreflightCheck("org-ingress", "Organization: ingress", check_ingress, advisory=True),
        PreflightCheck("org-accounts", "Organization: accounts", check_account_creation, advisory=True),
        PreflightCheck("org-members", "Organization: members", check_members, advisory=True),
        *(importlib.import_module(module).platform_checks(plan) if (module := plan.platform.preflight) else ()),
        PreflightCheck("quota-networks", "Quota: networks", check_networks),
        *image_checks(plan),
        PreflightCheck("hub-login", "Docker Hub login", check_hub_login),
        PreflightCheck("model", "Model readable", check_model, seconds=1, google=False),
        PreflightCheck("token", "Hugging Face token", check_token),
        PreflightCheck("bucket-content", "Weights in the bucket", check_bucket_content, seconds=1),
        PreflightCheck("adapter-sources", "Adapters' buckets", check_adapter_sources),
        PreflightCheck("bucket-name", "Bucket name", check_bucket_name, seconds=0.6),
        PreflightCheck("names", "Other names", check_names, seconds=2),
    ]
