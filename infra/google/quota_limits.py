"""Reads a project's quota limits from the Cloud Quotas API."""

from __future__ import annotations

from collections.abc import Mapping

from infra.errors import GoogleError
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession


def quota_limits(
    session: GoogleSession, service: str, quota: str, dimensions: Mapping[str, str] | None = None
) -> Mapping[str, int] | None:
    """Return a quota's limit by zone or region; -1 means unlimited. None where the service has no such quota.

    `dimensions` choose among the parts that a quota has beside its place, such as families of GPUs.

    Raises GoogleError when it cannot be read: that needs a role (roles/cloudquotas.viewer) that most calls do not need.
    """
    path = f"projects/{session.project}/locations/global/services/{service}/quotaInfos/{quota}"
    try:
        info = session.get(Api.CLOUD_QUOTAS, path)
    except GoogleError as error:
        if error.status == 404:
            return None
        raise
    found: dict[str, int] = {}
    for one in sorted(info.get("dimensionsInfos", ()), key=lambda one: len(one.get("dimensions", {}))):
        has = one.get("dimensions", {})
        if any(has.get(key, value) != value for key, value in (dimensions or {}).items()):
            continue
        own = has.get("zone") or has.get("region")
        # An entry for one place overrides a general one, as it comes later.
        for place in [own] if own else one.get("applicableLocations", ()):
            found[place] = int(one.get("details", {}).get("value", 0))
    return found
