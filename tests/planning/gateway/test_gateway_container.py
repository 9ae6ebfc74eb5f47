"""How a real HAProxy starts, logs and ends in its container."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from infra.ops.plan_inputs import plan_stack
from infra.planning.gateway.haproxy import ALIVE_PATH, METRICS_PATH, READY_PATH
from infra.planning.gateway.limits import GatewayPlan
from infra.planning.gateway.members import gateway_members
from infra.planning.settings.stackfile import stack_names
from tests.fakes.gateway import HAPROXY, Gateway, launch, missing, until
from tests.fakes.members import PATIENCE_S, FakeMember
from tests.planning.gateway.conftest import BLUE, Start, settle

ROOT = Path(__file__).parents[3]
CHAT = "/v1/chat/completions"
GATEWAYS = {
    stack: plan
    for stack in stack_names(ROOT)
    if isinstance(getattr((plan := plan_stack(stack, root=ROOT).plan).deployment, "gateway", None), GatewayPlan)
}

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


class TestTheLogIsForCloudLogging:
    def test_a_line_carries_trace_member_waits_and_status(self, alone: Gateway, blue: FakeMember) -> None:
        trace = "0af7651916cd43dd8448eb211c80319c"
        alone.request("GET", '/v1/"x"', headers={"X-Cloud-Trace-Context": f"{trace}/1;o=1"})
        until(alone.log)
        (line,) = alone.log()
        assert line["severity"] == "INFO"
        assert line["logging.googleapis.com/trace"] == f"projects/my-project/traces/{trace}"
        assert line["member"] == BLUE
        assert line["requestId"] == blue.seen[0]["x-request-id"]
        assert all(line[name] >= 0 for name in ("waitMs", "connectMs", "firstByteMs", "totalMs"))
        assert line["httpRequest"] == {"requestMethod": "GET", "requestUrl": '/v1/"x"', "status": 200}
        assert "caller" not in line

    def test_the_caller_is_told_the_request_s_id(self, alone: Gateway, blue: FakeMember) -> None:
        answer, _ = alone.request("GET", "/v1/models", headers={"X-Request-Id": "of-somebody"})
        assert answer.headers["X-Request-Id"] == blue.seen[0]["x-request-id"] != "of-somebody"

    def test_a_failure_is_an_error_and_names_the_member_that_was_tried(self, alone: Gateway, blue: FakeMember) -> None:
        blue.gate.clear()
        with alone.open("POST", CHAT, {"stream": True}):
            pass
        until(alone.log)
        alone.forget_log()
        blue.kill()
        alone.request("POST", CHAT, {})
        until(alone.log)
        assert alone.log()[0]["severity"] == "ERROR"

    def test_what_no_caller_should_send_is_logged_as_json_too(self, gateway: Gateway) -> None:
        bad = [
            b'GET /\xff\xfe"\'\\%22 HTTP/1.1\r\nHost: x\r\nX-Cloud-Trace-Context: "},"a":1/2\r\n\r\n',
            b"NONSENSE\r\n\r\n",
            b'G"T / HTTP/1.1\r\nHost: x\r\n\r\n',
            b"GET /members/purple HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x00\x00",
        ]
        for text in bad:
            with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE_S) as caller:
                caller.sendall(text)
                caller.shutdown(socket.SHUT_WR)
                while caller.recv(4096):
                    pass
        until(lambda: len(gateway.log()) >= len(bad) - 1)
        assert all(set(line) >= {"severity", "httpRequest", "member"} for line in gateway.log())

    def test_probes_and_scrapes_are_not_logged(self, gateway: Gateway) -> None:
        for path in (
            "/health",
            "/metrics",
            "/members/blue/metrics",
            ALIVE_PATH,
            METRICS_PATH,
            READY_PATH,
            "/v1/models",
        ):
            gateway.request("GET", path)
        until(gateway.log)
        assert [line["httpRequest"]["requestUrl"] for line in gateway.log()] == ["/v1/models"]


@pytest.mark.parametrize("stack", GATEWAYS)
def test_haproxy_takes_the_configuration_of_every_stack_without_a_warning(stack: str, tmp_path: Path) -> None:
    plan = GATEWAYS[stack]
    gateway = getattr(plan.deployment, "gateway")  # noqa: B009 whichever platform has one
    file = tmp_path / "haproxy.cfg"
    file.write_text(gateway.configuration(plan.names) + "\n")
    assert HAPROXY
    done = subprocess.run([HAPROXY, "-c", "-f", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_configuration_in_several_variables_is_read_as_one() -> None:
    machines = [f"machine{number}xxxx" for number in range(8)]
    gateway = Gateway(gateway_members(machines, ports=range(8000, 8008)), {}, 8090)
    try:
        assert gateway.status("/members/machine7xxxx-b-7/v1/models") == 503
        assert gateway.status("/members/machine8xxxx/v1/models") == 404
    finally:
        gateway.close()


class TestTheContainerEndsWell:
    @pytest.fixture
    def own(self, start: Start, blue: FakeMember, green: FakeMember) -> Gateway:
        gateway = start()
        settle(gateway, blue, green)
        return gateway

    def test_what_runs_may_finish_after_a_sigterm(self, own: Gateway, blue: FakeMember) -> None:
        with own.open("POST", f"/members/blue{CHAT}", {"stream": True}) as answer:
            blue.chunk.release()
            assert answer.readline() == b"data: 0\n"
            own.process.send_signal(signal.SIGTERM)
            until(lambda: not own.listens())
            assert own.process.poll() is None
            blue.chunk.release(5)
            assert answer.read().endswith(b"data: [DONE]\n\n")
        assert own.process.wait(PATIENCE_S) == 0

    def test_an_idle_gateway_ends_at_once(self, own: Gateway) -> None:
        own.process.send_signal(signal.SIGTERM)
        assert own.process.wait(PATIENCE_S) == 0

    def test_neither_shell_nor_haproxy_stops_where_cloud_run_announces_that_the_network_moves(
        self, gateway: Gateway
    ) -> None:
        os.killpg(gateway.process.pid, signal.SIGTSTP)
        assert gateway.status("/v1/models") == 200

    def test_a_configuration_that_haproxy_refuses_ends_the_container(self) -> None:
        with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
            assert launch("nonsense", Path(folder)).wait(PATIENCE_S) == 1
            assert "nonsense" in (Path(folder) / "stderr").read_text()
