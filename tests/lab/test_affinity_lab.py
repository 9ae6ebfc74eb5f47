"""Affinity with a real HAProxy before two real vLLM servers: what their prefix caches hold of conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median

import pytest

from scripts.measure_affinity import CONVERSATIONS, measure
from tests.fakes.gateway import missing
from tests.lab.servers import LAB, NO_LAB, running, wait_until_healthy

pytestmark = [pytest.mark.lab, pytest.mark.skipif(LAB is None or bool(missing()), reason=missing() or NO_LAB)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    assert LAB is not None
    flags = ("--enable-prefix-caching", "--block-size", "32")
    scratch = tmp_path_factory.mktemp("affinity")
    with running(LAB / "tiny", scratch, *flags) as one, running(LAB / "tiny", scratch, *flags) as two:
        for server in (one, two):
            wait_until_healthy(server)
        yield {"one": one.url, "two": two.url}


def test_a_conversation_finds_more_of_itself_in_the_caches(servers: Mapping[str, str]) -> None:
    """Of one user, so that nothing depends on how quick the servers are: least connections then take them in turn."""
    load = replace(CONVERSATIONS, users=1, chats=2, turns=4, pause_s=0.01)
    (by_affinity,) = measure(servers, [load], rounds=1).values()
    for affinity, one in by_affinity.items():
        print(f"\n{affinity}: {one.hit_rate:.1%} found, first token {median(one.first_token_s):.2f} s at the median")
        assert len(one.first_token_s) == one.served.total() == load.users * load.chats * load.turns
    for affinity in ("session", "prefix"):
        assert by_affinity[affinity].hit_rate > 1.4 * by_affinity["none"].hit_rate
