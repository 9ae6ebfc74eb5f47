"""`gemma4 bench` beside `vllm bench serve` on one server, taking turns: how far their throughput and first tokens are apart.

Both send prompts of random text of the same length, force the length of answers, warm up and keep as many requests in
flight. Each pair is run one after the other, and every second pair in the other order, so that a machine that becomes
slower or faster meanwhile counts for both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

THROUGHPUT_BAR, TTFT_BAR = 0.10, 0.15
TEMPLATE_TOKENS = 10
"""What the chat template adds to a prompt: vLLM's length is without it, ours is with it."""


@dataclass(frozen=True)
class Outcome:
    """What one program reports of one run."""

    tokens_per_second: float
    median_ttft_ms: float
    median_itl_ms: float
    input_tokens: float


def main() -> int:
    options = parse()
    print(
        f"{options.url}: {options.requests} requests, {options.concurrency} at a time, {options.input} tokens of prompt, "
        f"{options.output} of answer; {options.pairs} pairs; load of the machine {os.getloadavg()[0]:.1f} at the start"
    )
    pairs: list[tuple[Outcome, Outcome]] = []
    for number in range(options.pairs):
        both = (by_gemma4, by_vllm) if number % 2 == 0 else (by_vllm, by_gemma4)
        found = {run: run(options, number) for run in both}
        ours, theirs = found[by_gemma4], found[by_vllm]
        pairs.append((ours, theirs))
        print(f"pair {number + 1}: gemma4 bench {words(ours)}; vllm bench serve {words(theirs)}", flush=True)
    throughput = ratio(pairs, "tokens_per_second")
    ttft = ratio(pairs, "median_ttft_ms")
    itl = ratio(pairs, "median_itl_ms")
    print(
        f"gemma4 bench / vllm bench serve, median of pairs: throughput {throughput:.3f}, median first token {ttft:.3f}, "
    )
    print(f"inter-token latency {itl:.3f}; load of the machine {os.getloadavg()[0]:.1f} at the end")
    met = abs(throughput - 1) < THROUGHPUT_BAR and abs(ttft - 1) < TTFT_BAR
    print(f"bar: within {THROUGHPUT_BAR:.0%} and {TTFT_BAR:.0%}: {'met' if met else 'NOT met'}")
    return 0 if met else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_beside_vllm", description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8000", help="a running vLLM")
    add("--vllm", default="vllm", help="the vllm executable")
    add(
        "--tokenizer", required=True, help="folder or repository of the model's tokenizer, which vllm bench serve needs"
    )
    add("--pairs", type=int, default=6, help="default 6")
    add("--concurrency", type=int, default=4, help="default 4")
    add("--input", type=int, default=256, help="tokens of a prompt, chat template included (default 256)")
    add("--output", type=int, default=128, help="default 128")
    add("--requests", type=int, default=40, help="default 40")
    return parser.parse_args()


def by_gemma4(options: argparse.Namespace, number: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        command = [sys.executable, "-c", "from infra.ops.cli import main; main()", "bench", "run", "--url", options.url]
        command += [
            "--concurrency",
            str(options.concurrency),
            "--input",
            str(options.input),
            "--output",
            str(options.output),
        ]
        command += ["--requests", str(options.requests), "--repeats", "1", "--save", str(file), "--json"]
        (cell,) = json.loads(output_of(command))["cells"]
        (repeat,) = json.loads(file.read_text())["cells"][0]["repeats"]
    for note in cell["notes"]:
        print(f"pair {number + 1}: gemma4 bench: {note}")
    return Outcome(
        cell["outputTokensPerSecond"]["mean"],
        1000 * cell["ttftS"]["p50"],
        1000 * cell["itlS"]["p50"],
        statistics.fmean(repeat["inputTokens"]),
    )


def by_vllm(options: argparse.Namespace, number: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        command = [options.vllm, "bench", "serve", "--backend", "openai-chat", "--base-url", options.url]
        command += [
            "--endpoint",
            "/v1/chat/completions",
            "--model",
            served(options.url),
            "--tokenizer",
            options.tokenizer,
        ]
        command += ["--dataset-name", "random", "--random-input-len", str(options.input - TEMPLATE_TOKENS)]
        command += ["--random-output-len", str(options.output), "--num-prompts", str(options.requests), "--ignore-eos"]
        command += ["--max-concurrency", str(options.concurrency), "--num-warmups", str(options.concurrency)]
        command += ["--temperature", "0", "--seed", str(os.getpid() + number), "--disable-tqdm"]
        command += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--result-dir", folder]
        output_of([*command, "--result-filename", "result.json"])
        result = json.loads((Path(folder) / "result.json").read_text())
    if result["completed"] != options.requests or result["total_output_tokens"] != options.requests * options.output:
        print(
            f"pair {number + 1}: vllm bench serve: {result['completed']} answers, {result['total_output_tokens']} tokens"
        )
    return Outcome(
        result["output_throughput"],
        result["median_ttft_ms"],
        result["median_tpot_ms"],
        result["total_input_tokens"] / options.requests,
    )


def served(url: str) -> str:
    from infra.serving.client import ServingClient

    return ServingClient(url).models()[0].name


def output_of(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"{command[:4]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def ratio(pairs: Sequence[tuple[Outcome, Outcome]], figure: str) -> float:
    """Return the median over pairs of our figure over theirs."""
    return float(statistics.median(getattr(ours, figure) / getattr(theirs, figure) for ours, theirs in pairs))


def words(found: Outcome) -> str:
    return (
        f"{found.tokens_per_second:.1f} tok/s, first token {found.median_ttft_ms:.1f} ms, between tokens "
        f"{found.median_itl_ms:.2f} ms, prompts of {found.input_tokens:.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
