"""The attribute `gemma4-spec`: read strictly, every fault named at once, and which change needs another container."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from containers.supervisor.gemma4_supervisor import desired_spec as specification
from containers.supervisor.gemma4_supervisor.desired_spec import SpecError, parse_spec

ROOT = Path("/dev/shm/weights")
SPEC: dict[str, Any] = {
    "schema": 1,
    "hash": "spec-0123456789ab",
    "image": "us-east5-docker.pkg.dev/p/r/vllm/vllm-tpu:v0.32.0",
    "registry": "us-east5-docker.pkg.dev",
    "argv": ["vllm", "serve", "/dev/shm/weights/g/m/main", "--host", "${VPC_ADDRESS}", "--port", "${PORT}"],
    "env": {"HF_HOME": "/dev/shm/huggingface"},
    "weights": [{"bucket": "b", "prefix": "g/m/main", "destination": "/dev/shm/weights/g/m/main"}],
    "hfTokenSecret": None,
    "servers": [{"suffix": "", "port": 8000, "devices": []}],
    "model": "google/gemma-4-E2B-it",
    "readyTimeoutSeconds": 1800,
    "drainSeconds": 45,
}
OPTIONAL = [key for key, (_, default) in specification._FIELDS.items() if default is not specification._REQUIRED]
FIRST = {"suffix": "-0", "port": 8000, "devices": [0, 1]}
SECOND = {"suffix": "-1", "port": 8001, "devices": [2, 3]}


def parsed(**changes: Any) -> specification.Spec:
    return parse_spec(json.dumps({**SPEC, **changes}), ROOT)


class TestASpecification:
    def test_a_specification_is_read_as_it_was_written(self) -> None:
        spec = parsed()
        assert spec.command("10.0.0.2", 8001) == (*SPEC["argv"][:3], "--host", "10.0.0.2", "--port", "8001")
        assert spec.weights[0].place == "gs://b/g/m/main"

    @pytest.mark.parametrize("key", OPTIONAL)
    def test_a_specification_has_defaults_for_what_may_be_left_out(self, key: str) -> None:
        without = {name: value for name, value in SPEC.items() if name != key}
        assert parse_spec(json.dumps(without), ROOT).hash == SPEC["hash"]

    @pytest.mark.parametrize(
        ("changes", "fault"),
        [
            ({"hash": ""}, "hash is empty"),
            ({"image": "two words"}, "image is empty or has blanks"),
            ({"registry": "https://host/path"}, "registry is not a host name"),
            ({"argv": ["vllm"]}, "argv is not the full command"),
            ({"argv": ["vllm", 3]}, "argv is not the full command"),
            ({"env": {"A B": "1"}}, "'A B' is not a name"),
            ({"env": {"A": 1}}, "env.A is not text on one line"),
            ({"env": {"A": "1\nHF_TOKEN=x"}}, "env.A is not text on one line"),
            ({"env": {"HUGGING_FACE_HUB_TOKEN": "x"}}, "hfTokenSecret"),
            ({"argv": ["vllm", "serve", "--hf-token", "hf_0123456789abcdefXYZ"]}, "looks like a token"),
            ({"port": 8000}, "port is not known"),
            ({"servers": []}, "servers is empty"),
            ({"servers": [{"port": 8000}]}, "servers[0] is not an object of suffix, port and devices"),
            ({"servers": [{**FIRST, "suffix": "-a"}]}, "servers[0].suffix is neither blank nor of the form -0"),
            ({"servers": [{**FIRST, "port": 0}]}, "servers[0].port is not a whole number between 1 and 65535"),
            ({"servers": [{**FIRST, "port": True}]}, "servers[0].port is not a whole number"),
            ({"servers": [{**FIRST, "port": 8000.5}]}, "servers[0].port is not a whole number"),
            ({"servers": [{**FIRST, "devices": [0, 0]}]}, "servers[0].devices is not a list of different GPU numbers"),
            ({"servers": [{**FIRST, "devices": ["0"]}]}, "servers[0].devices is not a list of different GPU numbers"),
            ({"servers": [FIRST, {**FIRST, "port": 8001, "devices": [2]}]}, "'-0' and '-0' share a suffix"),
            ({"servers": [FIRST, {**SECOND, "port": 8000}]}, "'-0' and '-1' share a suffix, a port or a device"),
            ({"servers": [FIRST, {**SECOND, "devices": [1, 2]}]}, "'-0' and '-1' share a suffix, a port or a device"),
            ({"servers": [FIRST, {**SECOND, "devices": []}]}, "'-0' and '-1' share a suffix, a port or a device"),
            ({"servers": [FIRST, SECOND], "argv": ["vllm", "serve", "--port", "8000"]}, "argv has no ${PORT}"),
            ({"privileged": "yes"}, "privileged is not true or false"),
            ({"readyTimeoutSeconds": 0}, "readyTimeoutSeconds must be above 0"),
            ({"hfTokenSecret": "my-secret"}, "hfTokenSecret is not of the form"),
            ({"weights": ["gs://b/p"]}, "weights[0] is not an object"),
            ({"weights": [{**SPEC["weights"][0], "bucket": ""}]}, "weights[0] has an empty bucket"),
            ({"weights": [{**SPEC["weights"][0], "destination": "/etc"}]}, "weights[0] does not go below"),
            ({"weights": [{**SPEC["weights"][0], "destination": f"{ROOT}/../../etc"}]}, "does not go below"),
            ({"weights": [{**SPEC["weights"][0], "destination": str(ROOT)}]}, "does not go below"),
        ],
    )  # fmt: skip
    def test_a_specification_that_cannot_be_meant_is_refused(self, changes: dict[str, Any], fault: str) -> None:
        with pytest.raises(SpecError, match=re.escape(fault)):
            parsed(**changes)

    @pytest.mark.parametrize(
        ("text", "fault"),
        [("{", "not JSON"), ("[]", "not a JSON object"), ('{"schema": 2}', "schema 2, this supervisor reads 1")],
    )
    def test_a_specification_that_is_none_is_refused(self, text: str, fault: str) -> None:
        with pytest.raises(SpecError, match=fault):
            parse_spec(text, ROOT)

    def test_a_specification_names_every_fault_at_once(self) -> None:
        with pytest.raises(SpecError) as caught:
            parsed(servers=[], registry="a/b", env={"A": 1})
        assert all(key in str(caught.value) for key in ("servers", "registry", "env.A"))

    @pytest.mark.parametrize("key", [*specification._CONTAINER_FIELDS, "servers"])
    def test_a_specification_that_asks_for_another_container_has_another_fingerprint(self, key: str) -> None:
        others: dict[str, Any] = {
            "image": "i", "argv": ["vllm", "serve", "x"], "env": {}, "weights": [],
            "hfTokenSecret": "projects/p/secrets/s", "servers": [FIRST], "drainSeconds": 46,
            "privileged": True,
        }  # fmt: skip
        assert parsed(**{key: others[key]}).servers != parsed().servers

    @pytest.mark.parametrize(
        "changes", [{"hash": "spec-x"}, {"readyTimeoutSeconds": 1}, {"model": "m"}, {"generation": 2}, {"registry": ""}]
    )
    def test_a_specification_that_asks_for_the_same_container_has_the_same_fingerprint(
        self, changes: dict[str, Any]
    ) -> None:
        assert parsed(**changes).servers == parsed().servers
        assert parsed(**changes).digest != parsed().digest


class TestTheServersOfAMachine:
    def test_each_server_has_a_place_of_its_own(self) -> None:
        first, second = parsed(servers=[FIRST, SECOND]).servers
        assert (first.suffix, first.port, first.devices) == ("-0", 8000, (0, 1))
        assert first.fingerprint != second.fingerprint
        assert not first.excludes(second)

    def test_a_server_is_not_touched_by_a_change_of_another(self) -> None:
        before, after = parsed(servers=[FIRST, SECOND]), parsed(servers=[FIRST, {**SECOND, "port": 8002}])
        assert before.servers[0] == after.servers[0]
        assert before.servers[1] != after.servers[1]
