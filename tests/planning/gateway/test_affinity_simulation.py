"""What affinity does for the caches of four servers, computed: the bar that it must clear, and what it must not cost."""

from __future__ import annotations

import pytest

from scripts.simulate_affinity import (
    EXAMPLES,
    MEMBERS,
    SINGLE,
    BlockCache,
    Conversations,
    LeastConnections,
    Outcome,
    Ring,
    Server,
    simulate,
)

REQUESTS = 1500


def both(workload: Conversations, server: Server | None = None, seed: int = 1) -> tuple[Outcome, Outcome]:
    """With least connections, and with affinity."""
    routers = LeastConnections(MEMBERS), Ring(MEMBERS)
    return tuple(simulate(one, workload, server=server, requests=REQUESTS, seed=seed) for one in routers)  # type: ignore[return-value]


class TestConversations:
    @pytest.mark.parametrize("seed", [1, 2, 3])
    @pytest.mark.parametrize("users", [32, 128])
    def test_find_1_4_times_as_much_in_the_caches_and_no_member_has_1_5_times_the_mean_load(
        self, users: int, seed: int
    ) -> None:
        least, near = both(Conversations(users=users), seed=seed)
        assert near.hit_rate >= 1.4 * least.hit_rate
        assert near.imbalance <= 1.5
        assert near.first_token_s < least.first_token_s

    def test_gain_where_caches_are_small_as_well(self) -> None:
        least, near = both(Conversations(), Server(cache_tokens=40_000))
        assert near.hit_rate >= 1.4 * least.hit_rate


class TestOtherRequests:
    def test_lose_little_where_nothing_can_be_gained(self) -> None:
        least, near = both(SINGLE)
        assert near.hit_rate >= 0.99 * least.hit_rate
        assert near.imbalance <= 1.1

    def test_that_all_have_one_key_are_still_served_by_several(self) -> None:
        least, near = both(EXAMPLES)
        assert least.imbalance < 1.05 < near.imbalance <= 1.8


class TestTheCache:
    def test_knows_a_prompt_up_to_the_first_block_that_it_has_not(self) -> None:
        cache = BlockCache(tokens=160)
        assert cache.take("abc") == 0
        assert cache.take("abxd") == 2
        assert cache.take("xabc") == 4

    def test_forgets_the_end_of_what_was_used_longest_ago_and_nothing_in_use(self) -> None:
        cache = BlockCache(tokens=4 * 16)
        cache.take("abc")
        cache.release("abc")
        cache.take("de")
        assert cache.take("abc") == 2  # c made room, and there is none for it now
        cache.release("de")
        cache.take("f")
        assert cache.take("de") == 0
        assert cache.take("abc") == 3
