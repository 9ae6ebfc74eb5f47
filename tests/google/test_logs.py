"""Cloud Logging read for an operator: of several sources at once, each entry once, and none lost while following."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from infra.errors import GoogleError
from infra.google.logs import LogFollower, LogQuery, LogSource, newest_entries
from infra.google.times import moment_ms
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import START, FakeTime, session

SERVICE = {"service_name": "gemma", "location": "us-east4"}
SLICE = {"namespace": "gemma4", "node_id": "gemma-blue", "location": "us-east5-a"}
SOURCES = {"gateway": LogSource.service("gemma", "us-east4"), "blue": LogSource.machine("gemma-blue", "us-east5-a")}
LONG_AGO = "2020-01-01T00:00:00Z"


def write(fake: FakeGoogle, text: str, at_s: float = 0.0, *, on: str = "service", **fields: Any) -> None:
    """Write an entry `at_s` seconds after the sessions' clocks start."""
    resource, labels = ("cloud_run_revision", SERVICE) if on == "service" else ("generic_node", SLICE)
    payload = {"jsonPayload": {"message": text}} if on == "slice" else {}
    fake.logging.add(
        "" if on == "slice" else text, resource, labels, timestamp=moment_ms(START + at_s), **payload, **fields
    )


def newest(fake: FakeGoogle, *, errors: bool = False, limit: int = 100) -> tuple[list[str], bool]:
    query = LogQuery(SOURCES, errors)
    entries, older = newest_entries(session(fake), query, since=LONG_AGO, limit=limit)
    return [f"{entry.source}: {entry.text}" for entry in entries], older


class TestTheNewest:
    def test_are_those_of_all_sources_and_no_others_the_newest_last(self, fake: FakeGoogle) -> None:
        write(fake, "second", 2, on="slice")
        write(fake, "first", 1)
        fake.logging.add("foreign", "cloud_run_revision", {**SERVICE, "service_name": "other"})
        assert newest(fake) == (["gateway: first", "blue: second"], False)

    def test_of_many_are_read_page_by_page_and_that_there_are_older_is_said(self, fake: FakeGoogle) -> None:
        for number in range(1203):
            write(fake, f"line {number}", number)
        found, older = newest(fake, limit=1000)
        assert older
        assert found == [f"gateway: line {number}" for number in range(203, 1203)]
        assert newest(fake, limit=1203)[1] is False

    def test_failures_are_known_by_severity_or_by_their_words(self, fake: FakeGoogle) -> None:
        write(fake, "INFO 11-22 all is well", 1)
        write(fake, "(EngineCore pid=2) ERROR 11-22 07:00:00 [core.py:1] EngineCore failed to start.", 2)
        write(fake, "ValueError: No available memory for the cache blocks.", 3)
        write(fake, "Container called exit(1).", 4, severity="WARNING")
        write(fake, "the image cannot be pulled", 5, on="slice", severity="ERROR")
        found, _ = newest(fake, errors=True)
        assert [line.split()[1] for line in found] == ["(EngineCore", "ValueError:", "the"]

    def test_a_request_is_shown_without_the_query_of_its_address(self, fake: FakeGoogle) -> None:
        request = {
            "requestMethod": "POST",
            "requestUrl": "https://gemma.run.app/v1/chat/completions?key=AIza0123",
            "status": 429,
            "latency": "0.2s",
        }
        write(fake, "The request was aborted because there was no available instance.", 1, httpRequest=request)
        assert newest(fake)[0] == [
            "gateway: POST /v1/chat/completions 429 0.2s: The request was aborted because there was no available instance."
        ]

    @pytest.mark.parametrize(
        "secret",
        [
            "hf_abcdefghijklmnop",
            "ya29.a0AfH6SM",
            "eyJhbGciOi.eyJpc3Mi.c2lnbmF0dXJl",
            "AIzaSyA0123456789012345678901234567890",
            "sk-12345",
        ],
    )
    def test_hold_no_secret(self, fake: FakeGoogle, secret: str) -> None:
        said = f"args: api_key=['{secret}'] Authorization: Bearer {secret} and"
        write(fake, said if secret.startswith("sk") else f"{said} {secret}")
        (line,), _ = newest(fake)
        assert secret not in line
        assert "[secret]" in line

    def test_without_permission_the_role_is_named(self, fake: FakeGoogle) -> None:
        fake.fault("POST", "entries:list", status=403, message="Permission 'logging.logEntries.list' denied")
        with pytest.raises(GoogleError, match=r"roles/logging\.viewer"):
            newest(fake)


class TestFollowing:
    def test_hands_on_each_entry_once_though_looks_overlap(self, fake: FakeGoogle) -> None:
        time = FakeTime()
        follower = LogFollower(session(fake, time), LogQuery(SOURCES), since_s=START - 60)
        seen: list[str] = []
        for second in range(40):
            write(fake, f"line {second}", second)
            time.now = START + second + 0.5
            seen += [entry.text for entry in follower.new_entries()]
        assert seen == [f"line {second}" for second in range(40)]

    def test_two_lines_of_one_moment_are_two_entries(self, fake: FakeGoogle) -> None:
        write(fake, "same", 1)
        write(fake, "same", 1)
        follower = LogFollower(session(fake), LogQuery(SOURCES), since_s=START)
        assert [entry.text for entry in follower.new_entries()] == ["same", "same"]

    @pytest.mark.parametrize("seed", range(3))
    def test_loses_no_entry_that_comes_up_to_nine_minutes_late(self, fake: FakeGoogle, seed: int) -> None:
        """Entries become readable late and out of order, as from a machine that had no network for a while."""
        chance, time = random.Random(seed), FakeTime()
        follower = LogFollower(session(fake, time), LogQuery(SOURCES), since_s=START)
        comes = sorted((written + chance.choice([0, 2, 20, 300, 540]), written) for written in range(300))
        seen: list[str] = []
        for look in itertools.count():
            time.now = START + 5 * look
            while comes and START + comes[0][0] <= time.now:
                _, written = comes.pop(0)
                write(fake, f"line {written}", written)
            seen += [entry.text for entry in follower.new_entries()]
            if not comes and look > 180:
                break
        assert sorted(seen) == sorted(f"line {number}" for number in range(300))

    def test_a_look_that_failed_is_made_up_for(self, fake: FakeGoogle) -> None:
        time = FakeTime()
        follower = LogFollower(session(fake, time), LogQuery(SOURCES), since_s=START)
        assert follower.new_entries() == []
        write(fake, "while Google was silent", 1)
        fake.fault("POST", "entries:list", status=503, times=20)
        time.now = START + 5
        with pytest.raises(GoogleError):
            follower.new_entries()
        fake.rules.clear()
        time.now = START + 900
        assert [entry.text for entry in follower.new_entries()] == ["while Google was silent"]
