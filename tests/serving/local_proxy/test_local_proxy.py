"""The proxy on loopback: tokens under load, streams as they come, who is refused, and how things end."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from yarl import URL

from infra.errors import Gemma4Error, GoogleError
from infra.google.identity_tokens import expiry
from infra.serving.local_proxy.fresh_token import GOOD_FOR_S, PAUSE_S, RENEW_BEFORE_S, FreshToken
from infra.serving.local_proxy.proxy_server import RunningProxy, running, wound_up
from tests.fakes.guarded_service import GuardedService, token_until

HOUR = 3600.0
NOON = 1.79e9


class Clock:
    """The time as a test sets it."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class Maker:
    """Makes tokens of an hour; `fails` says that it cannot."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.fails, self.made, self.forgotten = clock, False, 0, 0
        self.current = ""

    def __call__(self) -> str:
        if self.fails:
            raise GoogleError("No identity token could be made: sign in again.", status=403)
        self.made += 1
        self.current = token_until(self.clock.now + HOUR, name=str(self.made))
        return self.current

    def forget(self) -> None:
        self.forgotten += 1

    def fresh(self) -> FreshToken:
        return FreshToken(self, forget=self.forget, expires_at=expiry, clock=self.clock)


@asynccontextmanager
async def proxied(
    service: GuardedService, token: FreshToken | None = None, failed: Callable[[str], None] = lambda _: None
) -> AsyncIterator[tuple[RunningProxy, aiohttp.ClientSession]]:
    async with (
        service.running(),
        running(service.url, token=token, failed=failed) as proxy,
        aiohttp.ClientSession(f"http://127.0.0.1:{proxy.port}") as client,
    ):
        yield proxy, client


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


async def post(client: aiohttp.ClientSession, path: str = "/v1/chat/completions", **given: Any) -> tuple[int, Any]:
    async with client.post(path, json={"model": "gemma"}, **given) as answer:
        return answer.status, await answer.json()


class TestTokensUnderLoad:
    def test_hours_of_requests_meet_no_refusal_because_the_next_token_is_made_in_time(self) -> None:
        clock = Clock()
        maker = Maker(clock)
        service = GuardedService(lambda token: expiry(token) > clock.now)

        async def test() -> None:
            async with proxied(service, maker.fresh()) as (proxy, client):

                async def user() -> None:
                    for _ in range(50):
                        clock.now += 20  # 16 users: each round of requests takes five minutes
                        status, _ = await post(client)
                        assert status == 200

                await asyncio.gather(*(user() for _ in range(16)))
                assert proxy.forwarder.answered == 800

        run(test)
        assert (service.refused, service.served) == (0, 800)
        hours = 800 * 20 / HOUR
        assert hours <= maker.made <= 2 * hours + 1, "one for each hour or so, and not one for each request"

    def test_no_request_waits_for_the_next_token_while_the_old_one_is_good(self) -> None:
        clock = Clock()
        maker = Maker(clock)
        token = maker.fresh()

        async def test() -> None:
            first = await token.get()
            clock.now += HOUR - RENEW_BEFORE_S + 1
            assert await token.get() == first
            while maker.made < 2:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            assert await token.get() == maker.current != first

        run(test)

    def test_revoked_tokens_cost_one_more_request_each_and_no_failure(self) -> None:
        clock = Clock()
        maker = Maker(clock)
        service = GuardedService(lambda token: token == maker.current and "revoked" not in token)

        async def test() -> None:
            async with proxied(service, maker.fresh()) as (_, client):
                for _ in range(4):
                    assert [status for status, _ in await asyncio.gather(*(post(client) for _ in range(24)))] == [
                        200
                    ] * 24
                    maker.current = "revoked"

        run(test)
        assert service.served == 96
        assert maker.made == 4, "24 refusals at once are answered with one new token"
        assert 3 <= service.refused <= 72
        assert {body for _, _, _, body in service.seen} == {b'{"model": "gemma"}'}, (
            "each repetition is the whole request"
        )

    def test_a_refusal_that_comes_late_is_answered_with_the_token_that_was_made_meanwhile(self) -> None:
        maker = Maker(Clock())
        token = maker.fresh()

        async def test() -> None:
            first = await token.get()
            second = await token.after_refusal(first)
            assert await token.after_refusal(first) == second != first

        run(test)
        assert maker.made == 2

    def test_a_refusal_of_the_new_token_too_is_handed_back_and_not_tried_for_ever(self) -> None:
        service = GuardedService(lambda _: False)

        async def test() -> None:
            async with proxied(service, Maker(Clock()).fresh()) as (_, client):
                status, answer = await post(client)
                assert (status, answer["error"]["type"]) == (401, "AuthenticationError")
                assert "did not accept the identity token" in answer["error"]["message"]

        run(test)
        assert service.refused == 2

    def test_while_none_can_be_made_the_old_one_is_used_to_its_end_and_then_requests_say_why(self) -> None:
        clock = Clock()
        maker = Maker(clock)
        said: list[str] = []
        service = GuardedService(lambda token: expiry(token) > clock.now)

        async def test() -> None:
            async with proxied(service, maker.fresh(), said.append) as (_, client):
                maker.fails = True
                clock.now += HOUR - GOOD_FOR_S - 1
                assert (await post(client))[0] == 200
                clock.now += GOOD_FOR_S
                status, answer = await post(client)
                assert (status, "sign in again" in answer["error"]["message"]) == (401, True)
                maker.fails = False
                assert (await post(client))[0] == 200

        run(test)
        assert service.refused == 0
        assert len(said) == 1
        assert "sign in again" in said[0]

    def test_in_the_background_a_token_is_renewed_without_any_request(self) -> None:
        clock = Clock()
        maker = Maker(clock)
        token = maker.fresh()
        problems: list[str] = []
        lefts: list[float] = []

        async def asleep(_: float) -> None:
            lefts.append(expiry(maker.current) - clock.now)
            if len(lefts) == 300:
                raise asyncio.CancelledError
            maker.fails = 100 < len(lefts) < 110
            clock.now += 60
            await asyncio.sleep(0)

        async def test() -> None:
            await token.get()
            with pytest.raises(asyncio.CancelledError):
                await token.keep_fresh(problems.append, sleep=asleep)

        run(test)
        assert min(lefts) > GOOD_FOR_S
        assert 5 <= maker.made <= 8
        assert maker.forgotten >= maker.made, "what made the last one must not hand out what it kept"

    def test_who_hands_out_old_tokens_is_not_asked_with_every_request(self) -> None:
        clock = Clock()
        token = FreshToken(lambda: token_until(NOON + 300), expires_at=expiry, clock=clock)

        async def test() -> None:
            for _ in range(100):
                await token.get()
                await asyncio.sleep(0)
            assert token.made == 1
            clock.now += PAUSE_S
            await token.get()
            await asyncio.sleep(0.05)
            assert token.made == 2

        run(test)

    def test_a_key_that_does_not_end_is_made_once(self) -> None:
        clock = Clock()
        token = FreshToken(lambda: "sk-local", expires_at=expiry, clock=clock)

        async def test() -> None:
            for _ in range(3):
                assert await token.get() == "sk-local"
                clock.now += 10 * HOUR

        run(test)
        assert token.made == 1

    def test_who_can_make_none_learns_it_before_anything_is_served(self) -> None:
        maker = Maker(Clock())
        maker.fails = True

        async def test() -> None:
            with pytest.raises(Gemma4Error, match="sign in again"):
                async with running("http://127.0.0.1:9", token=maker.fresh()):
                    raise AssertionError("it serves")

        run(test)


class TestWhatIsSentOn:
    def test_the_request_as_it_is_with_our_token_in_place_of_the_clients(self) -> None:
        service = GuardedService()
        maker = Maker(Clock())
        body = gzip.compress(b'{"model":"gemma"}')
        headers = {
            "Authorization": "Bearer sk-of-the-client",
            "X-Serverless-Authorization": "Bearer another",
            "Content-Encoding": "gzip",
            "Content-Type": "application/json",
            "X-Request-Id": "42",
            "Cookie": "a=b",
        }

        async def test() -> None:
            path = URL("/v1/a%2Fb?x=%20y", encoded=True)
            async with (
                proxied(service, maker.fresh()) as (_, client),
                client.post(path, data=body, headers=headers) as answer,
            ):
                assert answer.status == 200

        run(test)
        ((method, path, seen, got),) = service.seen
        assert (method, path, got) == ("POST", "/v1/a%2Fb?x=%20y", body)
        assert seen["authorization"] == f"Bearer {maker.current}"
        assert (seen["content-encoding"], seen["x-request-id"]) == ("gzip", "42")
        assert not {"x-serverless-authorization", "cookie"} & seen.keys()
        assert service.url.endswith(seen["host"])

    def test_without_a_token_of_ours_the_clients_is_dropped_all_the_same(self) -> None:
        service = GuardedService()

        async def test() -> None:
            async with proxied(service) as (_, client):
                await post(client, headers={"Authorization": "Bearer sk-of-the-client"})

        run(test)
        assert "authorization" not in service.seen[0][2]

    def test_a_path_that_names_another_host_goes_nowhere(self) -> None:
        service = GuardedService()

        async def test() -> None:
            async with proxied(service, Maker(Clock()).fresh()) as (proxy, _):
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
                writer.write(b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                assert b" 400 " in await reader.readline()
                writer.close()

        run(test)
        assert service.seen == []


class TestWhoIsRefused:
    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Host": "127.0.0.1:8000"}, 200),
            ({"Host": "localhost"}, 200),
            ({"Host": "localhost:9999"}, 200),
            ({"Host": "[::1]:8000"}, 200),
            ({"Host": "gemma.evil.example:8000"}, 403),
            ({"Host": "127.0.0.1.evil.example"}, 403),
            ({"Host": "evil.example@127.0.0.1.example"}, 403),
            ({"Host": "[::1"}, 403),
            ({"Host": ""}, 403),
            ({"Host": "localhost", "Origin": "http://localhost:3000"}, 200),
            ({"Host": "localhost", "Origin": "https://evil.example"}, 403),
            ({"Host": "localhost", "Origin": "null"}, 403),
        ],
    )
    def test_pages_of_the_web_and_names_that_point_here(self, headers: dict[str, str], status: int) -> None:
        service = GuardedService()

        async def test() -> None:
            async with proxied(service) as (_, client):
                got, answer = await post(client, headers=headers)
                assert got == status
                if got == 403:
                    assert set(answer["error"]) == {"message", "type", "param", "code"}

        run(test)
        assert len(service.seen) == (1 if status == 200 else 0)

    def test_it_listens_on_loopback_only(self) -> None:
        async def test() -> None:
            async with proxied(GuardedService()) as (proxy, _):
                with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", proxy.port), 1):
                    pass

        run(test)


class TestStreams:
    def test_each_event_leaves_as_it_comes(self) -> None:
        service = GuardedService()

        async def test() -> None:
            async with proxied(service) as (_, client), client.post("/v1/stream") as answer:
                assert answer.headers["Content-Type"] == "text/event-stream"
                for number in range(5):
                    service.step.release()  # the next event is written only now
                    assert await answer.content.readuntil(b"\n\n") == f"data: {number}\n\n".encode()

        run(test)

    def test_when_the_reader_goes_the_server_may_stop_its_work(self) -> None:
        service = GuardedService()

        async def test() -> None:
            async with proxied(service) as (_, client):
                answer = await client.post("/v1/stream")
                service.step.release()
                await answer.content.readuntil(b"\n\n")
                answer.close()
                await service.left.wait()

        run(test)

    def test_one_that_breaks_off_ends_with_an_event_that_says_so(self) -> None:
        service = GuardedService()
        said: list[str] = []

        async def test() -> None:
            async with proxied(service, failed=said.append) as (_, client), client.post("/v1/stream") as answer:
                service.step.release()
                await answer.content.readuntil(b"\n\n")
                service.cut = True
                service.step.release()
                last = (await answer.content.read()).strip().removeprefix(b"data: ")
                assert "broke off" in json.loads(last)["error"]["message"]

        run(test)
        assert len(said) == 1


class TestFailures:
    def test_a_server_that_is_down(self) -> None:
        async def test() -> None:
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
            async with (
                running(f"http://127.0.0.1:{port}") as proxy,
                aiohttp.ClientSession(f"http://127.0.0.1:{proxy.port}") as client,
            ):
                status, answer = await post(client)
                assert (status, answer["error"]["code"]) == (502, 502)
                assert "nothing listens there" in answer["error"]["message"]

        run(test)

    def test_a_connection_that_the_server_closes_is_not_tried_again(self) -> None:
        service = GuardedService()

        async def test() -> None:
            async with proxied(service) as (_, client):
                status, answer = await post(client, path="/v1/cut")
                assert (status, "is not known" in answer["error"]["message"]) == (502, True)

        run(test)
        assert len(service.seen) == 1

    def test_a_page_of_googles_front_end_is_told_in_openais_form(self) -> None:
        async def test() -> None:
            async with proxied(GuardedService()) as (_, client):
                status, answer = await post(client, path="/v1/page")
                assert (status, answer["error"]["type"]) == (503, "ServiceUnavailableError")
                assert "Service Unavailable" in answer["error"]["message"]
                assert "<h1>" not in answer["error"]["message"]

        run(test)

    def test_a_port_in_use_is_one_clean_error(self) -> None:
        async def test() -> None:
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
                with pytest.raises(
                    Gemma4Error, match=f"port {port} of 127.0.0.1 cannot be used: something else listens"
                ):
                    async with running("http://127.0.0.1:9", port=port):
                        pass

        run(test)


class TestTheEnd:
    def test_answers_may_end_and_new_requests_are_refused_meanwhile(self) -> None:
        service = GuardedService()

        async def test() -> None:
            async with proxied(service) as (proxy, client):
                answer = await client.post("/v1/stream")
                end = asyncio.create_task(wound_up(proxy.forwarder, asyncio.Event(), said=lambda _: None, grace_s=15))
                await asyncio.sleep(0)
                assert (await post(client))[0] == 503
                service.cut = True
                service.step.release()
                await answer.content.read()
                await end
                assert not proxy.forwarder.running

        run(test)

    @pytest.mark.parametrize("second_signal", [True, False])
    def test_those_that_go_on_are_told(self, second_signal: bool) -> None:
        service = GuardedService()

        async def test() -> None:
            async with proxied(service) as (proxy, client):
                answer = await client.post("/v1/stream")
                at_once = asyncio.Event()
                if second_signal:
                    at_once.set()
                await wound_up(proxy.forwarder, at_once, said=lambda _: None, grace_s=15 if second_signal else 0.01)
                last = (await answer.content.read()).strip().removeprefix(b"data: ")
                assert "the proxy was stopped" in json.loads(last)["error"]["message"]
                await service.left.wait()

        run(test)
