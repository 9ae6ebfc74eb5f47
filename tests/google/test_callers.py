"""Who calls, as grants name it: known of a service account and of some logins, never guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.google.credentials import Credentials
from infra.google.gcp_settings import GcpSettings

LOGIN = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}


@pytest.mark.parametrize(
    ("settings", "member"),
    [
        ({"access_token": "t"}, ""),
        (
            {"access_token": "t", "impersonate": "ci@p.iam.gserviceaccount.com"},
            "serviceAccount:ci@p.iam.gserviceaccount.com",
        ),
        ({"credentials": json.dumps(LOGIN)}, ""),
        ({"credentials": json.dumps({**LOGIN, "account": "me@example.com"})}, "user:me@example.com"),
    ],
)
def test_a_caller_is_named_where_the_credentials_tell(settings: dict[str, Any], member: str) -> None:
    assert Credentials(GcpSettings(**settings)).member() == member
