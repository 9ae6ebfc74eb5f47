"""The client of a vLLM server: what it sends, what it measures, and what each refusal is told as."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import pytest

from infra.errors import ServingError
from infra.serving.check_stages import forced_length, user_message
from infra.serving.client import ChatRequest, ServingClient, ServingTimeouts
from infra.serving.server_errors import KEPT, AnswerError, FailureKind, cleaned
from infra.serving.stream import ChatStream
from tests.fakes.loopback import Exchange, Loopback
from tests.fakes.vllm import CLOUD_RUN_403, FakeVllm

HELLO = ChatRequest("gemma", user_message("Hello"), 8)
NO_SLICE = {
    "error": {
        "message": "no member answered: none is ready, or none had room in time; safe to retry",
        "type": "ServiceUnavailableError",
        "param": None,
        "code": 503,
    }
}


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


@pytest.fixture
def answering() -> Iterator[Callable[..., ServingClient]]:
    """A client of a server that gives one and the same answer to everything."""
    opened: list[Loopback] = []

    def made(answer: Callable[[Exchange], None], token: str | None = "id-token") -> ServingClient:
        opened.append(Loopback(answer))
        return ServingClient(
            opened[-1].url, token=lambda: token, timeouts=ServingTimeouts(question_s=0.1, completion_s=0.1)
        )

    yield made
    for loopback in opened:
        loopback.close()


def failure(call: Callable[[], object]) -> AnswerError:
    with pytest.raises(AnswerError) as caught:
        call()
    return caught.value


class TestQuestions:
    def test_answers_come_back_typed(self, server: FakeVllm) -> None:
        client = ServingClient(server.url)
        client.health()
        assert client.version() == "0.32.0"
        assert [(model.name, model.max_model_len) for model in client.models()] == [("gemma", 4096), ("spec-1", 4096)]
        answer = client.chat(HELLO)
        assert (answer.content, answer.reasoning) == ("ready", "")
        assert answer.prompt_tokens > 0

    def test_a_prefix_selects_one_slice_behind_a_gateway(self, server: FakeVllm) -> None:
        server.prefixes = ("/members/blue",)
        ServingClient(server.url, prefix="/members/blue").health()
        assert server.sent("/health") == [None]

    def test_fields_that_were_not_given_are_left_to_the_server(self) -> None:
        assert HELLO.body().keys() == {"model", "messages", "max_tokens"}
        assert ChatRequest("m", [], 1, temperature=0, extra={"ignore_eos": True}).body().keys() == {
            "model", "messages", "max_tokens", "temperature", "ignore_eos",
        }  # fmt: skip


class TestTheToken:
    def test_goes_with_every_request_and_is_asked_for_each_time(self, server: FakeVllm) -> None:
        tokens = iter(["one", "two"])
        client = ServingClient(server.url, token=lambda: next(tokens))
        client.health()
        client.version()
        assert server.tokens_seen == {"one", "two"}

    def test_gives_way_to_no_netrc_file(
        self, server: FakeVllm, tmp_path: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = f"{tmp_path}/netrc"
        with open(netrc, "w") as file:
            file.write("machine 127.0.0.1 login a password b\n")
        monkeypatch.setenv("NETRC", netrc)
        ServingClient(server.url, token=lambda: "mine").health()
        ServingClient(server.url).health()
        assert server.tokens_seen == {"mine", ""}

    def test_never_travels_unencrypted(self) -> None:
        with pytest.raises(ServingError, match="anybody in between could read the token"):
            ServingClient("http://gemma.example.com", token=lambda: "secret")

    def test_follows_no_redirect(self, answering: Callable[..., ServingClient]) -> None:
        client = answering(lambda exchange: exchange.reply(302, headers={"Location": "http://127.0.0.1:9/"}))
        error = failure(client.health)
        assert error.kind is FailureKind.REJECTED
        assert "sign-in page" in str(error)

    @pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
    def test_stands_in_no_error(self, answering: Callable[..., ServingClient], status: int) -> None:
        client = answering(lambda exchange: exchange.reply(status, b"you sent Bearer id-token, hf_abcdefghijkl"))
        text = str(failure(client.health))
        assert "id-token" not in text
        assert "hf_" not in text


class TestRefusals:
    """(status, body) -> what it is, and words that must be in the sentence."""

    @pytest.mark.parametrize(
        ("status", "body", "kind", "words"),
        [
            (401, b"", FailureKind.FORBIDDEN, "roles/run.invoker"),
            (403, CLOUD_RUN_403.encode(), FailureKind.FORBIDDEN, "does not have permission"),
            (401, {"error": "Unauthorized"}, FailureKind.REJECTED, "api-key"),
            (404, b"<html><title>404</title>Page not found</html>", FailureKind.NOT_FOUND, "wrong URL or slice name"),
            (404, {"error": {"message": "The model `x` does not exist."}}, FailureKind.NOT_FOUND, "`x` does not exist"),
            (429, b"Rate exceeded.", FailureKind.BUSY, "scaling.maxInstances"),
            (
                429,
                {"error": {"message": "too many requests in flight"}},
                FailureKind.BUSY,
                "too many requests in flight.",
            ),
            (503, NO_SLICE, FailureKind.UNAVAILABLE, "no member answered"),
            (503, b"Service Unavailable", FailureKind.UNAVAILABLE, "its container has exited"),
            (500, {"error": {"message": "EngineCore encountered an issue."}}, FailureKind.ENGINE_DEAD, "EngineCore"),
            (500, {"error": {"message": "Failed to apply prompt"}}, FailureKind.FAILED, "Failed to apply prompt."),
            (400, {"error": {"message": "max_tokens=5000"}}, FailureKind.REJECTED, "max_tokens=5000"),
            (200, b"<html>hello</html>", FailureKind.UNREADABLE, "This is not vLLM"),
        ],
    )
    def test_are_told_apart(
        self, answering: Callable[..., ServingClient], status: int, body: object, kind: FailureKind, words: str
    ) -> None:
        error = failure(answering(lambda exchange: exchange.reply(status, body)).version)
        assert error.kind is kind
        assert words in str(error)
        assert error.status == status

    def test_of_metrics_without_a_metric_say_that_this_is_not_vllm(
        self, answering: Callable[..., ServingClient]
    ) -> None:
        error = failure(answering(lambda exchange: exchange.reply(200, b"<html>Welcome!</html>")).metrics)
        assert error.kind is FailureKind.UNREADABLE
        assert "Welcome!" in str(error)
        assert "This is not vLLM" in str(error)

    def test_of_a_key_that_was_not_sent_name_where_to_put_it(self, answering: Callable[..., ServingClient]) -> None:
        client = answering(lambda exchange: exchange.reply(401, {"error": "Unauthorized"}), token=None)
        assert "GEMMA4_API_KEY" in str(failure(client.health))

    def test_of_a_request_without_a_token_name_the_missing_sign_in(
        self, answering: Callable[..., ServingClient]
    ) -> None:
        client = answering(lambda exchange: exchange.reply(403, b""), token=None)
        assert "No identity token was sent" in str(failure(client.health))

    def test_name_the_audience_without_a_path(self, answering: Callable[..., ServingClient]) -> None:
        client = answering(lambda exchange: exchange.reply(403, b""))
        assert f"must be {client.audience} (the base URL" in str(failure(client.health))

    def test_by_silence_and_by_nobody(self, answering: Callable[..., ServingClient]) -> None:
        with FakeVllm() as gone:
            pass
        assert failure(ServingClient(gone.url).health).kind is FailureKind.UNREACHABLE
        assert failure(answering(lambda exchange: exchange.cut()).health).kind is FailureKind.CUT
        released = threading.Event()
        silent = answering(lambda _: bool(released.wait()))
        assert failure(silent.health).kind is FailureKind.SILENT
        released.set()

    def test_are_quoted_short_and_printable(self) -> None:
        assert cleaned("a\x1b[31m\n\tb") == "a [31m b"
        assert len(cleaned("x" * 5000)) == KEPT + 1


class TestStreams:
    def test_give_pieces_and_the_server_s_own_count(self, server: FakeVllm) -> None:
        with ServingClient(server.url).stream(HELLO) as stream:
            text = "".join(piece.content for piece in stream)
        assert text == " w0 w1 w2"
        assert stream.timing.output_tokens == 3
        assert stream.timing.prompt_tokens > 0
        assert server.sent("/v1/chat/completions")[0]["stream_options"] == {
            "include_usage": True,
            "continuous_usage_stats": True,
        }

    def test_hand_on_each_piece_when_it_comes(self, server: FakeVllm) -> None:
        server.token_pause_s = 0.01
        request = ChatRequest("gemma", user_message("Hello"), 5, extra=forced_length(5))
        with ServingClient(server.url).stream(request) as stream:
            assert [bool(piece) for piece in stream] == [False, *[True] * 5, False]
        assert len(stream.timing.gaps_s) == 4
        assert max(stream.timing.gaps_s) > 0.005, "a client that waits for more would see them all at once"

    def test_do_so_also_where_a_proxy_has_taken_the_chunks_away(self, answering: Callable[..., ServingClient]) -> None:
        event = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
        end = b"data: [DONE]\n\n"
        read = threading.Event()

        def answer(exchange: Exchange) -> None:
            exchange.begin(200, len(event) + len(end))
            exchange.wfile.write(event)
            assert read.wait(1), "the end is only sent once the first piece was seen"
            exchange.wfile.write(end)

        with answering(answer).stream(HELLO) as stream:
            for piece in stream:
                assert piece.content == "a"
                read.set()

    def test_keep_reasoning_apart_from_the_answer(self, server: FakeVllm) -> None:
        thinking = {"chat_template_kwargs": {"enable_thinking": True}}
        with ServingClient(server.url).stream(ChatRequest("gemma", user_message("Hello"), 8, extra=thinking)) as stream:
            pieces = list(stream)
        assert "".join(piece.reasoning for piece in pieces) == "90 minutes are more than an hour."
        assert (stream.answer.content, stream.answer.reasoning) == (" w0 w1 w2", "90 minutes are more than an hour.")
        assert stream.answer.finish_reason == "stop"

    def test_join_the_pieces_of_tool_calls_as_the_whole_answer_has_them(self, server: FakeVllm) -> None:
        tool = {"type": "function", "function": {"name": "report", "parameters": {"type": "object"}}}
        request = ChatRequest("gemma", user_message("Hello"), 8, tools=[tool])
        client = ServingClient(server.url)
        with client.stream(request) as stream:
            assert sum(len(piece.calls) for piece in stream) > 2
        assert stream.answer.tool_calls == client.chat(request).tool_calls
        assert stream.answer.tool_calls[0].name == "report"
        assert json.loads(stream.answer.tool_calls[0].arguments) == {"state": "ready"}
        assert stream.answer.finish_reason == "tool_calls"
        assert stream.timing.ttft_s < stream.timing.total_s, "the first piece of a call is the first token"

    def test_that_are_left_early_are_counted_and_their_connection_closed(self) -> None:
        event = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
        gone = threading.Event()

        def answer(exchange: Exchange) -> None:
            exchange.begin(200, 10**9)
            exchange.wfile.write(event)
            exchange.connection.settimeout(5)
            while exchange.connection.recv(4096):
                pass  # the request's own body, where it came after its headers
            gone.set()

        loopback = Loopback(answer)
        try:
            with ServingClient(loopback.url).stream(HELLO) as stream:
                for _ in stream:
                    break
            assert gone.wait(5), "vLLM stops when its client goes away"
        finally:
            loopback.close()
        assert (stream.answer.content, stream.answer.prompt_tokens, stream.timing.output_tokens) == ("a", 9, 4)
        assert stream.answer.finish_reason == ""
        assert stream.timing.total_s > 0

    def test_are_timed_from_the_request_to_the_first_text(self) -> None:
        now = iter([10.5, 11.0, 11.5, 13.0])
        contents = ["", "a", "b", "c"]
        lines = [b'data: {"choices":[{"delta":{"content":"%s"}}]}' % content.encode() for content in contents]
        stream = ChatStream([*lines, b"data: [DONE]"], "POST", started=10.0, clock=lambda: next(now))
        list(stream)
        assert stream.timing.ttft_s == 0.5, "the empty first piece is no token"
        assert stream.timing.gaps_s == (0.5, 0.5)
        assert stream.timing.total_s == 3.0
        assert stream.timing.decode_tokens_per_second == 2.0

    def test_of_which_the_engine_dies_are_failures(self, server: FakeVllm) -> None:
        server.mode = "breaks off"
        with (
            pytest.raises(AnswerError, match="EngineCore") as caught,
            ServingClient(server.url).stream(HELLO) as stream,
        ):
            list(stream)
        assert caught.value.kind is FailureKind.ENGINE_DEAD

    def test_without_their_end_mark_are_cut(self, answering: Callable[..., ServingClient]) -> None:
        event = json.dumps({"choices": [{"delta": {"content": "a"}}]})
        client = answering(lambda exchange: exchange.reply(200, f"data: {event}\n\n".encode()))
        with pytest.raises(AnswerError, match="before its end mark"), client.stream(HELLO) as stream:
            list(stream)
