"""Every tool answers a real MCP client about a stack that is deployed: the fake Google, and a server that answers as vLLM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.google.gcp_settings import Api
from infra.google.session import Retry
from infra.ops import google_access
from infra.ops.mcp_server.tools import TOOLS
from tests.benchmark.runs import cell, repeat, stored
from tests.fakes.google.client import FakeTime, session
from tests.fakes.operated_stack import OperatedStack, operated_stack
from tests.ops.mcp_server.sessions import call

ARGUMENTS: dict[str, dict[str, Any]] = {
    "plan": {"stack": "l4", "assignments": ["serving.maxModelLen=4096"]},
    "stacks": {},
    "models": {},
    "machines": {},
    "explain": {"key": "serving.maxModelLen"},
    "recommend": {"users": 2},
    "preflight": {"stack": "l4", "only": ["plan", "project"]},
    "zones": {"accelerator": "v6e-4", "stack": None},
    "status": {"stack": "l4"},
    "check": {"stack": "l4"},
    "metrics": {"stack": "l4", "interval": 0.5},
    "memory": {"stack": "l4"},
    "cost": {"stack": "l4", "hours_a_day": 8},
    "logs": {"stack": "l4"},
    "diagnose": {"stack": "l4"},
    "ask": {"stack": "l4", "question": "Why is the sky blue?"},
    "evaluate": {"stack": "l4", "tasks": ["arithmetic"]},
    "bench_compare": {"a": "a.json", "b": "b.json"},
    "pause": {"stack": "l4"},
    "renew": {"stack": "l4"},
    "resume": {"stack": "l4"},
    "rollback": {"stack": "l4"},
    "tpu_ended": {},
}
"""Of a tool by its name."""


@pytest.fixture
def l4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatedStack]:
    """A service with two revisions, its server, and two stored benchmarks."""
    monkeypatch.setattr(google_access, "ONCE_MORE", Retry(attempts=1))
    with operated_stack(tmp_path, monkeypatch, "l4") as stack:
        stack.deploy()
        stack.checked()
        made = session(stack.google, FakeTime())
        parent = f"projects/demo-project/locations/{stack.plan.region}"
        for image in ("one", "two"):
            body = {"template": {"containers": [{"image": image, "args": list(stack.plan.command.argv)}]}}
            if image == "one":
                made.post(Api.CLOUD_RUN, f"{parent}/services", body, serviceId="gemma4-l4")
            else:
                made.patch(Api.CLOUD_RUN, f"{parent}/services/gemma4-l4", body)
        for name in ("a", "b"):
            (tmp_path / f"{name}.json").write_text(
                stored(cell(repeat(), repeat(), repeat()), id=name).model_dump_json(by_alias=True)
            )
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "demo-project")
        for key, value in stack.google.settings().items():
            if key.endswith("CustomEndpoint"):
                api = next((one for one in Api if one.setting == key), None)
                if api:
                    monkeypatch.setenv(api.variable, str(value))
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "token-of-a-test")
        yield stack


def test_none_is_left_out_here() -> None:
    assert {*ARGUMENTS} == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda one: one.name)
def test_it_answers_compactly_and_hands_out_no_token(l4: OperatedStack, tool: Any) -> None:
    failed, text = call(tool.name, allow_changes=True, **ARGUMENTS[tool.name])
    assert not failed, text
    data = json.loads(text)
    assert data["preview" if tool.applies else "schema"]
    assert len(text) < 8_000
    assert not any(token and token in text for token in (*l4.server.tokens_seen, "token-of-a-test"))
