"""Identity tokens: by the first way that works, for the base URL, renewed in time, and else the missing role."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from infra.errors import GoogleError
from infra.google.gcp_settings import GcpSettings
from infra.google.identity_tokens import (
    GRACE_S,
    PAUSE_S,
    IdentityTokens,
    expiry,
    gcloud_token,
    outlast_fresh_grants,
)
from infra.providers import serving_check
from infra.providers.serving_check import ServingCheckProvider
from infra.serving.check import run_check
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import FakeTime, session
from tests.fakes.google.iam import id_token
from tests.fakes.vllm import FakeVllm
from tests.google.test_session import service_account_key

URL = "https://gemma-123.us-east4.run.app"
INVOKER = "invoker@demo-project.iam.gserviceaccount.com"


def claims(token: str) -> dict[str, object]:
    part = token.split(".")[1]
    decoded: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded


def unable(_: str) -> str:
    raise GoogleError("cannot.")


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def fake(time: FakeTime) -> Iterator[FakeGoogle]:
    with FakeGoogle(clock=time.clock) as running:
        yield running


def tokens(fake: FakeGoogle, time: FakeTime, **options: object) -> IdentityTokens:
    given: dict[str, object] = {"invoker": INVOKER, "own": unable, "gcloud": unable} | options
    return IdentityTokens(session(fake, time), **given)  # type: ignore[arg-type]


def test_threads_that_ask_at_once_get_one_token(fake: FakeGoogle, time: FakeTime) -> None:
    second, made = threading.Event(), list[str]()

    def own(audience: str) -> str:
        made.append(audience)
        if len(made) > 1:
            second.set()
        second.wait(0.3)  # long enough for the other thread, were it let in
        return id_token(audience, "me@b.c", time.clock() + 3600, len(made))

    maker = tokens(fake, time, invoker="", own=own)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(maker.token, [URL, URL])
    assert one == other
    assert made == [URL]


class TestTheOrder:
    def test_the_invoker_comes_first_with_its_email(self, fake: FakeGoogle, time: FakeTime) -> None:
        token = tokens(fake, time, own=lambda _: "own").token(URL)
        assert (claims(token)["aud"], claims(token)["email"]) == (URL, INVOKER)
        assert fake.requests[0].body == {"audience": URL, "includeEmail": True}

    def test_a_refused_invoker_leaves_the_caller_s_own_identity(self, fake: FakeGoogle, time: FakeTime) -> None:
        fake.iamcredentials.refuse(INVOKER)
        assert tokens(fake, time, own=lambda audience: f"own {audience}").token(URL) == f"own {URL}"

    def test_without_invoker_or_own_identity_gcloud_is_asked(self, fake: FakeGoogle, time: FakeTime) -> None:
        assert tokens(fake, time, invoker="", gcloud=lambda _: "from gcloud").token(URL) == "from gcloud"
        assert fake.requests == []

    def test_when_nobody_can_the_role_is_named(self, fake: FakeGoogle, time: FakeTime) -> None:
        fake.iamcredentials.refuse(INVOKER)
        with pytest.raises(GoogleError, match=rf"serviceAccountOpenIdTokenCreator on {INVOKER}.*access\.deployers"):
            tokens(fake, time).token(URL)

    def test_trouble_at_google_is_no_missing_role(self, fake: FakeGoogle, time: FakeTime) -> None:
        fake.fault("POST", ":generateIdToken", times=99, status=503)
        with pytest.raises(GoogleError, match="HTTP 503"):
            tokens(fake, time, own=lambda _: "own").token(URL)

    def test_a_service_account_key_makes_its_own(self, fake: FakeGoogle, time: FakeTime) -> None:
        google = session(fake, time, accessToken=None, credentials=json.dumps(service_account_key(fake)))
        token = IdentityTokens(google, gcloud=unable).token(URL)
        assert claims(token)["aud"] == URL

    @pytest.mark.parametrize("settings", [{}, {"impersonateServiceAccount": "deployer@x"}])
    def test_an_access_token_alone_makes_none_and_asks_nobody(
        self, fake: FakeGoogle, time: FakeTime, settings: dict[str, Any]
    ) -> None:
        with pytest.raises(GoogleError, match="an access token alone"):
            IdentityTokens(session(fake, time, **settings), gcloud=unable).token(URL)
        assert fake.requests == []

    def test_a_person_s_login_makes_none_without_showing_it(self, fake: FakeGoogle, time: FakeTime) -> None:
        person = {"type": "authorized_user", "client_id": "c", "client_secret": "s3cret", "refresh_token": "r3fresh"}
        google = session(fake, time, accessToken=None, credentials=json.dumps(person))
        with pytest.raises(GoogleError) as caught:
            IdentityTokens(google, gcloud=unable).token(URL)
        assert "s3cret" not in str(caught.value)
        assert "r3fresh" not in str(caught.value)


class TestKeeping:
    def test_one_token_serves_until_five_minutes_before_its_end(self, fake: FakeGoogle, time: FakeTime) -> None:
        maker = tokens(fake, time)
        first = maker.token(URL)
        time.now += 3600 - 301
        assert maker.token(URL) == first
        time.now += 2
        assert maker.token(URL) != first

    def test_each_audience_has_its_own(self, fake: FakeGoogle, time: FakeTime) -> None:
        maker = tokens(fake, time)
        assert claims(maker.token(URL))["aud"] != claims(maker.token(f"{URL}.other"))["aud"]

    @pytest.mark.parametrize("token", ["", "abc", "a.b.c", "a.e30.c"])
    def test_a_token_without_a_readable_end_is_never_kept(self, token: str) -> None:
        assert expiry(token) == 0


class TestASecondBestToken:
    """Made another way, since acting as the invoker was refused."""

    @pytest.fixture
    def tokens(self, fake: FakeGoogle, time: FakeTime) -> IdentityTokens:
        fake.iamcredentials.refuse(INVOKER)
        mine = id_token(URL, "me@example.com", time.now + 3600, 1)
        return IdentityTokens(session(fake, time), invoker=INVOKER, own=unable, gcloud=lambda _: mine)

    def test_gives_way_to_the_invoker_s_once_the_grant_counts_though_nobody_says_it_was_refused(
        self, tokens: IdentityTokens, fake: FakeGoogle, time: FakeTime
    ) -> None:
        assert claims(tokens.token(URL))["email"] == "me@example.com"
        fake.iamcredentials.allow(INVOKER)
        assert claims(tokens.token(URL))["email"] == "me@example.com", "asked for again only after a pause"
        time.sleep(PAUSE_S)
        assert claims(tokens.token(URL))["email"] == INVOKER
        assert tokens.way == f"made acting as {INVOKER}"
        time.sleep(PAUSE_S)
        tokens.token(URL)
        assert len(fake.sent("POST", "generateIdToken")) == 2, "the right one is kept"

    def test_is_kept_once_no_grant_can_be_fresh_any_more(
        self, tokens: IdentityTokens, fake: FakeGoogle, time: FakeTime
    ) -> None:
        for _ in range(100):
            tokens.token(URL)
            time.sleep(PAUSE_S)
        assert len(fake.sent("POST", "generateIdToken")) == 1 + GRACE_S / PAUSE_S


class TestFreshGrants:
    def test_refusals_are_outlasted_with_a_new_token_each(self, fake: FakeGoogle, time: FakeTime) -> None:
        maker = tokens(fake, time)
        answers = iter([403, 401, 200])
        seen = []

        def ask() -> int:
            seen.append(maker.token(URL))
            return next(answers)

        assert outlast_fresh_grants(ask, tokens=maker, clock=time.clock, sleep=time.sleep) == 200
        assert len(set(seen)) == 3

    def test_the_grace_ends(self, fake: FakeGoogle, time: FakeTime) -> None:
        asked: list[float] = []

        def ask() -> int:
            asked.append(time.now)
            return 403

        maker = tokens(fake, time)
        assert outlast_fresh_grants(ask, tokens=maker, grace_s=60, clock=time.clock, sleep=time.sleep) == 403
        assert asked[-1] - asked[0] == 60

    def test_another_answer_is_not_asked_twice(self, fake: FakeGoogle, time: FakeTime) -> None:
        assert outlast_fresh_grants(lambda: 503, tokens=tokens(fake, time), sleep=time.sleep) == 503
        assert time.pauses == []


EXPECTED = {"model": "gemma", "spec_hash": "spec-1", "max_model_len": 4096, "prompt_tokens": 64}
OFF = {"tools": False, "reasoning": False, "image": False, "audio": False}


class TestACheckWhoseGrantIsFresh:
    """The grant of access.deployers counts from second 60; until then the caller has another identity, or none."""

    @pytest.fixture
    def server(self) -> Iterator[FakeVllm]:
        with FakeVllm() as running:
            yield running

    def check(
        self,
        server: FakeVllm,
        fake: FakeGoogle,
        time: FakeTime,
        monkeypatch: pytest.MonkeyPatch,
        own: Callable[[str], str] = unable,
        gcloud: Callable[[str], str] = unable,
    ) -> float:
        """Run the provider's check; return for how many seconds it waited."""
        monkeypatch.setattr(serving_check, "IdentityTokens", partial(IdentityTokens, own=own, gcloud=gcloud))
        monkeypatch.setattr(serving_check, "GoogleSession", lambda _access: session(fake, time))
        monkeypatch.setattr(serving_check, "run_check", partial(run_check, clock=time.clock, sleep=time.sleep))
        provider, began = ServingCheckProvider(), time.now
        provider.gcp = GcpSettings(project="demo-project")
        provider.create(
            {
                "url": server.url,
                "path": "",
                "generation": "1",
                "expected": EXPECTED | OFF,
                "predicted_kv_tokens": [1, 2, 3],
                "ready_timeout_s": 600,
                "invoker": INVOKER,
                "log": {"kind": "service", "name": "gemma4-l4", "location": "us-east4"},
                "skipped": "",
            }
        )
        return time.now - began

    @pytest.fixture
    def granted_at_60(self, fake: FakeGoogle, time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
        fake.iamcredentials.refuse(INVOKER)
        began, sleep = time.now, time.sleep

        def sleeping(seconds: float) -> None:
            sleep(seconds)
            if time.now - began >= 60:
                fake.iamcredentials.allow(INVOKER)

        monkeypatch.setattr(time, "sleep", sleeping)

    @pytest.mark.parametrize("way", ["gcloud", "own"])
    @pytest.mark.usefixtures("granted_at_60")
    def test_a_wrong_identity_is_dropped_once_the_right_one_can_be_had(
        self, server: FakeVllm, fake: FakeGoogle, time: FakeTime, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        server.lets_in = lambda token: bool(token) and claims(token).get("email") == INVOKER
        foreign = id_token(URL, "me@example.com", time.now + 3600, 1)
        waited = self.check(server, fake, time, monkeypatch, **{way: lambda _: foreign})
        assert 60 <= waited <= 70

    @pytest.mark.usefixtures("granted_at_60")
    def test_an_owner_s_own_identity_gets_through_at_once(
        self, server: FakeVllm, fake: FakeGoogle, time: FakeTime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        owner = id_token(URL, "owner@example.com", time.now + 3600, 1)
        server.lets_in = lambda token: token == owner
        assert self.check(server, fake, time, monkeypatch, gcloud=lambda _: owner) == 0
        assert len(fake.sent("POST", "generateIdToken")) == 1, "a token that is taken is kept"

    def test_a_grant_that_never_comes_says_whose_token_was_refused(
        self, server: FakeVllm, fake: FakeGoogle, time: FakeTime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake.iamcredentials.refuse(INVOKER)
        server.lets_in = lambda _: False
        foreign = id_token(URL, "me@example.com", time.now + 3600, 1)
        with pytest.raises(Exception, match="made with gcloud; not made acting as invoker@") as caught:
            self.check(server, fake, time, monkeypatch, gcloud=lambda _: foreign)
        assert foreign not in str(caught.value)


class TestGcloud:
    def install(self, folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "gcloud").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "gcloud").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def test_an_audience_is_asked_for_and_left_out_where_it_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.install(tmp_path, 'echo "token for $3"', monkeypatch)
        assert gcloud_token(URL) == f"token for --audiences={URL}"
        self.install(tmp_path, '[ -z "$3" ] && echo plain', monkeypatch)
        assert gcloud_token(URL) == "plain"

    def test_its_own_complaint_is_passed_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.install(tmp_path, "echo 'You do not have an active account' >&2; exit 1", monkeypatch)
        with pytest.raises(GoogleError, match="active account"):
            gcloud_token(URL)

    def test_a_machine_without_it_says_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(GoogleError, match="not installed"):
            gcloud_token(URL)


def test_the_fake_s_tokens_end_when_they_say() -> None:
    assert expiry(id_token(URL, INVOKER, 1234.0, 1)) == 1234
