"""What the gateway's configuration says, and the service around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from infra.planning.gateway.container import environment, launch_script
from infra.planning.gateway.haproxy import READY_PATH, render_haproxy
from infra.planning.gateway.limits import MOST_INSTANCES, plan_gateway
from infra.planning.gateway.members import GatewayMember, by_path_name, gateway_members
from infra.planning.gateway.routing import Routing
from infra.planning.settings.declarations import MOST_CONCURRENCY, GatewaySettings

MEMBERS = gateway_members(["blue"], ports=[8000])


def render(members: Sequence[GatewayMember] = MEMBERS, **settings: Any) -> str:
    known = {"project": "my-project", "domain": "gemma4-v6e4.internal", "requests_each": 64}
    return render_haproxy(members=members, **{**known, **settings})


def section(text: str, head: str) -> str:
    return next(part for part in text.split("\n\n") if part.startswith((f"{head} ", f"{head}\n")))


class TestTheConfigurationIsAFunctionOfNames:
    def test_members_are_names_below_the_domain_and_only_the_dns_server_is_an_address(self) -> None:
        text = render()
        assert "server blue-a blue-a.gemma4-v6e4.internal:8000" in text
        assert set(re.findall(r"\d+\.\d+\.\d+\.\d+", text)) == {"169.254.169.254"}

    def test_a_machine_more_or_fewer_among_the_known_names_changes_nothing(self) -> None:
        assert render(gateway_members([], ports=[8000])) == render(gateway_members(["red", "blue"], ports=[8000]))

    def test_each_member_is_checked_once_by_its_own_name_and_followed_elsewhere(self) -> None:
        text = render()
        for member in MEMBERS:
            own = section(text, f"backend member.{member.name}")
            assert f"option httpchk GET /ready/{member.name}\n" in own
            assert " check port 8090" in own
            for followed in ("backend members", f"backend group.{member.group}"):
                assert f" track member.{member.name}/{member.name}" in section(text, followed)
        assert text.count(" check port ") == len(MEMBERS)

    def test_a_server_counts_as_down_until_it_has_been_checked(self) -> None:
        """From 3.1 on; before that the gateway itself is not ready until the first checks are over."""
        text = render()
        assert ".if version_atleast(3.1)\n    default-server init-state down\n.endif" in section(
            text, "defaults checked"
        )
        for member in MEMBERS:
            assert section(text, f"backend member.{member.name}").startswith(
                f"backend member.{member.name} from checked"
            )
        older = text.partition(".else\n")[2].partition(".endif")[0]
        assert READY_PATH in older
        assert "date,sub(proc.started) gt 3" in older

    def test_only_an_answer_with_an_address_moves_a_member_for_an_hour(self) -> None:
        holds = dict(re.findall(r"^    hold (\w+) (\w+)", section(render(), "resolvers vpc"), re.MULTILINE))
        assert holds == {
            "valid": "1s", "obsolete": "0s", "nx": "1h", "other": "1h", "refused": "1h", "timeout": "1h"
        }  # fmt: skip

    def test_no_two_sections_share_a_name(self) -> None:
        """HAProxy takes a frontend that is called like a `defaults` section up to 3.2, with Debian's 2.6 among them."""
        named = [part.split()[1] for part in render().split("\n\n") if not part.startswith("global")]
        assert len(set(named)) == len(named)

    def test_an_answer_may_take_as_long_as_a_request(self) -> None:
        for side in ("client", "server"):
            assert f"timeout {side} 3600s" in render()
            assert f"timeout {side} 600s" in render(request_timeout_s=600)

    def test_lines_of_routing_stand_where_they_were_asked_for(self) -> None:
        routing = Routing(
            global_lines=("tune.bufsize.large 262144",),
            sections=("backend callers\n    stick-table type string size 10k expire 10m store conn_cur",),
            frontend=("http-request set-var(txn.who) str(me)",),
            balanced=("balance hash var(txn.key)",),
            server="weight 100",
            log_fields=(("caller", '"%[var(txn.who)]"'),),
        )
        text = render(routing=routing)
        assert "tune.bufsize.large 262144" in text.partition("\ndefaults ")[0]
        assert "\nbackend callers\n    stick-table" in text
        before, _, after = section(text, "frontend gateway").partition("set-var(txn.who)")
        assert "set-var(txn.name)" in before
        assert "del-header Authorization" in after
        balanced = section(text, "backend members")
        assert "balance hash" in balanced
        assert "leastconn" not in balanced
        assert balanced.count(" weight 100\n") + balanced.rstrip().endswith(" weight 100") == len(MEMBERS)
        assert '"caller":"%[var(txn.who)]"' in text


