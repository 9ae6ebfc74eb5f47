"""Attributes that Google's own programs on a machine read, of Compute Engine or of a TPU slice. Taken at its creation."""

from __future__ import annotations

from collections.abc import Mapping

AT_CREATION: Mapping[str, str] = {
    "enable-guest-attributes": "TRUE",  # where the supervisor's report stands
    # ssh asks IAM, whatever keys the project has. gcloud looks for it on a TPU node as well, before it logs in there.
    "enable-oslogin": "TRUE",
}
