"""One way to call Google: settings as the provider reads them, repetition only where it is safe, no secret shown."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from infra.errors import GoogleError
from infra.google.api_errors import is_ambiguous
from infra.google.gcp_settings import Api, GcpSettings
from infra.google.session import GoogleSession, Retry, Timeouts
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import START, FakeTime, session
from tests.fakes.google.wire import error_body, error_info, fingerprint

PROJECT = "projects/demo-project"
BUCKET = {"name": "weights"}


def service_account_key(fake: FakeGoogle, **changes: str) -> dict[str, str]:
    """A key file whose token server is the fake; the key itself is made for this test run."""
    return {
        "type": "service_account",
        "client_email": "deployer@demo-project.iam.gserviceaccount.com",
        "private_key_id": "k1",
        "private_key": _private_key(),
        "token_uri": f"{fake.url}/oauth2/token",
        "project_id": "demo-project",
    } | changes


def _private_key() -> str:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


class TestAKeyFileThatIsNotThere:
    def test_is_named_although_the_variable_is_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
        with pytest.raises(GoogleError, match=r"names /nowhere/key\.json, and there is no such file") as caught:
            GoogleSession(GcpSettings(project="p")).get(Api.TPU, "projects/p/locations")
        assert caught.value.status == 401


class Mute:
    """A host that takes connections and never answers; `calls` counts them."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"

    def calls(self) -> int:
        taken = []
        with suppress(TimeoutError):
            while True:
                taken.append(self._socket.accept()[0])
        for one in taken:
            one.close()
        return len(taken)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def mute() -> Iterator[Mute]:
    host = Mute()
    yield host
    host.close()


class TestBoundedSilence:
    """Of the command line's questions: somebody waits for them."""

    def asking(self, mute: Mute, time: FakeTime, *, attempt_s: float, silence_s: float | None) -> GoogleSession:
        """A session whose every attempt takes so many seconds of its clock."""
        gcp = GcpSettings(project="p", access_token="t", endpoints=dict.fromkeys(Api, mute.url))
        ticks = itertools.count(0, attempt_s)
        return GoogleSession(
            gcp,
            retry=Retry(attempts=4),
            timeouts=Timeouts(connect_s=1, read_s=0.02, silence_s=silence_s),
            sleep=time.sleep,
            clock=lambda: next(ticks),
        )

    def test_ends_the_attempts_when_it_has_lasted(self, mute: Mute, time: FakeTime) -> None:
        client = self.asking(mute, time, attempt_s=3, silence_s=5)
        with pytest.raises(GoogleError, match="did not answer GET p/locations"):
            client.get(Api.TPU, "projects/p/locations")
        with pytest.raises(GoogleError, match="nothing answered before"):
            client.get(Api.CLOUD_QUOTAS, "projects/p/quotas")
        assert mute.calls() == 2

    def test_ends_the_questions_to_an_api_that_has_not_answered_one(self, mute: Mute, time: FakeTime) -> None:
        client = self.asking(mute, time, attempt_s=0.1, silence_s=60)
        for _ in range(3):
            with pytest.raises(GoogleError):
                client.get(Api.TPU, "projects/p/locations")
        assert mute.calls() == 4

    def test_is_not_bounded_where_nobody_says_so(self, mute: Mute, time: FakeTime) -> None:
        client = self.asking(mute, time, attempt_s=3600, silence_s=None)
        for _ in range(2):
            with pytest.raises(GoogleError):
                client.get(Api.TPU, "projects/p/locations")
        assert mute.calls() == 8

    def test_ends_nothing_where_something_has_answered(self, fake: FakeGoogle) -> None:
        ticks = itertools.count(0, 30)
        client = GoogleSession(
            GcpSettings.read(fake.settings().get, env={}),
            timeouts=Timeouts(silence_s=5),
            retry=Retry(attempts=1),
            clock=lambda: next(ticks),
        )
        client.get(Api.RESOURCE_MANAGER, PROJECT)
        for _ in range(3):
            fake.fault("GET", "/crm/", drop="before", times=1)
            with pytest.raises(GoogleError, match="did not answer"):
                client.get(Api.RESOURCE_MANAGER, PROJECT)
            client.get(Api.RESOURCE_MANAGER, PROJECT)


