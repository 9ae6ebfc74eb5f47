"""A stack or a URL leads to one endpoint: its address, its servers, and tokens that go nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.errors import Gemma4Error, SettingsError
from infra.ops.endpoint import find_endpoint as find_endpoint_module
from infra.ops.endpoint.endpoint import Member
from infra.ops.endpoint.find_endpoint import API_KEY, find_endpoint, find_member, trust_only
from tests.fakes.vllm import FakeVllm
from tests.projects import ROOT

State = Callable[..., None]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    """A Pulumi CLI that exports a stack with these outputs."""

    def write(**outputs: Any) -> None:
        resource = {"type": "pulumi:pulumi:Stack", "urn": "u", "outputs": outputs}
        exported = {"deployment": {"manifest": {"time": "2026-11-20T10:11:12Z"}, "resources": [resource]}}
        (tmp_path / "state.json").write_text(json.dumps(exported))

    cli = tmp_path / "pulumi"
    cli.write_text(f"#!/bin/sh\nexec cat {tmp_path}/state.json\n")
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(ROOT)
    return write


class TestOfAStack:
    def test_has_the_address_the_model_and_the_plan(self, state: State) -> None:
        state(url="https://gemma4-l4-x.run.app", model="google/gemma-4", invokerAccount="a@b.c")
        found = find_endpoint("l4")
        assert (found.url, found.model, found.name) == ("https://gemma4-l4-x.run.app", "google/gemma-4", "l4")
        assert found.members == (Member("", ""),)
        assert found.state
        assert found.state.updated_at == "2026-11-20T10:11:12Z"

    def test_has_each_slice_by_its_name(self, state: State) -> None:
        state(url="https://gate.run.app", model="m")
        found = find_endpoint("v6e4")
        assert found.members == (Member("blue", "/members/blue"),)
        assert find_member(found, "blue") == found.members[0]
        with pytest.raises(SettingsError, match=r"v6e4 has no slice or machine 'pink'.*Name one of: blue"):
            find_member(found, "pink")

    def test_asks_for_an_identity_token_and_never_prints_it(self, state: State) -> None:
        state(url="https://gate.run.app", model="m", invokerAccount="a@b.c")
        found = find_endpoint("l4")
        assert found.tokens
        assert found.tokens.is_identity
        assert "IdentityTokens" not in repr(found)

    def test_that_is_not_deployed_says_what_to_type(self, state: State) -> None:
        state()
        with pytest.raises(Gemma4Error, match="pulumi up -s l4"):
            find_endpoint("l4")


class TestOfAUrl:
    def test_asks_the_server_for_its_model(self) -> None:
        with FakeVllm(model="gemma") as fake:
            found = find_endpoint(None, f"{fake.url}/v1/")
            assert (found.url, found.model, found.tokens, found.planned) == (fake.url, "gemma", None, None)

    def test_sends_the_key_that_the_environment_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(API_KEY, "k-1")
        with FakeVllm() as fake:
            found = find_endpoint(None, fake.url)
            found.client().health()
            assert fake.tokens_seen == {"k-1"}
            assert "k-1" not in repr(found)

    def test_of_cloud_run_gets_an_identity_token(self) -> None:
        found = find_endpoint(None, "https://x-1.us-east4.run.app/")
        assert found.tokens
        assert found.tokens.is_identity

    @pytest.mark.parametrize("url", ["ftp://x", "http://", "", "http:///v1"])
    def test_that_is_none_is_one_clean_error(self, url: str) -> None:
        with pytest.raises(SettingsError, match=r"--url: .* is not the URL of a server"):
            find_endpoint(None, url)


class TestAnAssistantsUrl:
    @pytest.fixture(autouse=True)
    def _afterwards(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(find_endpoint_module, "_trusted", None)
        monkeypatch.setenv(API_KEY, "k-1")

    def test_gets_no_key_and_no_token_unless_it_was_trusted(self) -> None:
        trust_only(["https://models.example.com/v1"])
        assert find_endpoint(None, "https://models.example.com").tokens
        assert find_endpoint(None, "https://other.example.com").tokens is None
        assert find_endpoint(None, "https://x-1.us-east4.run.app").tokens is None

    def test_is_any_one_for_who_types_it(self) -> None:
        assert find_endpoint(None, "https://other.example.com").tokens

    def test_that_is_to_be_trusted_must_be_one(self) -> None:
        with pytest.raises(SettingsError, match="is not the URL of a server"):
            trust_only(["ftp://x"])


def test_exactly_one_of_both_is_needed() -> None:
    with pytest.raises(SettingsError, match="Two servers would be meant"):
        find_endpoint("l4", "http://127.0.0.1:8000")
    with pytest.raises(SettingsError, match="is missing, and so is --url"):
        find_endpoint(None)


@pytest.mark.parametrize("typed", ["x.run.app", "http://x.run.app", "https://x.run.app/v1"])
def test_a_token_never_goes_to_cloud_run_in_clear_text(typed: str) -> None:
    found = find_endpoint(None, typed)
    assert found.url == "https://x.run.app"
    assert found.tokens


@pytest.mark.parametrize("typed", ["http://[::1", "http://host:99999", "host:0"])
def test_a_url_that_no_server_can_have_is_bad_input(typed: str) -> None:
    with pytest.raises(SettingsError, match="is not the URL of a server"):
        find_endpoint(None, typed)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="--url: holds a user name or password") as caught:
        find_endpoint(None, "https://me:hunter2@host")
    assert "hunter2" not in str(caught.value)
