"""Google's own sentences, as they were seen: each is read as the kind of no that it is, wherever it arrives."""

from __future__ import annotations

from typing import Any

import pytest

from infra.errors import GoogleError
from infra.google.api_errors import ApiCall, error_from_answer, error_from_operation, is_transient
from infra.google.refusals import RefusalKind, refusal_of

QUOTA = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
VIOLATION = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"subject": "project:1", "description": f"Quota '{QUOTA}' exhausted. Limit 4 in zone us-east5-a"}],
}
POLICY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "LOCATION_POLICY_VIOLATED"}
ASKED = ApiCall("POST queuedResources", "tpu.googleapis.com", "my-project")

SEEN: list[tuple[RefusalKind, dict[str, Any]]] = [
    (RefusalKind.QUOTA, {"message": f"Quota limit '{QUOTA}' has been exceeded. Limit: 4 in zone us-east5-a."}),
    (RefusalKind.QUOTA, {"message": f"Quota '{QUOTA}' exhausted. Limit 4 in zone us-east5-a"}),
    (RefusalKind.QUOTA, {"message": "Resource has been exhausted (e.g. check quota).", "details": [VIOLATION]}),
    (
        RefusalKind.UNSUPPORTED,
        {"message": 'Cloud TPU received a bad request. The requested zone "us-x1-a" is not supported.'},
    ),
    (
        RefusalKind.UNSUPPORTED,
        {
            "message": "Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "
            '"v6e-4", could not be found in the zonal accelerator configurations for "asia-east1-a".; the accelerator '
            "v6e-4 was not found in zone asia-east1-a [EID: 0xadaada1e50943af6]"
        },
    ),
    (
        RefusalKind.UNSUPPORTED,
        {
            "message": 'FLEX_START provisioning model is not supported for accelerator type "v6e-4" in location '
            '"asia-east1-c"'
        },
    ),
    (
        RefusalKind.UNSUPPORTED,
        {"message": "Permission denied on 'locations/us-central2-b' (or it may not exist).", "details": [POLICY]},
    ),
    (
        RefusalKind.CAPACITY,
        {"message": 'There is no more capacity in the zone "europe-west4-a"; you can try in another zone'},
    ),
    (RefusalKind.OTHER, {"message": "an internal error has occurred"}),
    (RefusalKind.OTHER, {"message": "STANDARD provisioning model is incompatible with spot requests"}),
    (RefusalKind.OTHER, {}),
]


@pytest.mark.parametrize(("kind", "error"), SEEN)
class TestASentence:
    def test_it_is_read_as_its_kind(self, kind: RefusalKind, error: dict[str, Any]) -> None:
        cause = refusal_of(error)
        assert (cause.kind, cause.message) == (kind, error.get("message", ""))

    @pytest.mark.parametrize("status", [400, 403, 429])
    def test_the_same_kind_comes_out_of_an_answer_and_of_an_operation(
        self, kind: RefusalKind, error: dict[str, Any], status: int
    ) -> None:
        answered, ended = (
            error_from_answer(status, {"error": error}, ASKED),
            error_from_operation({"code": 3, **error}, ASKED),
        )
        assert ended.reason == (kind.value or "FAILED")
        if kind is not RefusalKind.OTHER:
            assert (answered.reason, str(answered)) == (kind.value, str(ended))
            assert not is_transient(answered)
            assert not is_transient(ended)


def said(error: dict[str, Any]) -> str:
    refusal: GoogleError = error_from_answer(429, {"error": error}, ASKED)
    return str(refusal)


@pytest.mark.parametrize("error", [error for kind, error in SEEN if kind is RefusalKind.QUOTA])
def test_a_quota_is_named_with_its_limit_and_place(error: dict[str, Any]) -> None:
    assert f"The quota {QUOTA} of project my-project is used up in us-east5-a (limit 4)" in said(error)


def test_a_rate_is_not_a_quota() -> None:
    limited = error_from_answer(429, {"error": {"message": "Too many requests"}}, ASKED)
    assert (limited.reason, is_transient(limited)) == ("RATE_LIMITED", True)


@pytest.mark.parametrize("details", [None, "x", [None], [{"violations": None}], [{"violations": ["x"]}]])
def test_details_of_another_shape_are_passed_over(details: Any) -> None:
    assert refusal_of({"message": "m", "details": details}).kind is RefusalKind.OTHER
