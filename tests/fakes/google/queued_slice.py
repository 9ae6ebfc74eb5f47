"""Asks the fake Google for a TPU slice as the program does."""

from __future__ import annotations

from collections.abc import Mapping

from infra.google.session import GoogleSession
from infra.google.tpu_types import SliceRequest, queued_resource_body
from infra.google.tpu_zone import TpuZone

ZONE = "us-east5-a"


def queue_slice(
    google: GoogleSession,
    node_id: str,
    *,
    zone: str = ZONE,
    accelerator_type: str = "v6e-4",
    labels: Mapping[str, str] | None = None,
) -> str:
    """Queue a slice, and return the full name of its queued resource."""
    parent = f"projects/{google.project}"
    region = zone.rpartition("-")[0]
    request = SliceRequest(
        project=google.project,
        zone=zone,
        node_id=node_id,
        accelerator_type=accelerator_type,
        network=f"{parent}/global/networks/n",
        subnetwork=f"{parent}/regions/{region}/subnetworks/s",
        service_account=f"sa@{google.project}.iam.gserviceaccount.com",
        valid_until_duration_s=14400,
        max_run_duration_s=86400,
        labels=labels or {"app": "gemma4", "stack": "v6e4", "slice": "blue"},
    )
    TpuZone(google, zone).create(node_id, queued_resource_body(request))
    return f"{parent}/locations/{zone}/queuedResources/{node_id}"
