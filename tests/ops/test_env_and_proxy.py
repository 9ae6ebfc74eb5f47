"""`gemma4 env` and `gemma4 proxy`: what another program needs, in a shell's words or on this machine."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import requests

from infra.google.times import timestamp_s
from infra.ops.commands.env import Shell, connection, shell_lines
from infra.ops.commands.proxy import fresh_token
from infra.ops.endpoint.endpoint import Endpoint, Member, TokenSource
from infra.ops.endpoint.find_endpoint import API_KEY
from tests.fakes.guarded_service import token_until
from tests.fakes.vllm import FakeVllm
from tests.projects import ROOT, Capture, Command, command

NASTY = """a'b"c $(touch /tmp/x) `id` \\ \\' ; & | > * ~ ! {e,f} %PATH% ’ end"""


@pytest.fixture
def gemma4(capsys: Capture) -> Command:
    return command(capsys)


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with FakeVllm() as fake:
        yield fake


class TestEnv:
    def test_prints_only_what_a_shell_may_run(self, gemma4: Command, server: FakeVllm) -> None:
        answer = gemma4("env", "--url", f"{server.url}/v1")
        assert answer.out.splitlines() == [f"export OPENAI_BASE_URL={server.url}/v1", "export OPENAI_API_KEY=unused"]
        assert (answer.code, server.requests) == (0, []), "nothing is asked, so nothing is woken"

    def test_says_on_stderr_until_when_a_token_is_valid(self, monkeypatch: pytest.MonkeyPatch, gemma4: Command) -> None:
        made = token_until(2e9)
        endpoint = Endpoint("https://x.run.app", (Member("", ""),), "gemma", tokens=TokenSource(lambda: made))
        monkeypatch.setattr("infra.ops.commands.env.find_endpoint", lambda *_: endpoint)
        answer = gemma4("env", "--url", "https://x.run.app", "--shell", "fish")
        assert answer.out == f"set -gx OPENAI_BASE_URL 'https://x.run.app/v1'\nset -gx OPENAI_API_KEY '{made}'\n"
        assert "valid until 2033-05-18T03:33:20Z" in answer.err
        assert made not in answer.err
        data = gemma4("env", "--url", "https://x.run.app", "--json").data
        assert data["apiKey"] == made
        assert timestamp_s(data["expiresAt"]) == 2e9

    def test_a_key_of_the_environment_has_no_end(self, monkeypatch: pytest.MonkeyPatch, gemma4: Command) -> None:
        monkeypatch.setenv(API_KEY, "k-1")
        answer = gemma4("env", "--url", "http://127.0.0.1:9", "--json")
        assert (answer.data["apiKey"], answer.data["expiresAt"], answer.err) == ("k-1", None, "")

    @pytest.mark.parametrize(
        ("shell", "run"),
        [
            ("bash", ["bash", "-c", 'eval "$(cat)"; printf %s "$A"']),
            ("bash", ["sh", "-c", 'eval "$(cat)"; printf %s "$A"']),
            ("bash", ["zsh", "-c", 'eval "$(cat)"; printf %s "$A"']),
            ("fish", ["fish", "-c", 'source; printf %s "$A"']),
            ("powershell", ["pwsh", "-NoProfile", "-Command", "$input | Invoke-Expression; [Console]::Write($env:A)"]),
        ],
        ids=["bash", "sh", "zsh", "fish", "pwsh"],
    )
    def test_a_value_reaches_the_shells_environment_as_it_is(self, shell: Shell, run: list[str]) -> None:
        if not shutil.which(run[0]):
            pytest.skip(f"{run[0]} is not on the PATH")
        (line,) = shell_lines({"A": NASTY}, shell)
        done = subprocess.run(run, input=f"{line}\n", capture_output=True, text=True, check=True)
        assert done.stdout == NASTY

    def test_quotes_are_doubled_or_escaped_as_each_shell_wants(self) -> None:
        assert shell_lines({"A": "a'b\\c"}, "fish") == ["set -gx A 'a\\'b\\\\c'"]
        assert shell_lines({"A": "a'b\\c"}, "powershell") == ["$env:A = 'a''b\\c'"]


class TestProxy:
    @contextmanager
    def running(self, *words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """The command as a process, and the base URL that it says."""
        script = "import sys; from infra.ops.cli import run; sys.exit(run(sys.argv[1:]))"
        process = subprocess.Popen(
            [sys.executable, "-c", script, "proxy", *words, "--port", "0"],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        assert process.stderr
        try:
            lines = [process.stdout.readline() for _ in range(3)]
            assert "OPENAI_BASE_URL=" in lines[1], process.stderr.read()
            yield process, lines[1].strip().partition("=")[2]
        finally:
            process.kill()
            process.communicate()

    def test_serves_until_ctrl_c_and_ends_in_order(self, server: FakeVllm) -> None:
        with self.running("--url", server.url, **{API_KEY: "k-1"}) as (process, base):
            body = {"model": "gemma", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
            answer = requests.post(
                f"{base}/chat/completions", json=body, headers={"Authorization": "Bearer mine"}, timeout=5
            )
            assert answer.json()["choices"][0]["message"]["content"] == "ready"
            assert server.tokens_seen == {"k-1"}
            process.send_signal(signal.SIGINT)
            out, said = process.communicate(timeout=30)
        assert process.returncode == 0
        assert said.splitlines()[-1] == "ended; 1 request answered"
        assert "k-1" not in out + said

    def test_a_port_in_use_is_one_clean_error(self, gemma4: Command, server: FakeVllm) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            answer = gemma4("proxy", "--url", server.url, "--port", str(port))
        assert answer.code == 1
        assert f"port {port} of 127.0.0.1 cannot be used" in answer.err
        assert f"--port {port + 1}" in answer.err

    def test_only_an_identity_token_is_taken_for_one_that_ends(self) -> None:
        looks_old = base64.urlsafe_b64encode(json.dumps({"exp": 1}).encode()).decode()
        key = f"a.{looks_old}.c"
        keeper = fresh_token(TokenSource(lambda: key, is_identity=False))
        assert keeper

        async def twice() -> list[str]:
            return [await keeper.get(), await keeper.get()]

        assert asyncio.run(twice()) == [key, key]
        assert keeper.made == 1
        assert fresh_token(None) is None


def test_a_stack_that_nobody_named_is_one_clean_error(gemma4: Command) -> None:
    for words in (("env",), ("proxy",), ("metrics",)):
        assert gemma4(*words).code == 2


def test_the_connection_names_the_model_that_the_stack_says() -> None:
    endpoint = Endpoint("https://x.run.app", (Member("", ""),), "google/gemma-4")
    assert connection(endpoint).model == "google/gemma-4"