class TestNames:
    @pytest.mark.parametrize("name", ["", "Blue", "blue;", "a b", "blue/../green", "$x", "é", "1st", "blue\n"])
    def test_one_that_haproxy_could_misread_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="not the name of a member"):
            render([GatewayMember(name, "blue", "blue", 8000)])

    @pytest.mark.parametrize("project", ["", "my project", 'p"', "p;"])
    def test_a_project_that_haproxy_could_misread_is_refused(self, project: str) -> None:
        with pytest.raises(ValueError, match="not a project id"):
            render(project=project)

    @pytest.mark.parametrize("domain", ["", "internal", "a b.internal", "a.internal\n", "a..b"])
    def test_a_domain_that_haproxy_could_misread_is_refused(self, domain: str) -> None:
        with pytest.raises(ValueError, match="not a DNS name"):
            render(domain=domain)

    def test_a_member_that_is_called_like_another_ones_group_is_refused(self) -> None:
        with pytest.raises(ValueError, match="called blue-a"):
            by_path_name(gateway_members(["blue-a"], ports=[8000]))

    def test_each_group_and_each_member_has_a_path(self) -> None:
        named = by_path_name(gateway_members([], ports=[8000, 8001], turns=()))
        assert [member.name for member in named["blue"]] == ["blue-0", "blue-1"]
        assert [member.name for member in named["blue-1"]] == ["blue-1"]
        assert list(by_path_name(gateway_members([], ports=[8000], turns=()))) == ["blue", "green", "red", "amber"]


class TestWhatCloudRunIsGivenFitsIt:
    @pytest.mark.parametrize("ports", [1, 4, 8])
    def test_servers_of_eight_machines_of_other_names_fit_into_its_environment_variables(self, ports: int) -> None:
        machines = [f"machine{number}xxxx" for number in range(8)]
        text = render(gateway_members(machines, ports=range(8000, 8000 + ports)))
        parts = environment(text)
        assert all(0 < len(part.encode()) <= 32_768 for part in parts.values())
        assert "\n\n".join(parts.values()) == text
        assert all(f'"${name}"' in launch_script() for name in parts)

    def test_more_than_they_hold_is_refused(self) -> None:
        with pytest.raises(ValueError, match="for too many servers"):
            environment("\n\n".join(["x" * 20_000] * 5))

    def test_no_variable_reference_is_read_into_configuration_or_command(self) -> None:
        assert "$(" not in "".join((render(), *plan_gateway(MEMBERS).command))

    def test_nothing_of_the_service_follows_from_the_number_of_members(self) -> None:
        one, many = plan_gateway(MEMBERS[:1]), plan_gateway(MEMBERS)
        for plan in (one, many):
            assert (plan.concurrency, plan.max_instances, plan.requests_each) == (MOST_CONCURRENCY, MOST_INSTANCES, 512)

    def test_what_one_member_may_hold_is_what_scaling_says(self) -> None:
        assert plan_gateway(MEMBERS, requests_each=20).requests_each == 20

    def test_are_counted_by_one_instance_where_callers_have_a_share(self) -> None:
        shared = plan_gateway(MEMBERS, settings=GatewaySettings(perCaller=8))
        assert (shared.max_instances, plan_gateway(MEMBERS).max_instances) == (1, MOST_INSTANCES)
        assert "nbsrv,mul(20)" in render(requests_each=20)
        assert " maxconn 20 " in render(requests_each=20)

    def test_a_limit_that_refuses_everything_is_refused(self) -> None:
        with pytest.raises(ValueError, match="would refuse every request"):
            render(requests_each=0)

    def test_the_probe_is_within_the_limits_of_a_service_without_a_gpu(self) -> None:
        probe = plan_gateway(MEMBERS).probe
        assert probe.path == READY_PATH
        assert probe.timeout_s <= probe.period_s
        assert 80 < probe.window_s <= 240
