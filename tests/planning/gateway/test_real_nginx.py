"""What a real nginx does with the gateway's configuration before two servers. Skipped, with the reason, without nginx."""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from infra.planning.gateway.nginx import READY_PATH, render_nginx
from tests.fakes.gateway import NGINX, Gateway, launch, missing
from tests.fakes.slices import PATIENCE_S, FakeSlice, two_slices

CHAT = "/v1/chat/completions"

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
Start = Callable[..., Gateway]


@pytest.fixture
def pair() -> Iterator[tuple[FakeSlice, FakeSlice]]:
    with two_slices() as slices:
        yield slices


@pytest.fixture
def blue(pair: tuple[FakeSlice, FakeSlice]) -> FakeSlice:
    return pair[0]


@pytest.fixture
def green(pair: tuple[FakeSlice, FakeSlice]) -> FakeSlice:
    return pair[1]


@pytest.fixture
def start(blue: FakeSlice, green: FakeSlice) -> Iterator[Start]:
    """Starts a gateway before the two slices; `slices` names other addresses."""
    started: list[Gateway] = []

    def start(slices: Mapping[str, str] | None = None, **settings: Any) -> Gateway:
        addresses = {"blue": blue.address, "green": green.address} if slices is None else slices
        started.append(Gateway(addresses, blue.port, **settings))
        return started[-1]

    yield start
    for gateway in started:
        gateway.close()


