"""Parts of files on Hugging Face: only ranges are read, and the token never leaves the Hub."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.errors import GoogleError
from infra.google.hub_files import HubRepository
from tests.fakes.checkpoints import FakeCheckpoint
from tests.fakes.hub_headers import COMMIT, TOKEN, HubOfHeaders

NAME = "acme/tuned"


@pytest.fixture
def hub() -> Iterator[HubOfHeaders]:
    one = FakeCheckpoint()
    one.put("config.json", {"a": 1})
    one.files["model.safetensors"] = (b"0123456789", 62_000_000_000)
    fake = HubOfHeaders({NAME: one})
    yield fake
    fake.close()


def why_not(hub: HubOfHeaders, name: str = NAME, revision: str = "main", token: str = "") -> str:
    with pytest.raises(GoogleError) as refused:
        HubRepository(name, revision, token=token, hub=hub.url).read("model.safetensors", 0, 4)
    assert token not in str(refused.value) or not token
    return str(refused.value)


def test_a_branch_is_its_commit_with_the_sizes_of_its_files(hub: HubOfHeaders) -> None:
    found = HubRepository(NAME, hub=hub.url)
    assert (found.commit, found.closed) == (COMMIT, False)
    assert found.sizes == {"config.json": 8, "model.safetensors": 62_000_000_000}


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "a server that ignores ranges"])
def test_a_part_of_a_huge_file_is_read_alone(hub: HubOfHeaders, ranges: bool) -> None:
    hub.ranges = ranges
    found = HubRepository(NAME, hub=hub.url)
    assert found.read("model.safetensors", 2, 3) == b"234"
    assert found.read("model.safetensors", 0, 2) == b"01"


def test_the_token_goes_to_the_hub_and_to_nobody_it_redirects_to(hub: HubOfHeaders) -> None:
    hub.gated.add(NAME)
    found = HubRepository(NAME, token=TOKEN, hub=hub.url)
    assert found.closed
    found.read("model.safetensors", 0, 4)
    assert {seen.bearer for seen in hub.hub.seen} == {TOKEN}
    assert [seen.headers.get("authorization") for seen in hub.cdn.seen] == [None]


def test_a_netrc_entry_is_sent_to_nobody(hub: HubOfHeaders, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    HubRepository(NAME, hub=hub.url).read("model.safetensors", 0, 4)
    assert not [seen for seen in (*hub.hub.seen, *hub.cdn.seen) if "authorization" in seen.headers]


def test_a_redirect_to_another_scheme_is_not_followed(hub: HubOfHeaders) -> None:
    hub.moved_to = "ftp://files.example/x"
    assert "was not followed" in why_not(hub)


def test_a_redirect_in_a_circle_ends(hub: HubOfHeaders) -> None:
    hub.moved_to = f"{hub.url}/{NAME}/resolve/{COMMIT}/model.safetensors"
    assert "again and again" in why_not(hub)


def test_each_refusal_says_what_to_do(hub: HubOfHeaders) -> None:
    hub.gated.add(NAME)
    assert "accept the licence at https://huggingface.co/acme/tuned, and set HF_TOKEN" in why_not(hub)
    assert "does not accept HF_TOKEN" in why_not(hub, token="hf_wrong")
    hub.private.add(NAME)
    assert "or it is private: check the spelling, or set HF_TOKEN" in why_not(hub)
    assert "there is no revision main of acme/none" in why_not(hub, "acme/none", token=TOKEN)
    assert "there is no revision v9 of acme/tuned" in why_not(hub, revision="v9", token=TOKEN)


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_any_other_answer_is_one_sentence(hub: HubOfHeaders, status: int) -> None:
    hub.status = status
    assert why_not(hub).count("\n") == 0


def test_nobody_there_is_one_sentence() -> None:
    with pytest.raises(GoogleError, match="this needs the internet"):
        HubRepository(NAME, hub="http://127.0.0.1:9")
