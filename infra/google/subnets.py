"""Removes a subnetwork whose addresses Cloud Run may still hold."""

from __future__ import annotations

from collections.abc import Callable

from infra.errors import GoogleError
from infra.google.api_errors import is_transient
from infra.google.gcp_settings import Api
from infra.google.session import GoogleSession

IN_USE = (400, 409)
_ACCEPTED_S = 1.0
_FIRST_PAUSE_S, _PAUSE_S = 2.0, 20.0


def remove_subnetwork(
    session: GoogleSession,
    project: str,
    region: str,
    name: str,
    *,
    timeout_s: float,
    progress: Callable[[str], None] = lambda message: None,
) -> None:
    """Ask for the deletion until it is carried out. Cloud Run frees addresses an hour or two after its service is gone.

    Raises GoogleError when the subnetwork is still there after `timeout_s`, or when the deletion is forbidden.
    """
    path = f"projects/{project}/regions/{region}/subnetworks/{name}"
    began = session.clock()
    deadline = began + timeout_s
    patience_s = _FIRST_PAUSE_S
    while True:
        refusal, pause_s = "", _ACCEPTED_S
        try:
            session.delete(Api.COMPUTE, path)
        except GoogleError as error:
            if error.status == 404:
                return
            if error.status not in IN_USE and not is_transient(error):
                raise
            refusal, pause_s = str(error), patience_s
            patience_s = min(2 * patience_s, _PAUSE_S)
        if session.clock() + pause_s > deadline:
            raise GoogleError(
                f"The subnetwork {name} in {region} is still in use after {timeout_s / 60:.0f} min; it costs nothing. "
                f"Run `pulumi destroy` again later. {refusal}".rstrip(),
                reason="STILL_THERE",
            )
        if refusal:
            waited_min = (session.clock() - began) / 60
            progress(
                f"waiting {waited_min:.0f} min for Cloud Run to free the subnet's addresses, which takes one to two hours "
                f"after the service is gone; it costs nothing: {refusal}"
            )
        session.sleep(pause_s)