def in_background(action: Callable[[], Any]) -> Callable[[], Any]:
    """Starts `action` at once; the returned function waits for its result."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(action()), daemon=True)
    thread.start()

    def finish() -> Any:
        thread.join(PATIENCE_S)
        assert result, "the request did not end"
        return result[0]

    return finish


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@contextmanager
def silent(address: str) -> Iterator[int]:
    """A port that takes no connection and refuses none, as a machine that is gone: its queue is full."""
    with socket.create_server((address, 0), backlog=0) as listener, ExitStack() as waiting:
        for _ in range(4):
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield int(listener.getsockname()[1])


class TestEveryConfigurationIsValid:
    @pytest.mark.parametrize(
        "slices",
        [
            {},
            {"blue": ""},
            {"blue": "10.8.0.2"},
            {"blue": "10.8.0.2", "green": ""},
            {"blue": "10.8.0.2", "green": "10.8.0.3"},
        ],
        ids=["no slice", "none ready", "one", "one of two", "two"],
    )
    def test_nginx_accepts_it_without_a_warning_of_ours(self, slices: dict[str, str], tmp_path: Path) -> None:
        file = tmp_path / "nginx.conf"
        scratch = str(tmp_path)
        file.write_text(render_nginx(project="my-project", slices=slices, in_flight_limit=64, scratch=scratch))
        assert NGINX
        done = subprocess.run([NGINX, "-t", "-e", "stderr", "-c", file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        warnings = [line for line in done.stderr.splitlines() if "[" in line and "open file resource limit" not in line]
        assert warnings == []


class TestAStreamLeavesAsItComes:
    @pytest.mark.parametrize("prefix", ["", "/slices/blue"], ids=["balanced", "by name"])
    def test_each_event_arrives_before_the_next_one_is_sent(self, start: Start, blue: FakeSlice, prefix: str) -> None:
        gateway = start({"blue": blue.address})
        with gateway.open("POST", prefix + CHAT, {"stream": True}) as answer:
            events = []
            for _ in range(6):
                blue.chunk.release()
                events.append(answer.readline().strip())
                assert answer.readline() == b"\n"
            assert events == [*(f"data: {n}".encode() for n in range(5)), b"data: [DONE]"]
            assert answer.read() == b""

    def test_two_streams_do_not_wait_for_each_other(self, start: Start, blue: FakeSlice, green: FakeSlice) -> None:
        gateway = start()
        with (
            gateway.open("POST", f"/slices/blue{CHAT}", {"stream": True}) as first,
            gateway.open("POST", f"/slices/green{CHAT}", {"stream": True}) as second,
        ):
            for number in range(5):
                for server, answer in ((green, second), (blue, first)):
                    server.chunk.release()
                    assert (answer.readline(), answer.readline()) == (f"data: {number}\n".encode(), b"\n")

    def test_a_request_body_reaches_the_slice_before_it_is_complete(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})

        def halves() -> Iterator[bytes]:
            yield b"a" * 1000
            assert blue.received.get(timeout=PATIENCE_S) == b"a" * 1000
            yield b"b" * 1000

        with gateway.open("POST", CHAT, halves(), {"Content-Length": "2000"}) as answer:
            assert answer.status == 200

    def test_a_stream_that_was_cut_does_not_look_complete(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        with gateway.open("POST", CHAT, {"stream": True}) as answer:
            blue.chunk.release()
            assert answer.readline() == b"data: 0\n"
            blue.kill()
            with pytest.raises(http.client.IncompleteRead):
                answer.read()

    def test_a_client_that_goes_away_ends_the_stream_at_the_slice(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        with gateway.open("POST", CHAT, {"stream": True}) as answer:
            blue.chunk.release()
            answer.readline()
            assert not gateway.log()
        until(gateway.log)  # the slice sends nothing more: only the client's leaving can have ended the request


class TestRequestsGoWhereTheyCanBeServed:
    def test_new_requests_go_on_when_one_of_two_dies(self, start: Start, blue: FakeSlice) -> None:
        gateway = start()
        for _ in range(8):  # both have served, so nothing depends on which was first
            assert gateway.request("POST", CHAT, {})[0].status == 200
        blue.kill()
        answers = [gateway.request("POST", CHAT, {}) for _ in range(40)]
        assert [(answer.status, body) for answer, body in answers] == [(200, {"slice": "green"})] * 40

    def test_a_slice_that_answers_before_the_body_is_whole_is_not_taken_for_dead(self, start: Start) -> None:
        """vLLM answers a POST to a path that it does not know at once, and resets the rest of a large body."""
        gateway = start()
        for _ in range(6):
            with suppress(OSError, http.client.HTTPException):  # what becomes of the caller is the network's choice
                gateway.request("POST", "/chat/completions", b"x" * 4_000_000)
        until(lambda: len(gateway.log()) == 6)
        assert [gateway.request("GET", "/v1/models")[0].status for _ in range(20)] == [200] * 20
        assert gateway.request("POST", CHAT, b"x" * 4_000_000)[0].status == 200

    def test_nobody_sees_that_one_of_two_is_dead_and_with_both_dead_it_is_said_at_once(
        self, start: Start, blue: FakeSlice, green: FakeSlice
    ) -> None:
        gateway = start()
        blue.kill()
        assert [gateway.request("GET", "/v1/models")[0].status for _ in range(20)] == [200] * 20
        green.kill()
        assert [gateway.request("GET", "/v1/models")[0].status for _ in range(5)] == [503] * 5

    def test_a_slice_that_comes_back_is_used_again(self, start: Start, blue: FakeSlice, green: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        blue.kill()
        assert gateway.request("POST", CHAT, {})[0].status == 503
        again = FakeSlice("blue", blue.address, blue.port)
        try:
            assert gateway.request("POST", CHAT, {})[0].status == 200
        finally:
            again.kill()

    def test_a_request_at_work_is_not_repeated_elsewhere(self, start: Start, blue: FakeSlice, green: FakeSlice) -> None:
        gateway = start()
        blue.gate.clear()
        green.gate.clear()
        finish = in_background(lambda: gateway.request("POST", CHAT, {}))
        until(lambda: blue.seen or green.seen)
        busy, other = (blue, green) if blue.seen else (green, blue)
        busy.kill()
        answer, body = finish()
        assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
        assert body["error"]["type"] == "ServiceUnavailableError"
        assert other.seen == []

    def test_the_slice_with_the_fewest_requests_gets_the_next(
        self, start: Start, blue: FakeSlice, green: FakeSlice
    ) -> None:
        gateway = start()
        with gateway.open("POST", CHAT, {"stream": True}) as stream:
            busy = stream.headers["X-Slice"]
            idle = {"blue": "green", "green": "blue"}[busy]
            assert [gateway.request("POST", CHAT, {})[1]["slice"] for _ in range(6)] == [idle] * 6

    def test_no_request_depends_on_a_connection_that_a_slice_may_have_closed(
        self, start: Start, blue: FakeSlice
    ) -> None:
        gateway = start({"blue": blue.address})
        for path in (CHAT, CHAT, f"/slices/blue{CHAT}", f"/slices/blue{CHAT}"):
            assert gateway.request("POST", path, {})[0].status == 200
        assert [seen["connection"] for seen in blue.seen] == ["close"] * 4
        assert blue.connections == 4

    def test_no_caller_is_left_with_a_connection_whose_body_was_not_read(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address}, in_flight_limit=1)
        headers = {"Content-Length": "1000"}  # and no body: what is decided before it comes
        blue.kill()
        answers = [
            gateway.request("POST", path, None, headers)[0] for path in (CHAT, "/slices/x/v1", f"/slices/blue{CHAT}")
        ]
        assert [(answer.status, answer.headers["Connection"]) for answer in answers] == [
            (503, "close"),
            (404, "close"),
            (503, "close"),
        ]

    def test_all_down_is_said_in_json(self, start: Start, blue: FakeSlice, green: FakeSlice) -> None:
        gateway = start()
        blue.kill()
        green.kill()
        for _ in range(3):  # refused, then known to be down
            answer, body = gateway.request("POST", CHAT, b"x" * 300_000)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
            assert answer.headers["Content-Type"] == "application/json"
            assert body["error"]["code"] == 503


class TestASliceIsReachedByItsName:
    def test_no_other_slice_ever_answers_for_it(self, start: Start, blue: FakeSlice, green: FakeSlice) -> None:
        gateway = start()
        for name in ("blue", "green"):
            found = {gateway.request("GET", f"/slices/{name}/v1/models")[1]["data"][0]["id"] for _ in range(10)}
            assert found == {name}
        blue.kill()
        assert [gateway.request("GET", "/slices/blue/v1/models")[0].status for _ in range(5)] == [503] * 5
        assert green.seen[-1][":target"] == "/v1/models"
        assert len(green.seen) == 10

    @pytest.mark.parametrize(
        ("asked", "got"),
        [("/metrics", "/metrics"), ("/v1/a%20b?q=a%20b&r=%2F", "/v1/a%20b?q=a%20b&r=%2F"), ("/", "/")],
    )
    def test_path_and_query_arrive_unharmed(self, start: Start, blue: FakeSlice, asked: str, got: str) -> None:
        assert start().request("GET", f"/slices/blue{asked}")[1]["target"] == got

    @pytest.mark.parametrize("asked", ["/slices/blue/x%0d%0aX-Evil:%201", "/x%0d%0aX-Evil:%201"])
    def test_an_encoded_line_end_stays_encoded(self, start: Start, blue: FakeSlice, asked: str) -> None:
        start({"blue": blue.address}).request("GET", asked)
        assert "x-evil" not in blue.seen[0]
        assert blue.seen[0][":target"].lower() == "/x%0d%0ax-evil:%201"

    @pytest.mark.parametrize("path", ["/slices/purple/v1/models", "/slices/", "/slices/bluegreen/health"])
    def test_an_unknown_name_is_not_found(self, start: Start, blue: FakeSlice, green: FakeSlice, path: str) -> None:
        answer, body = start().request("GET", path)
        assert (answer.status, body["error"]["code"]) == (404, 404)
        assert body["error"]["message"] == "no such slice; there is blue, green"
        assert blue.seen == green.seen == []

    def test_a_name_without_a_path_is_sent_to_its_root(self, start: Start) -> None:
        answer, _ = start().request("GET", "/slices/blue")
        assert (answer.status, answer.headers["Location"]) == (301, "/slices/blue/")

    def test_a_slice_that_waits_for_capacity_says_so_and_serves_nobody(
        self, start: Start, blue: FakeSlice, green: FakeSlice
    ) -> None:
        gateway = start({"blue": blue.address, "green": ""})
        answer, body = gateway.request("GET", "/slices/green/v1/models")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "60")
        assert body["error"]["message"] == "slice green has no address yet"
        assert {gateway.request("POST", CHAT, {})[1]["slice"] for _ in range(6)} == {"blue"}
        assert green.seen == []

    def test_the_answer_says_which_slice_gave_it(self, start: Start) -> None:
        gateway = start()
        for _ in range(4):
            answer, body = gateway.request("GET", "/v1/models")
            assert answer.headers["X-Slice"] == body["data"][0]["id"]


class TestTheGatewayAnswersForItself:
    @pytest.mark.parametrize("slices", [{}, {"blue": ""}], ids=["no slice", "none ready"])
    def test_without_slices_it_is_ready_and_says_that_none_serves(self, start: Start, slices: dict[str, str]) -> None:
        gateway = start(slices)
        assert gateway.request("GET", READY_PATH)[0].status == 200
        for method, target in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/health")):
            answer, body = gateway.request(method, target, {} if method == "POST" else None)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "60")
            assert body["error"]["message"] == "no slice has an address yet"

    def test_it_is_ready_when_a_slice_answers_whatever_it_says_or_refuses(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        for blue.health in (200, 503, 500, 404):
            assert gateway.request("GET", READY_PATH)[0].status == 200
        assert len(blue.seen) == 4
        blue.kill()
        assert gateway.request("GET", READY_PATH)[0].status == 200

    def test_it_comes_up_before_a_slice_that_has_ended_once_no_vpc_would_take_so_long(self, start: Start) -> None:
        with silent("127.0.0.4") as port:
            gateway = Gateway({"blue": "127.0.0.4"}, port, patience_s=0)
            try:
                until(lambda: (gateway.folder / "waited").exists())
                assert gateway.request("GET", READY_PATH)[0].status == 200
            finally:
                gateway.close()
        assert not (start().folder / "waited").exists()  # else a fresh instance would take requests without a VPC

    def test_the_startup_probe_marks_no_slice_as_failed(self, start: Start, blue: FakeSlice) -> None:
        gateway = start()
        blue.kill()
        for _ in range(4):
            gateway.request("GET", READY_PATH)
        again = FakeSlice("blue", blue.address, blue.port)
        try:
            assert {gateway.request("POST", CHAT, {})[1]["slice"] for _ in range(6)} == {"blue", "green"}
        finally:
            again.kill()

    def test_it_is_up_whatever_the_slices_do(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        blue.kill()
        answer, body = gateway.request("GET", "/gateway/up")
        assert (answer.status, body) == (200, b"ok\n")

    def test_more_requests_than_the_limit_are_told_to_come_back(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address}, in_flight_limit=2)
        blue.gate.clear()
        waiting = [in_background(lambda: gateway.request("POST", CHAT, {})) for _ in range(2)]
        for _ in waiting:
            blue.arrived.get(timeout=PATIENCE_S)
        answer, body = gateway.request("POST", CHAT, {})
        assert (answer.status, answer.headers["Retry-After"]) == (429, "5")
        assert body["error"]["type"] == "RateLimitError"
        assert gateway.request("GET", "/slices/blue/v1/models")[0].status == 200
        assert gateway.request("GET", READY_PATH)[0].status == 200
        blue.gate.set()
        assert [finish()[0].status for finish in waiting] == [200, 200]
        assert gateway.request("POST", CHAT, {})[0].status == 200

    def test_an_answer_of_the_slice_is_passed_on_even_if_it_is_an_error(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        for blue.health in (429, 502, 503, 504):
            answer, body = gateway.request("GET", "/health")
            assert (answer.status, body) == (blue.health, {})

    @pytest.mark.parametrize("path", [CHAT, f"/slices/blue{CHAT}"])
    def test_a_body_over_32_mib_is_refused_in_json(self, start: Start, blue: FakeSlice, path: str) -> None:
        gateway = start()
        answer, body = gateway.request("POST", path, None, {"Content-Length": str(32 * 1024 * 1024 + 1)})
        assert (answer.status, body["error"]["code"]) == (413, 413)
        assert gateway.request("POST", path, b"x" * (32 * 1024 * 1024))[0].status == 200


class TestACallersTokenEndsHere:
    SECRET = "Bearer eyJ.a.token"

    @pytest.mark.parametrize("path", [CHAT, f"/slices/blue{CHAT}"])
    def test_it_reaches_neither_slice_nor_log(self, start: Start, blue: FakeSlice, path: str) -> None:
        gateway = start({"blue": blue.address})
        headers = {"Authorization": self.SECRET, "X-Serverless-Authorization": self.SECRET, "X-Mine": "kept"}
        assert gateway.request("POST", path + "?key=hidden", {}, headers)[0].status == 200
        (seen,) = blue.seen
        assert (seen["x-mine"], seen["host"]) == ("kept", "127.0.0.1")
        assert not {"authorization", "x-serverless-authorization"} & set(seen)
        until(gateway.log)
        written = "".join((gateway.folder / name).read_text() for name in ("stdout", "stderr"))
        assert "eyJ" not in written
        assert "hidden" not in written


class TestTheLogIsForCloudLogging:
    def test_a_line_carries_trace_slice_and_status(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        trace = "0af7651916cd43dd8448eb211c80319c"
        gateway.request("GET", '/v1/"x"', headers={"X-Cloud-Trace-Context": f"{trace}/1;o=1"})
        until(gateway.log)
        (line,) = gateway.log()
        assert line["severity"] == "INFO"
        assert line["logging.googleapis.com/trace"] == f"projects/my-project/traces/{trace}"
        assert (line["slice"], line["tried"]) == ("blue", "200")
        assert line["requestId"] == blue.seen[0]["x-request-id"]
        request = line["httpRequest"]
        assert (request["requestMethod"], request["requestUrl"], request["status"]) == ("GET", '/v1/"x"', 200)
        assert re.fullmatch(r"\d+\.\d+s", request["latency"])

    def test_a_failure_is_an_error_and_names_the_slice_tried_last(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        blue.kill()
        gateway.request("POST", CHAT, {})
        until(gateway.log)
        assert (gateway.log()[0]["severity"], gateway.log()[0]["slice"]) == ("ERROR", "blue")

    def test_probes_and_scrapes_are_not_logged(self, start: Start) -> None:
        gateway = start()
        for path in ("/health", "/metrics", "/slices/blue/metrics", "/gateway/up", READY_PATH, "/v1/models"):
            gateway.request("GET", path)
        until(gateway.log)
        assert [line["httpRequest"]["requestUrl"] for line in gateway.log()] == ["/v1/models"]


class TestTheContainerEndsWell:
    def test_what_runs_may_finish_after_a_sigterm(self, start: Start, blue: FakeSlice) -> None:
        gateway = start({"blue": blue.address})
        with gateway.open("POST", CHAT, {"stream": True}) as answer:
            blue.chunk.release()
            assert answer.readline() == b"data: 0\n"
            gateway.process.send_signal(signal.SIGTERM)
            until(lambda: not gateway.listens())
            assert gateway.process.poll() is None
            blue.chunk.release(5)
            assert answer.read().endswith(b"data: [DONE]\n\n")
        assert gateway.process.wait(PATIENCE_S) == 0

    def test_an_idle_gateway_ends_at_once(self, start: Start) -> None:
        gateway = start()
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(PATIENCE_S) == 0

    def test_a_configuration_that_nginx_refuses_ends_the_container(self) -> None:
        folder = tempfile.mkdtemp(prefix="gateway-")
        try:
            assert launch("nonsense;", folder, patience_s=0).wait(PATIENCE_S) == 1
            assert "nonsense" in Path(folder, "stderr").read_text()
        finally:
            shutil.rmtree(folder)
