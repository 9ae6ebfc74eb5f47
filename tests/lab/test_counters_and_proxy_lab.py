"""`gemma4 metrics`, `memory`, `env` and `proxy` against a real vLLM: what the fake claims, vLLM itself says here.

The server is one that runs (GEMMA4_VLLM_URL), else one of the laboratory. Others may ask it too, so counts are lower bounds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, OpenAI

from infra.ops.commands.memory import memory_answer
from infra.ops.commands.read_metrics import two_readings
from infra.ops.endpoint.find_endpoint import find_endpoint
from infra.serving.client import ServingClient
from infra.serving.local_proxy.fresh_token import FreshToken
from infra.serving.local_proxy.proxy_server import running
from infra.serving.memory_log import logged_memory
from tests.lab import servers
from tests.lab.servers import LAB, URL, RealVllm
from tests.projects import Capture, command

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(LAB is None and not URL, reason=f"{servers.NO_LAB}; or {servers.NO_URL}"),
]
PROMPT: Any = [{"role": "user", "content": "Say something about rivers."}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    if URL:
        yield RealVllm(URL, Path("/dev/null"))
        return
    assert LAB is not None
    with servers.running(LAB / "tiny", tmp_path_factory.mktemp("counters"), *servers.TOOLS) as started:
        servers.wait_until_healthy(started)
        yield started


@pytest.fixture(scope="module")
def sdk(server: RealVllm) -> Iterator[OpenAI]:
    """OpenAI's own client, which knows the proxy's address and nothing else."""
    ready, stop = threading.Event(), threading.Event()
    base: list[str] = []

    async def serve() -> None:
        token = FreshToken(lambda: "sk-unread", expires_at=lambda _: 0.0)
        async with running(server.url, token=token) as proxy:
            base.append(proxy.url)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(10)
    with OpenAI(base_url=base[0], api_key="unused", max_retries=0) as client:
        yield client
    stop.set()
    thread.join()


def wait_until(reached: Callable[[], bool]) -> None:
    for _ in range(200):
        if reached():
            return
        time.sleep(0.1)
    raise AssertionError("not reached within 20 s")


def ask(sdk: OpenAI, tokens: int, **extra: object) -> None:
    sdk.chat.completions.create(
        model="gemma",
        messages=PROMPT,
        max_tokens=tokens,
        extra_body={"ignore_eos": True, **extra},
    )


class TestTheProxy:
    def test_serves_openais_client_whole_and_streamed(self, sdk: OpenAI) -> None:
        assert "gemma" in [model.id for model in sdk.models.list()]
        answer = sdk.chat.completions.create(model="gemma", messages=PROMPT, max_tokens=8)
        assert answer.usage
        assert answer.usage.prompt_tokens > 0
        stream = sdk.chat.completions.create(
            model="gemma",
            messages=PROMPT,
            max_tokens=24,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        chunks = list(stream)
        assert len(chunks) >= 10, "token by token, not at once"

    def test_hands_on_vllms_own_errors(self, sdk: OpenAI) -> None:
        with pytest.raises(APIStatusError) as caught:
            sdk.chat.completions.create(model="no-such-model", messages=PROMPT)
        assert caught.value.status_code == 404
        assert "no-such-model" in caught.value.message

    def test_a_reader_that_goes_ends_the_work_of_the_server(self, sdk: OpenAI, server: RealVllm) -> None:
        running = "vllm:num_requests_running"
        client = ServingClient(server.url)
        stream = sdk.chat.completions.create(
            model="gemma", messages=PROMPT, max_tokens=3500, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        wait_until(lambda: bool(client.metrics().total(running)))
        written = client.metrics().total("vllm:generation_tokens_total") or 0
        stream.close()
        wait_until(lambda: not client.metrics().total(running))  # under no reason does vLLM count such a request
        assert (client.metrics().total("vllm:generation_tokens_total") or 0) < written + 2000


class TestMetrics:
    def test_every_figure_is_known_but_those_of_speculation(self, sdk: OpenAI, server: RealVllm) -> None:
        answer = two_readings(find_endpoint(None, server.url), 1.0, sleep=lambda _: ask(sdk, 40))
        load = answer.together
        assert load
        assert set(load.unknown) <= {"acceptanceRate", "acceptedLength"}
        assert load.ttft
        assert load.ttft.p50_s is not None
        assert load.inter_token
        assert load.inter_token.p90_s is not None
        assert load.generation_tokens_per_second is not None
        assert load.generation_tokens_per_second > 0
        assert load.finished
        assert load.finished.get("length", 0) >= 1
        assert answer.members[0].running_for_s

    def test_prompts_that_come_again_are_found_in_the_prefix_cache(self, sdk: OpenAI, server: RealVllm) -> None:
        long: Any = [{"role": "user", "content": "river " * 600}]
        for _ in range(3):
            sdk.chat.completions.create(model="gemma", messages=long, max_tokens=1)
        answer = two_readings(find_endpoint(None, server.url), 0.5)
        assert answer.together
        assert answer.together.prefix_hit_rate
        assert answer.together.prefix_hit_rate > 0


class TestMemory:
    def test_is_what_vllm_logs(self, server: RealVllm) -> None:
        (found,) = memory_answer(url=server.url).members
        assert found.tokens
        assert found.blocks
        assert found.requests_of_max_model_len
        assert found.max_model_len
        assert abs(found.tokens - found.requests_of_max_model_len * found.max_model_len) < found.max_model_len * 0.01
        assert (found.kv_cache_dtype, found.prefix_caching) == ("auto", True)
        log = server.log_tail()
        if log:
            assert any(f"{found.tokens:,} tokens" in line for line in log)
            assert min(logged_memory(log).group_block_sizes) == found.block_size


def test_the_commands_answer(server: RealVllm, capsys: Capture) -> None:
    gemma4 = command(capsys)
    for name in ("metrics", "memory", "env"):
        answer = gemma4(name, "--url", server.url)
        assert answer.code == 0
        assert max(map(len, answer.out.splitlines())) <= 80
        assert gemma4(name, "--url", server.url, "--json").code == 0
