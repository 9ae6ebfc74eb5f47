"""Every server that there may be has one name, whatever the settings call their machines."""

from infra.planning.gateway.members import KNOWN_NAMES, gateway_members


def test_known_names_come_first_so_that_a_rename_among_them_changes_nothing() -> None:
    assert gateway_members(["green"], ports=[8000]) == gateway_members(["blue", "red"], ports=[8000])


def test_another_name_is_added_after_them() -> None:
    found = gateway_members(["violet", "blue"], ports=[8000])
    assert list(dict.fromkeys(one.group for one in found)) == [*KNOWN_NAMES, "violet"]


def test_each_server_of_a_machine_has_a_name_and_a_port_and_they_share_a_host() -> None:
    found = [one for one in gateway_members([], ports=[8000, 8001]) if one.group == "blue"]
    assert [(one.name, one.host, one.port) for one in found] == [
        ("blue-a-0", "blue-a", 8000),
        ("blue-a-1", "blue-a", 8001),
        ("blue-b-0", "blue-b", 8000),
        ("blue-b-1", "blue-b", 8001),
    ]


def test_a_machine_that_nothing_follows_has_no_turn() -> None:
    assert [one.name for one in gateway_members([], ports=[8000], turns=())] == list(KNOWN_NAMES)


def test_no_two_servers_share_a_name() -> None:
    found = gateway_members(["blue", "x", "x"], ports=[8000, 8001, 8002])
    assert len({one.name for one in found}) == len(found)
