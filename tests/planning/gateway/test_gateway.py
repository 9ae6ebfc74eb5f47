"""What the gateway's configuration says, and the service around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from infra.planning.gateway.limits import plan_gateway
from infra.planning.gateway.nginx import READY_PATH, render_nginx
from infra.planning.settings.declarations import MOST_CONCURRENCY

BLUE, GREEN = "10.8.0.2", "10.8.0.3"


def render(slices: Mapping[str, str], **settings: Any) -> str:
    return render_nginx(project="my-project", slices=slices, **{"in_flight_limit": 64, **settings})


class TestTheConfigurationIsAFunctionOfItsInput:
    def test_the_order_of_the_slices_does_not_matter(self) -> None:
        assert render({"blue": BLUE, "green": GREEN}) == render({"green": GREEN, "blue": BLUE})

    def test_a_slice_without_an_address_is_named_but_not_balanced(self) -> None:
        text = render({"blue": BLUE, "green": ""})
        assert text.count(f"server {BLUE}:8000") == 3
        assert len(re.findall(r"^\s+server \d", text, re.MULTILINE)) == 3
        assert "location /slices/green/ { add_header Retry-After" in text

    def test_nothing_is_left_to_fill_in(self) -> None:
        assert "%" not in render({"blue": BLUE, "green": ""})

    def test_the_trace_names_the_project(self) -> None:
        assert '"projects/my-project/traces/$id"' in render({"blue": BLUE})

    @pytest.mark.parametrize("name", ["", "Blue", "blue;", "a b", "blue/../green", "$x", "é", "1st", "blue\n"])
    def test_a_name_that_nginx_could_misread_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="not the name of a slice"):
            render({name: BLUE})

    @pytest.mark.parametrize("address", ["10.8.0", "10.8.0.2; deny all", "metadata.google.internal", "::1", " "])
    def test_only_an_ip_address_is_an_address(self, address: str) -> None:
        with pytest.raises(ValueError, match=r"4 octets|Only decimal digits|Expected"):
            render({"blue": address})

    def test_an_address_that_two_slices_claim_is_asked_once_and_by_both_names(self) -> None:
        """One has ended and its address went to the other: a gateway that works is better than none."""
        text = render({"blue": BLUE, "green": BLUE})
        assert re.findall(r'"~(\S+:8000\$)" (\S+);', text) == [(r"\b10\.8\.0\.2:8000$", "blue,green")]
        assert len(re.findall(r"^\s+server \d", text, re.MULTILINE)) == 3
        for name in ("blue", "green"):
            assert f"location /slices/{name}/ {{ proxy_pass http://{BLUE}:8000/; }}" in text

    @pytest.mark.parametrize("project", ["", "my project", 'p"', "p;"])
    def test_a_project_that_nginx_could_misread_is_refused(self, project: str) -> None:
        with pytest.raises(ValueError, match="not a project id"):
            render_nginx(project=project, slices={}, in_flight_limit=1)

    def test_a_limit_that_refuses_everything_is_refused(self) -> None:
        with pytest.raises(ValueError, match="would refuse every request"):
            render({"blue": BLUE}, in_flight_limit=0)

    def test_silence_is_the_only_answer_that_keeps_the_startup_probe_waiting(self) -> None:
        block = render({"blue": BLUE}).partition(f"location = {READY_PATH} {{")[2].partition("location /")[0]
        assert "proxy_next_upstream off;" in block  # one slice a probe, so that it is over before the probe's time-out
        assert "error_page 404 500 502 503 =200 /gateway/up;" in block  # and not 504
        probed = render({"blue": BLUE, "green": GREEN}).partition("upstream reach {")[2].partition("}")[0]
        assert probed.count("max_fails=0;") == probed.count("server ") == 2  # else silence turns into "none is alive"

    def test_an_answer_may_take_as_long_as_a_request(self) -> None:
        assert "proxy_read_timeout 3600s;" in render({"blue": BLUE})
        assert "proxy_read_timeout 600s;" in render({"blue": BLUE}, request_timeout_s=600)

    def test_no_failure_mark_leaves_a_request_without_a_server_to_ask(self) -> None:
        balanced = render({"blue": BLUE, "green": GREEN}).partition("upstream slices {")[2].partition("}")[0]
        for server in (f"{BLUE}:8000", f"{GREEN}:8000"):
            assert re.findall(rf"server {server} (.*);", balanced) == [
                "max_fails=1 fail_timeout=10s",
                "max_fails=0 backup",
            ]

    def test_an_address_that_ends_like_another_is_not_taken_for_it(self) -> None:
        text = render({"blue": BLUE, "green": f"1{BLUE}"})
        patterns = {name: re.compile(pattern) for pattern, name in re.findall(r'"~(\S+:8000\$)" (\w+);', text)}
        for tried, expected in ((f"{BLUE}:8000", "blue"), (f"{BLUE}:8000, 1{BLUE}:8000", "green")):
            assert [name for name, pattern in patterns.items() if pattern.search(tried)] == [expected]


class TestWhatCloudRunIsGivenFitsIt:
    def test_eight_slices_fit_into_an_environment_variable(self) -> None:
        slices = {f"slice{number}xxxxx": f"10.8.0.{number}" for number in range(8)}
        assert len(render(slices)) < 32 * 1024

    def test_no_variable_reference_is_read_into_configuration_or_command(self) -> None:
        command = plan_gateway(1).command
        assert "$(" not in "".join((render({"blue": BLUE, "green": ""}), *command))

    def test_the_limit_refuses_before_cloud_run_does(self) -> None:
        for slices in range(1, 9):
            for held in (1, 16, 256, 4096, None):
                plan = plan_gateway(slices, held)
                assert 0 < plan.in_flight_limit < plan.concurrency <= MOST_CONCURRENCY

    def test_every_slice_adds_what_it_may_hold(self) -> None:
        assert [plan_gateway(slices, 20).in_flight_limit for slices in (1, 2, 3)] == [20, 40, 60]

    def test_the_probe_is_within_the_limits_of_a_service_without_a_gpu(self) -> None:
        probe = plan_gateway(1).probe
        assert probe.path == READY_PATH
        assert probe.timeout_s <= probe.period_s
        assert 80 < probe.window_s <= 240
