"""The fake Google is itself held to what real Google does: a fake that is too kind hides faults."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.fakes.google import FakeGoogle, RemoteFake
from tests.fakes.google.jobs import Outcome
from tests.fakes.google.tpu import LATE_LOOKS

P = "projects/demo-project"
L = f"{P}/locations/us-east4"
ZONE = f"{P}/locations/us-east5-a"
SERVICE: dict[str, Any] = {"template": {"containers": [{"image": "img"}]}}


@pytest.fixture
def fake() -> Iterator[FakeGoogle]:
    with FakeGoogle() as running:
        yield running


def call(fake: FakeGoogle, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
    headers = {"Authorization": "Bearer secret-token"} | options.pop("headers", {})
    return requests.request(method, f"{fake.url}/{path}", json=body, headers=headers, timeout=5, **options)


def created(fake: FakeGoogle, path: str, body: Any, **options: Any) -> dict[str, Any]:
    response = call(fake, "POST", path, body, **options)
    assert response.ok, response.text
    answer: dict[str, Any] = response.json()
    return answer


def queued(node: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    spec = {"acceleratorType": "v6e-4", "runtimeVersion": "v2-alpha-tpuv6e"} | (node or {})
    return {
        "tpu": {"nodeSpec": [{"parent": ZONE, "nodeId": "node", "node": spec}]},
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "86400s"},
    } | fields


def submit(fake: FakeGoogle, name: str = "blue", body: Any = None, request_id: str = "") -> requests.Response:
    params = {"queuedResourceId": name} | ({"requestId": request_id} if request_id else {})
    return call(fake, "POST", f"tpu/v2alpha1/{ZONE}/queuedResources", body or queued(), params=params)


def tpu_state(fake: FakeGoogle, name: str = "blue") -> str:
    response = call(fake, "GET", f"tpu/v2alpha1/{ZONE}/queuedResources/{name}")
    return str(response.json()["state"]["state"]) if response.ok else "gone"


class TestTheWire:
    def test_an_unknown_path_is_answered_404_and_remembered(self, fake: FakeGoogle) -> None:
        response = call(fake, "GET", "nonsense/v1/thing")
        assert response.status_code == 404
        assert "/nonsense/v1/thing" in response.json()["error"]["message"]
        assert fake.unknown == ["GET /nonsense/v1/thing"]

    def test_a_known_product_without_the_method_is_unknown_too(self, fake: FakeGoogle) -> None:
        call(fake, "DELETE", f"crm/v1/{P}")
        assert fake.unknown == [f"DELETE /crm/v1/{P}"]

    def test_a_request_without_or_with_an_expired_bearer_is_401(self, fake: FakeGoogle) -> None:
        fake.expire("secret-token")
        for headers in ({"Authorization": ""}, {}):
            response = call(fake, "GET", f"crm/v1/{P}", headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["status"] == "UNAUTHENTICATED"

    def test_no_record_shows_the_bearer(self, fake: FakeGoogle) -> None:
        call(fake, "GET", f"crm/v1/{P}")
        assert len(fake.requests) == 1
        assert "secret-token" not in repr(fake.requests)
        assert fake.requests[0].token

    def test_bodies_and_queries_are_recorded(self, fake: FakeGoogle) -> None:
        created(fake, f"secretmanager/v1/{P}/secrets", {"replication": {"automatic": {}}}, params={"secretId": "s"})
        record = fake.sent("POST", "/secrets")[0]
        assert (record.body, record.query) == ({"replication": {"automatic": {}}}, {"secretId": "s"})

    def test_chunked_bodies_are_read_whole(self, fake: FakeGoogle) -> None:
        created(fake, "storage/v1/b", {"name": "weights"})
        url = f"{fake.url}/upload/storage/v1/b/weights/o?uploadType=media&name=a"
        chunks = (b"x" * 1000 for _ in range(3))
        requests.post(url, data=chunks, headers={"Authorization": "Bearer t"}, timeout=5)
        assert fake.storage.contents["weights", "a"] == b"x" * 3000


class TestFaults:
    def test_a_refusal_stands_for_the_given_number_of_requests(self, fake: FakeGoogle) -> None:
        fake.fault("GET", "/crm/", times=2, status=503, headers={"Retry-After": "7"})
        answers = [call(fake, "GET", f"crm/v1/{P}") for _ in range(3)]
        assert [one.status_code for one in answers] == [503, 503, 200]
        assert answers[0].headers["Retry-After"] == "7"

    @pytest.mark.parametrize(("drop", "exists"), [("before", False), ("after", True)])
    def test_a_dropped_answer_leaves_what_the_moment_says(self, fake: FakeGoogle, drop: str, exists: bool) -> None:
        fake.fault("POST", "/storage/v1/b", drop=drop)
        with pytest.raises(requests.ConnectionError):
            call(fake, "POST", "storage/v1/b", {"name": "weights"})
        assert call(fake, "GET", "storage/v1/b/weights").ok is exists

    def test_a_processed_refusal_has_been_carried_out(self, fake: FakeGoogle) -> None:
        fake.fault("POST", "/storage/v1/b", status=503, processed=True)
        assert call(fake, "POST", "storage/v1/b", {"name": "weights"}).status_code == 503
        assert "weights" in fake.storage.resources

    def test_another_process_can_steer_and_inspect(self, fake: FakeGoogle) -> None:
        remote = RemoteFake(fake.url)
        submit(fake)
        remote.call("tpu.advance", "blue", to="ACTIVE")
        remote.fault("GET", "/crm/", status=500)
        assert call(fake, "GET", f"crm/v1/{P}").status_code == 500
        assert remote.call("tpu.state", "blue") == "ACTIVE"
        assert remote.leftovers() == fake.leftovers() != []
        assert [one["method"] for one in remote.requests()] == ["POST", "GET"]
        assert remote.endpoints() == fake.endpoints()
        assert remote.unknown() == []
        with pytest.raises(AssertionError, match="no control"):
            remote.call("tpu.create")

    def test_it_runs_as_a_process_of_its_own(self) -> None:
        command = [sys.executable, "-m", "tests.fakes.google", "--project", "other"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                remote = RemoteFake(process.stdout.readline().strip())
                remote.call("storage.put_text", "weights", "a", text="x")
                assert remote.leftovers() == ["storage/weights", "storage/weights/a"]
            finally:
                process.terminate()


class TestPolicies:
    def test_a_policy_read_before_another_change_is_refused(self, fake: FakeGoogle) -> None:
        stale = call(fake, "POST", f"crm/v1/{P}:getIamPolicy", {}).json()
        binding = {"role": "roles/viewer", "members": ["user:a@example.com"]}
        for expected in (200, 409):
            policy = {"policy": stale | {"bindings": [binding]}}
            assert call(fake, "POST", f"crm/v1/{P}:setIamPolicy", policy).status_code == expected
        assert fake.leftovers() == [f"crm/{P} roles/viewer user:a@example.com"]

    def test_a_policy_goes_with_its_resource(self, fake: FakeGoogle) -> None:
        created(fake, f"run/v2/{L}/services", SERVICE, params={"serviceId": "s"})
        grant = {"policy": {"bindings": [{"role": "roles/run.invoker", "members": ["user:a@example.com"]}]}}
        created(fake, f"run/v2/{L}/services/s:setIamPolicy", grant)
        call(fake, "DELETE", f"run/v2/{L}/services/s")
        created(fake, f"run/v2/{L}/services", SERVICE, params={"serviceId": "s"})
        assert call(fake, "GET", f"run/v2/{L}/services/s:getIamPolicy").json()["bindings"] == []

    def test_nothing_but_an_existing_resource_has_a_policy(self, fake: FakeGoogle) -> None:
        assert call(fake, "GET", f"run/v2/{L}/services/none:getIamPolicy").status_code == 404


class TestCloudRun:
    def test_a_changed_template_makes_one_revision_and_a_label_makes_none(self, fake: FakeGoogle) -> None:
        path = f"run/v2/{L}/services"
        first = created(fake, path, SERVICE, params={"serviceId": "s"})["response"]
        call(fake, "PATCH", f"{path}/s", SERVICE | {"labels": {"a": "b"}})
        same = call(fake, "GET", f"{path}/s").json()
        call(fake, "PATCH", f"{path}/s", {"template": {"containers": [{"image": "other"}]}})
        changed = call(fake, "GET", f"{path}/s").json()
        assert same["latestReadyRevision"] == first["latestReadyRevision"] != changed["latestReadyRevision"]
        assert (changed["generation"], changed["terminalCondition"]["state"]) == ("3", "CONDITION_SUCCEEDED")
        assert changed["uri"].startswith("https://s-")

    def test_a_failed_revision_leaves_the_ready_one(self, fake: FakeGoogle) -> None:
        path = f"run/v2/{L}/services"
        ready = created(fake, path, SERVICE, params={"serviceId": "s"})["response"]["latestReadyRevision"]
        fake.run.fail_next_revision("The startup probe failed.")
        done = call(fake, "PATCH", f"{path}/s", {"template": {"containers": [{"image": "bad"}]}}).json()
        assert "startup probe failed" in done["error"]["message"]
        now = call(fake, "GET", f"{path}/s").json()
        assert now["latestReadyRevision"] == ready != now["latestCreatedRevision"]
        assert now["terminalCondition"]["state"] == "CONDITION_FAILED"

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"timeout": "3601s"}, "timeout"),
            ({"containers": [{"image": "i", "startupProb": {}}]}, "startupProb"),
            ({"containers": [{"image": "i", "startupProbe": {"periodSeconds": 10, "failureThreshold": 61}}]}, "600"),
            ({"containers": [{"image": "i", "startupProbe": {"periodSeconds": 241}}]}, "240"),
            ({"containers": [{"image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}, "accelerator"),
            ({"containers": [{"image": "i", "env": [{"name": "A"}, {"name": "A"}]}]}, "twice"),
            (
                {"volumes": [{"name": "v"}], "containers": [{"image": "i", "volumeMounts": [{"name": "v"}]}]},
                "mountPath",
            ),
            (
                {"volumes": [{"name": "v", "gcs": {"bucket": "b", "mountOptions": ["uid=1;gid=1"]}}]},
                "one flag",
            ),
        ],
    )
    def test_what_the_documentation_forbids_is_refused(self, fake: FakeGoogle, change: Any, why: str) -> None:
        for container in change.get("containers", []):
            for mount in container.get("volumeMounts", []):
                mount["mountPath"] = "/dev/shm"
        body = {"template": SERVICE["template"] | change}
        response = call(fake, "POST", f"run/v2/{L}/services", body, params={"serviceId": "s"})
        assert response.status_code == 400
        assert why in response.text
        assert fake.leftovers() == []

    @pytest.mark.parametrize(
        ("accelerator", "cpu", "memory", "ok"),
        [
            ("nvidia-l4", "8", "32Gi", True),
            ("nvidia-l4", "2", "32Gi", False),
            ("nvidia-rtx-pro-6000", "20", "80Gi", True),
            ("nvidia-rtx-pro-6000", "8", "80Gi", False),
            ("nvidia-t4", "8", "32Gi", False),
        ],
    )
    def test_a_gpu_has_bounds(self, fake: FakeGoogle, accelerator: str, cpu: str, memory: str, ok: bool) -> None:
        limits = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": "1"}
        probe = {"periodSeconds": 10, "failureThreshold": 180}
        container = {"image": "i", "resources": {"limits": limits}, "startupProbe": probe}
        body = {"template": {"containers": [container], "nodeSelector": {"accelerator": accelerator}}}
        response = call(fake, "POST", f"run/v2/{L}/services", body, params={"serviceId": "s"})
        assert response.ok is ok, response.text

    def test_an_execution_ends_as_told_after_as_many_looks(self, fake: FakeGoogle) -> None:
        job = {"template": {"template": {"containers": [{"image": "img"}]}}}
        created(fake, f"run/v2/{L}/jobs", job, params={"jobId": "stage"})
        fake.run.set_outcome("stage", succeeds=False, polls=2, message="exit 1", log=["copying", "no space"])
        name = created(fake, f"run/v2/{L}/jobs/stage:run", {})["metadata"]["name"]
        states = [call(fake, "GET", f"run/v2/{name}").json()["conditions"][0] for _ in range(2)]
        assert [one["state"] for one in states] == ["CONDITION_RECONCILING", "CONDITION_FAILED"]
        assert states[-1]["message"] == "exit 1"
        assert [entry["textPayload"] for entry in fake.logging.entries] == ["copying", "no space"]

    def test_an_executor_may_call_the_fake_itself(self, fake: FakeGoogle) -> None:
        job = {"template": {"template": {"containers": [{"image": "img"}]}}}
        created(fake, f"run/v2/{L}/jobs", job, params={"jobId": "stage"})
        ran = threading.Event()

        def work(record: dict[str, Any], overrides: dict[str, Any]) -> Outcome:
            assert call(fake, "GET", f"run/v2/{L}/jobs/stage").json()["name"] == record["name"]
            ran.set()
            return Outcome(message=overrides["timeout"], polls=0)

        fake.run.executor = work
        created(fake, f"run/v2/{L}/jobs/stage:run", {"overrides": {"timeout": "60s"}})
        assert ran.wait(5)


class TestStorage:
    def put(self, fake: FakeGoogle, url: str, body: bytes, **headers: str) -> requests.Response:
        given = {"Authorization": "Bearer t"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.put(url, data=body, headers=given, timeout=5)

    def test_a_multipart_upload_keeps_the_bytes(self, fake: FakeGoogle) -> None:
        created(fake, "storage/v1/b", {"name": "weights"})
        content = b"\r\n--almost\x00\xff\n"
        parts = b'--XX\r\nContent-Type: application/json\r\n\r\n{"name":"a/b.py"}\r\n--XX\r\nContent-Type: text/plain'
        answer = requests.post(
            f"{fake.url}/upload/storage/v1/b/weights/o?uploadType=multipart",
            data=parts + b"\r\n\r\n" + content + b"\r\n--XX--\r\n",
            headers={"Authorization": "Bearer t", "Content-Type": "multipart/related; boundary=XX"},
            timeout=5,
        ).json()
        assert len(base64.b64decode(answer["md5Hash"])) == 16
        got = call(fake, "GET", "storage/v1/b/weights/o/a%2Fb.py", params={"alt": "media"})
        assert got.content == content

    def test_a_resumable_upload_appears_only_when_it_is_whole(self, fake: FakeGoogle) -> None:
        created(fake, "storage/v1/b", {"name": "weights"})
        begun = call(fake, "POST", "upload/storage/v1/b/weights/o?uploadType=resumable&name=big", {})
        url, chunk = begun.headers["Location"], b"x" * 256 * 1024
        half = self.put(fake, url, chunk, Content_Range=f"bytes 0-{len(chunk) - 1}/{len(chunk) + 3}")
        assert (half.status_code, half.headers["Range"]) == (308, f"bytes=0-{len(chunk) - 1}")
        asked = self.put(fake, url, b"", Content_Range=f"bytes */{len(chunk) + 3}")
        assert (asked.status_code, asked.headers["Range"]) == (308, f"bytes=0-{len(chunk) - 1}")
        assert fake.storage.objects == {}
        last = self.put(fake, url, b"end", Content_Range=f"bytes {len(chunk)}-{len(chunk) + 2}/{len(chunk) + 3}")
        assert last.json()["size"] == str(len(chunk) + 3)
        assert fake.storage.contents["weights", "big"] == chunk + b"end"

    def test_a_range_is_a_part(self, fake: FakeGoogle) -> None:
        fake.storage.put_text("weights", "a", "0123456789")
        part = call(fake, "GET", "storage/v1/b/weights/o/a?alt=media", headers={"Range": "bytes=7-"})
        assert (part.status_code, part.text, part.headers["Content-Range"]) == (206, "789", "bytes 7-9/10")

    def test_generation_zero_means_only_if_absent(self, fake: FakeGoogle) -> None:
        fake.storage.put_text("weights", "a", "old")
        path = "upload/storage/v1/b/weights/o?uploadType=media&name=a&ifGenerationMatch=0"
        assert call(fake, "POST", path).status_code == 412
        assert fake.storage.contents["weights", "a"] == b"old"

    def test_a_bucket_with_objects_stays(self, fake: FakeGoogle) -> None:
        fake.storage.put_text("weights", "a", "x")
        assert call(fake, "DELETE", "storage/v1/b/weights").status_code == 409
        assert fake.leftovers() == ["storage/weights", "storage/weights/a"]
        call(fake, "DELETE", "storage/v1/b/weights/o/a")
        call(fake, "DELETE", "storage/v1/b/weights")
        assert fake.leftovers() == []

    def test_a_listing_comes_in_pages(self, fake: FakeGoogle) -> None:
        for name in ("m/1", "m/2", "other"):
            fake.storage.put_text("weights", name, "x")
        params = {"prefix": "m/", "pageSize": "1"}
        first = call(fake, "GET", "storage/v1/b/weights/o", params=params).json()
        rest = {"pageToken": first["nextPageToken"]}
        second = call(fake, "GET", "storage/v1/b/weights/o", params=params | rest).json()
        assert [page["items"][0]["name"] for page in (first, second)] == ["m/1", "m/2"]
        assert "nextPageToken" not in second


class TestOtherProducts:
    def test_a_secret_is_read_as_it_was_added(self, fake: FakeGoogle) -> None:
        path = f"secretmanager/v1/{P}/secrets"
        created(fake, path, {}, params={"secretId": "hf"})
        version = created(fake, f"{path}/hf:addVersion", {"payload": {"data": "aGZfeHh4"}})["name"]
        assert version.startswith("projects/123456789012/")
        read = call(fake, "GET", f"secretmanager/v1/{version}:access").json()
        assert read["payload"]["data"] == "aGZfeHh4"
        call(fake, "POST", f"{path}/hf/versions/1:destroy", {})
        assert call(fake, "GET", f"{path}/hf/versions/latest:access").status_code == 400

    def test_a_network_in_use_stays(self, fake: FakeGoogle) -> None:
        created(fake, f"compute/beta/{P}/global/networks", {"name": "n"})
        subnet = {"name": "s", "network": f"{P}/global/networks/n", "ipCidrRange": "10.8.0.0/26"}
        created(fake, f"compute/beta/{P}/regions/us-east4/subnetworks", subnet)
        refused = call(fake, "DELETE", f"compute/beta/{P}/global/networks/n")
        assert refused.status_code == 400
        assert refused.json()["error"]["errors"][0]["reason"] == "resourceInUseByAnotherResource"
        call(fake, "DELETE", f"compute/beta/{P}/regions/us-east4/subnetworks/s")
        assert call(fake, "DELETE", f"compute/beta/{P}/global/networks/n").json()["status"] == "DONE"
        assert fake.leftovers() == []

    def test_a_field_left_out_of_a_masked_patch_goes_away(self, fake: FakeGoogle) -> None:
        path = f"artifactregistry/v1/{L}/repositories"
        created(fake, path, {"format": "DOCKER", "labels": {"a": "b"}}, params={"repositoryId": "r"})
        changed = call(fake, "PATCH", f"{path}/r", {"description": "d"}, params={"updateMask": "labels"}).json()
        assert "labels" not in changed
        assert "description" not in changed

    def test_private_access_is_off_when_the_body_is_empty(self, fake: FakeGoogle) -> None:
        path = f"compute/v1/{P}/regions/us-east4/subnetworks"
        created(fake, path, {"name": "s", "privateIpGoogleAccess": True})
        created(fake, f"{path}/s/setPrivateIpGoogleAccess", {})
        assert call(fake, "GET", f"{path}/s").json()["privateIpGoogleAccess"] is False

    def test_an_enabled_api_shows_and_never_counts_as_left(self, fake: FakeGoogle) -> None:
        created(fake, f"serviceusage/v1/{P}/services/run.googleapis.com:enable", {})
        listed = call(fake, "GET", f"serviceusage/v1/{P}/services").json()["services"]
        assert [one["config"]["name"] for one in listed] == ["run.googleapis.com"]
        assert fake.leftovers() == []

    def test_a_service_s_own_account_is_made_by_asking_for_it(self, fake: FakeGoogle) -> None:
        path = f"serviceusage/v1/{P}/services/artifactregistry.googleapis.com:generateServiceIdentity"
        email = created(fake, path, {})["response"]["email"]
        assert email.startswith("service-")
        assert email.endswith("@gcp-sa-artifactregistry.iam.gserviceaccount.com")
        assert fake.leftovers() == []

    def test_log_entries_are_found_by_label_newest_first_on_demand(self, fake: FakeGoogle) -> None:
        for text, service in (("one", "a"), ("two", "b"), ("three", "a")):
            fake.logging.add(text, "cloud_run_revision", {"service_name": service}, {"run.app/x": "y"})
        wanted = 'resource.type="cloud_run_revision" AND resource.labels.service_name="a" AND labels."run.app/x"="y"'
        body = {"resourceNames": [P], "filter": wanted, "orderBy": "timestamp desc"}
        found = call(fake, "POST", "logging/v2/entries:list", body).json()["entries"]
        assert [entry["textPayload"] for entry in found] == ["three", "one"]

    def test_tokens_of_another_account_are_granted_unless_refused(self, fake: FakeGoogle) -> None:
        path = "iamcredentials/v1/projects/-/serviceAccounts/invoker@x:generateIdToken"
        token = created(fake, path, {"audience": "https://s.run.app", "includeEmail": True})["token"]
        claims = token.split(".")[1]
        decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        assert (decoded["aud"], decoded["email"]) == ("https://s.run.app", "invoker@x")
        fake.iamcredentials.refuse("invoker@x")
        assert "getOpenIdToken" in call(fake, "POST", path, {"audience": "a"}).text


class TestQueuedResources:
    def test_it_moves_on_by_being_looked_at(self, fake: FakeGoogle) -> None:
        submit(fake)
        states = [tpu_state(fake) for _ in range(4)]
        assert states == ["WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE", "ACTIVE"]
        node = call(fake, "GET", f"tpu/v2alpha1/{ZONE}/nodes/node").json()
        assert node["networkEndpoints"][0]["ipAddress"].startswith("10.8.0.")
        assert node["queuedResource"] == f"{ZONE}/queuedResources/blue"

    def test_without_a_pace_only_advance_moves_it(self, fake: FakeGoogle) -> None:
        fake.tpu.configure(pace=None, waiting_name="ACCEPTED")
        submit(fake)
        assert {tpu_state(fake) for _ in range(3)} == {"CREATING"}
        fake.tpu.advance("blue")
        assert tpu_state(fake) == "ACCEPTED"

    def test_the_same_request_id_is_one_resource_and_another_is_409(self, fake: FakeGoogle) -> None:
        first, again, other = (submit(fake, request_id=given) for given in ("r1", "r1", "r2"))
        assert first.json()["name"] == again.json()["name"]
        assert other.status_code == 409
        assert fake.tpu.created == 1

    @pytest.mark.parametrize("ended", ["FAILED", "SUSPENDED"])
    def test_an_ended_request_holds_name_and_quota_and_no_node(self, fake: FakeGoogle, ended: str) -> None:
        fake.tpu.set_limit("us-east5-a", 4)
        submit(fake)
        fake.tpu.advance("blue", to="ACTIVE")
        fake.tpu.advance("blue", to=ended, error="stockout")
        assert call(fake, "GET", f"tpu/v2alpha1/{ZONE}/nodes/node").status_code == 404
        assert submit(fake, "green").status_code == 429
        assert call(fake, "DELETE", f"tpu/v2alpha1/{ZONE}/queuedResources/blue").ok

    def test_provisioning_refuses_deletion_and_active_wants_force(self, fake: FakeGoogle) -> None:
        fake.tpu.configure(pace=None)
        submit(fake)
        path = f"tpu/v2alpha1/{ZONE}/queuedResources/blue"
        fake.tpu.advance("blue", to="PROVISIONING")
        assert call(fake, "DELETE", path, params={"force": "true"}).status_code == 400
        fake.tpu.advance("blue", to="ACTIVE")
        assert call(fake, "DELETE", path).status_code == 400
        assert call(fake, "DELETE", path, params={"force": "true"}).ok
        assert [tpu_state(fake), tpu_state(fake)] == ["DELETING", "gone"]
        assert fake.leftovers() == []

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"bogus": 1}, "bogus"),
            ({"runDuration": {"maxRunDuration": 86400}}, "maxRunDuration"),
            ({"spot": {}}, "no tier"),
            ({"tpu": {}}, "one node"),
        ],
    )
    def test_a_body_that_the_api_would_not_take_is_refused(self, fake: FakeGoogle, change: Any, why: str) -> None:
        response = submit(fake, body=queued(**change))
        assert response.status_code == 400
        assert why in response.text
        assert fake.tpu.created == 0

    def test_flex_start_is_not_everywhere(self, fake: FakeGoogle) -> None:
        fake.tpu.flex_zones = set()
        operation = submit(fake).json()
        for _ in range(LATE_LOOKS):
            assert not operation["done"]
            operation = call(fake, "GET", f"tpu/v2alpha1/{operation['name']}").json()
        assert "FLEX_START provisioning model is not supported" in operation["error"]["message"]
        assert fake.leftovers() == []

    def test_a_patched_node_has_exactly_the_new_metadata(self, fake: FakeGoogle) -> None:
        submit(fake, body=queued({"metadata": {"startup-script": "x"}}))
        fake.tpu.advance("blue", to="ACTIVE")
        path = f"tpu/v2alpha1/{ZONE}/nodes/node"
        call(fake, "PATCH", path, {"metadata": {"spec": "2"}}, params={"updateMask": "metadata"})
        assert call(fake, "GET", path).json()["metadata"] == {"spec": "2"}
        too_big = {"metadata": {"spec": "x" * (256 * 1024 + 1)}}
        assert call(fake, "PATCH", path, too_big, params={"updateMask": "metadata"}).status_code == 400

    def test_a_list_names_the_places_it_could_not_reach(self, fake: FakeGoogle) -> None:
        submit(fake)
        fake.tpu.configure(unreachable=["us-east5-a"])
        listed = call(fake, "GET", f"tpu/v2alpha1/{P}/locations/-/queuedResources").json()
        assert listed == {"unreachable": ["us-east5-a"]}