class TestSettings:
    @pytest.mark.parametrize(
        ("api", "setting", "variable"),
        [
            (Api.CLOUD_RUN, "cloudRunV2CustomEndpoint", "GOOGLE_CLOUD_RUN_V2_CUSTOM_ENDPOINT"),
            (Api.TPU, "tpuV2CustomEndpoint", "GOOGLE_TPU_V2_CUSTOM_ENDPOINT"),
            (Api.IAM_CREDENTIALS, "iamCredentialsCustomEndpoint", "GOOGLE_IAM_CREDENTIALS_CUSTOM_ENDPOINT"),
        ],
    )
    def test_endpoints_are_named_as_the_provider_names_them(self, api: Api, setting: str, variable: str) -> None:
        assert (api.setting, api.variable) == (setting, variable)

    def test_every_endpoint_is_a_setting_of_the_provider(self) -> None:
        package = find_spec("pulumi_gcp")  # read, not imported: that takes seconds
        assert package is not None
        assert package.origin is not None
        provider = (Path(package.origin).parent / "provider.py").read_text()
        unknown = [api for api in Api if f"{api.variable.removeprefix('GOOGLE_').lower()}: " not in provider]
        assert unknown == []

    @pytest.mark.parametrize(
        ("endpoint", "asked"),
        [
            ("https://tpu-psc.p.googleapis.com/v2/", "https://tpu-psc.p.googleapis.com/v2alpha1/x"),
            ("https://tpu-psc.p.googleapis.com/v2alpha1", "https://tpu-psc.p.googleapis.com/v2alpha1/x"),
            ("http://127.0.0.1:9/tpu/", "http://127.0.0.1:9/tpu/x"),
        ],
    )
    def test_an_endpoint_with_the_provider_s_version_gets_the_version_of_the_clients(
        self, endpoint: str, asked: str
    ) -> None:
        assert GcpSettings.read({"tpuV2CustomEndpoint": endpoint}.get, {}).url(Api.TPU, "x") == asked

    def test_a_setting_beats_the_environment_and_the_environment_beats_the_default(self) -> None:
        env = {"GOOGLE_TPU_V2_CUSTOM_ENDPOINT": "http://env/tpu/", "GOOGLE_STORAGE_CUSTOM_ENDPOINT": "http://env/s/"}
        gcp = GcpSettings.read({"tpuV2CustomEndpoint": "http://set/tpu/"}.get, env)
        assert gcp.url(Api.TPU, "x") == "http://set/tpu/x"
        assert gcp.url(Api.STORAGE, "b/x") == "http://env/s/b/x"
        assert gcp.url(Api.CLOUD_RUN, "x") == "https://run.googleapis.com/v2/x"

    @pytest.mark.parametrize(
        ("variable", "field"),
        [
            ("GOOGLE_OAUTH_ACCESS_TOKEN", "access_token"),
            ("GOOGLE_CREDENTIALS", "credentials"),
            ("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "impersonate"),
            ("GOOGLE_CLOUD_PROJECT", "project"),
        ],
    )
    def test_the_provider_s_variables_count(self, variable: str, field: str) -> None:
        assert getattr(GcpSettings.read(dict[str, str]().get, {variable: "value"}), field) == "value"

    def test_no_secret_shows_in_a_representation(self) -> None:
        gcp = GcpSettings.read({"accessToken": "ya29.secret", "credentials": "key-secret"}.get, {})
        assert "secret" not in repr(gcp)

    def test_a_missing_project_is_one_sentence_with_the_command(self) -> None:
        with pytest.raises(GoogleError, match="pulumi config set gcp:project"):
            _ = GoogleSession(GcpSettings()).project

    def test_importing_the_clients_loads_no_http_library(self) -> None:
        code = "import sys, infra.google.tpu_zone, infra.google.cloud_run, infra.google.identity_tokens, infra.google.logs\n"
        code += "sys.exit(bool({'requests', 'google.auth', 'urllib3'} & set(sys.modules)))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestRepetition:
    @pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
    def test_a_read_outlasts_a_storm(self, fake: FakeGoogle, time: FakeTime, status: int) -> None:
        fake.fault("GET", "/crm/", times=4, status=status)
        assert session(fake, time).get(Api.RESOURCE_MANAGER, PROJECT)["projectId"] == "demo-project"
        assert len(time.pauses) == 4

    def test_pauses_double_up_to_a_cap(self) -> None:
        retry = Retry(first_s=1, cap_s=10)
        assert [retry.pause_s(attempt, None, chance=0.0) for attempt in range(1, 6)] == [1, 2, 4, 8, 10]
        assert retry.pause_s(3, None, chance=0.999) > 2
        assert (retry.pause_s(1, 7.0, 0.5), retry.pause_s(1, 9999.0, 0.5)) == (7.0, retry.retry_after_cap_s)

    @pytest.mark.parametrize("header", ["7", formatdate(START + 7, usegmt=True)])
    def test_the_server_s_own_pause_is_kept(self, fake: FakeGoogle, time: FakeTime, header: str) -> None:
        fake.fault("GET", "/crm/", status=503, headers={"Retry-After": header})
        session(fake, time).get(Api.RESOURCE_MANAGER, PROJECT)
        assert time.pauses == [pytest.approx(7)]

    def test_it_gives_up_in_the_end(self, fake: FakeGoogle, time: FakeTime) -> None:
        fake.fault("GET", "/crm/", times=99, status=503)
        with pytest.raises(GoogleError, match=r"cloudresourcemanager.*HTTP 503") as caught:
            session(fake, time, retry=Retry(attempts=3)).get(Api.RESOURCE_MANAGER, PROJECT)
        assert (caught.value.status, len(fake.requests)) == (503, 3)

    @pytest.mark.parametrize("method", ["GET", "DELETE"])
    def test_a_broken_connection_is_tried_again(self, fake: FakeGoogle, time: FakeTime, method: str) -> None:
        fake.storage.put_text("weights", "a", "x")
        fake.fault(method, "/o/a", drop="before")
        client = session(fake, time)
        (client.get if method == "GET" else client.delete)(Api.STORAGE, "b/weights/o/a")
        assert len(time.pauses) == 1

    @pytest.mark.parametrize("fault", [{"status": 503}, {"drop": "after"}, {"status": 500, "processed": True}])
    def test_a_post_without_a_request_id_is_sent_once(self, fake: FakeGoogle, fault: dict[str, Any]) -> None:
        fake.fault("POST", "/b", **fault)
        with pytest.raises(GoogleError):
            session(fake).post(Api.STORAGE, "b", BUCKET)
        assert len(fake.requests) == 1

    def test_a_post_with_a_request_id_is_repeated_with_the_same_one(self, fake: FakeGoogle) -> None:
        fake.fault("POST", "/secrets", times=2, status=503)
        session(fake).post(Api.SECRET_MANAGER, f"{PROJECT}/secrets", {}, request_id="r1", secretId="s")
        assert [one.query["requestId"] for one in fake.requests] == ["r1"] * 3

    def test_a_patch_is_sent_once(self, fake: FakeGoogle) -> None:
        fake.storage.put_text("weights", "a", "x")
        fake.fault("PATCH", "/b/weights", status=503)
        with pytest.raises(GoogleError):
            session(fake).patch(Api.STORAGE, "b/weights", {})
        assert len(fake.requests) == 1

    def test_a_used_up_quota_is_not_asked_again(self, fake: FakeGoogle, time: FakeTime) -> None:
        fake.fault("GET", "/crm/", status=429, message="Quota limit 'X' has been exceeded. Limit: 0 in region r.")
        with pytest.raises(GoogleError) as caught:
            session(fake, time).get(Api.RESOURCE_MANAGER, PROJECT)
        assert (caught.value.reason, time.pauses) == ("QUOTA_EXCEEDED", [])

    def test_what_was_never_sent_is_tried_again_and_says_so(self, time: FakeTime) -> None:
        gcp = GcpSettings(project="p", access_token="t", endpoints={Api.TPU: "http://127.0.0.1:9/tpu/"})
        client = GoogleSession(gcp, retry=Retry(attempts=2), sleep=time.sleep)
        with pytest.raises(GoogleError, match=r"POST p/nodes was not sent to tpu\.googleapis\.com") as caught:
            client.post(Api.TPU, "projects/p/nodes", {})
        assert (caught.value.status, caught.value.reason, is_ambiguous(caught.value)) == (0, "NOT_SENT", False)
        assert len(time.pauses) == 1

    def test_a_lost_answer_to_a_question_leaves_nothing_in_doubt(self, fake: FakeGoogle) -> None:
        fake.fault("GET", "/crm/", drop="after")
        with pytest.raises(
            GoogleError, match="so nothing is known; check the network and run the command again"
        ) as caught:
            session(fake, retry=Retry(attempts=1)).get(Api.RESOURCE_MANAGER, PROJECT)
        assert "may have been done" not in str(caught.value)

    @pytest.mark.parametrize(
        ("variables", "said", "pauses"),
        [
            ({"HTTPS_PROXY": "http://me:pw@127.0.0.1:9"}, "(no way through the proxy of HTTPS_PROXY)", 1),
            ({"HTTPS_PROXY": "foo bar pw"}, "because what HTTPS_PROXY holds is not an address", 0),
        ],
    )
    def test_a_proxy_that_does_not_serve_is_named_and_never_shown(
        self, monkeypatch: pytest.MonkeyPatch, time: FakeTime, variables: dict[str, str], said: str, pauses: int
    ) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        gcp = GcpSettings(project="p", access_token="t", endpoints={Api.TPU: "https://tpu.invalid/v2alpha1/"})
        with pytest.raises(GoogleError) as caught:
            GoogleSession(gcp, retry=Retry(attempts=2), sleep=time.sleep).get(Api.TPU, "projects/p/locations")
        assert said in str(caught.value)
        assert "pw" not in str(caught.value)
        assert not is_ambiguous(caught.value)
        assert len(time.pauses) == pauses

    def test_a_lost_answer_says_that_nobody_knows(self, fake: FakeGoogle) -> None:
        fake.fault("POST", "/b", drop="after")
        with pytest.raises(GoogleError, match="may or may not have been done") as caught:
            session(fake).post(Api.STORAGE, "b", BUCKET)
        assert is_ambiguous(caught.value)

    def test_an_answer_that_is_not_json_is_one_sentence(self, fake: FakeGoogle) -> None:
        fake.fault("GET", "/crm/", status=200, body=b"<html>proxy</html>")
        with pytest.raises(GoogleError, match="not a JSON object"):
            session(fake).get(Api.RESOURCE_MANAGER, PROJECT)


class TestCredentials:
    def test_an_expired_access_token_says_what_to_run(self, fake: FakeGoogle) -> None:
        fake.expire("fake-access-token")
        with pytest.raises(GoogleError, match="gcloud auth application-default login") as caught:
            session(fake).get(Api.RESOURCE_MANAGER, PROJECT)
        assert caught.value.status == 401
        assert len(fake.requests) == 1
        assert "fake-access-token" not in str(caught.value)

    @pytest.mark.parametrize("as_path", [False, True])
    def test_a_key_works_as_json_and_as_a_path(self, fake: FakeGoogle, tmp_path: Path, as_path: bool) -> None:
        text = json.dumps(service_account_key(fake))
        (tmp_path / "key.json").write_text(text)
        given = str(tmp_path / "key.json") if as_path else text
        session(fake, accessToken=None, credentials=given).get(Api.RESOURCE_MANAGER, PROJECT)
        assert [one.path for one in fake.requests] == ["/oauth2/token", f"/crm/v1/{PROJECT}"]

    def test_a_token_refused_in_the_middle_is_renewed_once(self, fake: FakeGoogle) -> None:
        client = session(fake, accessToken=None, credentials=json.dumps(service_account_key(fake)))
        client.get(Api.RESOURCE_MANAGER, PROJECT)
        first = fake.requests[-1].token
        fake.expired.add(first)
        client.get(Api.RESOURCE_MANAGER, PROJECT)
        assert fake.requests[-1].token not in ("", first)

    def test_an_api_that_takes_no_token_is_not_asked_forever(self, fake: FakeGoogle) -> None:
        fake.fault("GET", "/crm/", times=99, status=401)
        client = session(fake, accessToken=None, credentials=json.dumps(service_account_key(fake)))
        with pytest.raises(GoogleError, match="no longer accepts these credentials"):
            client.get(Api.RESOURCE_MANAGER, PROJECT)
        assert len(fake.sent("GET", "/crm/")) == 2

    def test_a_revoked_key_says_what_to_run(self, fake: FakeGoogle) -> None:
        fake.oauth.revoke()
        client = session(fake, accessToken=None, credentials=json.dumps(service_account_key(fake)))
        with pytest.raises(GoogleError, match=r"invalid_grant.*gcloud auth application-default login"):
            client.get(Api.RESOURCE_MANAGER, PROJECT)

    def test_an_impersonated_account_makes_the_calls(self, fake: FakeGoogle) -> None:
        session(fake, impersonateServiceAccount="deployer@x").get(Api.RESOURCE_MANAGER, PROJECT)
        asked, done = fake.requests
        assert asked.path.endswith("/deployer@x:generateAccessToken")
        assert asked.token == fingerprint("fake-access-token") != done.token

    def test_a_refused_impersonation_names_the_role(self, fake: FakeGoogle) -> None:
        fake.iamcredentials.refuse("deployer@x")
        with pytest.raises(GoogleError, match=r"acting as deployer@x.*roles/iam\.serviceAccountTokenCreator"):
            session(fake, impersonateServiceAccount="deployer@x").get(Api.RESOURCE_MANAGER, PROJECT)

    def test_a_silent_token_server_stops_even_a_post_before_it_is_sent(self, fake: FakeGoogle, time: FakeTime) -> None:
        key = json.dumps(service_account_key(fake, token_uri="http://127.0.0.1:9/token"))
        client = session(fake, time, retry=Retry(attempts=2), accessToken=None, credentials=key)
        with pytest.raises(GoogleError, match="no access token could be made") as caught:
            client.post(Api.STORAGE, "b", BUCKET)
        assert (caught.value.reason, len(time.pauses), fake.requests) == ("NOT_SENT", 1, [])

    @pytest.mark.parametrize("given", ["/no/such/key.json", "{not json"])
    def test_an_unreadable_key_is_one_sentence_without_its_content(self, fake: FakeGoogle, given: str) -> None:
        with pytest.raises(GoogleError, match="gcp:credentials"):
            session(fake, accessToken=None, credentials=given).get(Api.RESOURCE_MANAGER, PROJECT)

    def test_no_credentials_at_all_say_what_to_run(self, fake: FakeGoogle, monkeypatch: pytest.MonkeyPatch) -> None:
        from google.auth import exceptions

        def nothing(**_: Any) -> None:
            raise exceptions.DefaultCredentialsError("none")  # type: ignore[no-untyped-call]

        monkeypatch.setattr("google.auth.default", nothing)
        with pytest.raises(GoogleError, match="gcloud auth application-default login"):
            session(fake, accessToken=None).get(Api.RESOURCE_MANAGER, PROJECT)

    @pytest.mark.parametrize(
        ("settings", "payer"),
        [
            ({}, ""),
            ({"billingProject": "payer"}, ""),
            ({"userProjectOverride": "true"}, "demo-project"),
            ({"userProjectOverride": "True", "billingProject": "payer"}, "payer"),
            ({"userProjectOverride": "false", "billingProject": "payer"}, ""),
        ],
    )
    def test_the_project_that_pays_for_calls_is_the_provider_s(
        self, fake: FakeGoogle, settings: dict[str, Any], payer: str
    ) -> None:
        session(fake, **settings).get(Api.RESOURCE_MANAGER, PROJECT)
        assert fake.requests[0].quota_project == payer

    def test_a_netrc_entry_does_not_replace_the_token(
        self, fake: FakeGoogle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        session(fake).get(Api.RESOURCE_MANAGER, PROJECT)
        assert fake.requests[0].token == fingerprint("fake-access-token")


class TestErrors:
    def refused(self, fake: FakeGoogle, status: int, message: str, *details: dict[str, Any]) -> GoogleError:
        fake.fault("GET", "/tpu/", status=status, body=error_body(status, message, details=details))
        with pytest.raises(GoogleError) as caught:
            session(fake, retry=Retry(attempts=1)).get(Api.TPU, f"{PROJECT}/locations/z/queuedResources/blue")
        assert "\n" not in str(caught.value)
        return caught.value

    def test_a_quota_names_itself_the_place_and_where_to_ask(self, fake: FakeGoogle) -> None:
        quota = "TPUV6EPreemptiblePerProjectPerRegionForTPUAPI"
        text = f"Quota limit '{quota}' has been exceeded. Limit: 0 in region us-east5."
        error = self.refused(fake, 429, text)
        for part in (
            quota,
            "us-east5",
            "limit 0",
            "gemma4 tpu ended",
            "https://console.cloud.google.com/iam-admin/quotas?project=demo-project&service=tpu.googleapis.com",
        ):
            assert part in str(error)
        assert error.reason == "QUOTA_EXCEEDED"

    def test_a_cloud_run_gpu_quota_is_one_too(self, fake: FakeGoogle) -> None:
        text = "Max instances must be set to 1 or fewer. Quota violated: NvidiaL4Gpu requested: 3 allowed: 1"
        error = self.refused(fake, 400, text)
        assert (error.reason, "NvidiaL4Gpu" in str(error)) == ("QUOTA_EXCEEDED", True)

    @pytest.mark.parametrize(
        ("limit", "reason"), [("TPU v6e chips", "QUOTA_EXCEEDED"), ("Queries per minute", "RATE_LIMITED")]
    )
    def test_a_rate_is_no_quota_although_google_says_so(self, fake: FakeGoogle, limit: str, reason: str) -> None:
        text = f"Quota exceeded for quota metric 'Queries' and limit '{limit}' of service 'tpu.googleapis.com'"
        assert self.refused(fake, 429, text).reason == reason

    @pytest.mark.parametrize(
        ("message", "permission", "role"),
        [
            (
                "Permission 'tpu.queuedresources.get' denied on 'projects/x'.",
                "tpu.queuedresources.get",
                "roles/tpu.admin",
            ),
            (
                "The caller does not have permission iam.serviceaccounts.actAs on x.",
                "iam.serviceaccounts.actAs",
                "roles/iam.serviceAccountUser",
            ),
            (
                "Required 'compute.subnetworks.delete' permission for 'projects/x'",
                "compute.subnetworks.delete",
                "roles/compute.networkAdmin",
            ),
        ],
    )
    def test_a_missing_permission_names_itself_and_a_role(
        self, fake: FakeGoogle, message: str, permission: str, role: str
    ) -> None:
        error = self.refused(fake, 403, message)
        assert f"lacks the permission {permission}; grant {role}." in str(error)

    def test_a_disabled_api_says_which_and_how_to_enable_it(self, fake: FakeGoogle) -> None:
        info = error_info("SERVICE_DISABLED", service="tpu.googleapis.com")
        error = self.refused(fake, 403, "It is disabled.", info)
        assert "gcloud services enable tpu.googleapis.com --project demo-project" in str(error)

    def test_a_project_without_billing_is_told_apart(self, fake: FakeGoogle) -> None:
        error = self.refused(fake, 403, "This API method requires billing.", error_info("BILLING_DISABLED"))
        assert "billing/linkedaccount?project=demo-project" in str(error)

    @pytest.mark.parametrize("body", [b"", b"<html>", [], {"error": "text"}, {"error": {"details": ["x"]}}])
    def test_any_body_makes_a_sentence(self, fake: FakeGoogle, body: Any) -> None:
        fake.fault("GET", "/crm/", status=418, body=body)
        with pytest.raises(GoogleError, match="HTTP 418"):
            session(fake).get(Api.RESOURCE_MANAGER, PROJECT)


def test_all_pages_are_read(fake: FakeGoogle) -> None:
    for name in ("a", "b", "c"):
        fake.storage.put_text("weights", name, "x")
    pages = session(fake).pages(Api.STORAGE, "b/weights/o", pageSize="2")
    assert [item["name"] for page in pages for item in page["items"]] == ["a", "b", "c"]
    assert len(fake.requests) == 2
