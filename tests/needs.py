"""Eight needs of people who choose a machine, and the page that answers them: docs/tasks/choose-a-machine.md.

The answers on the page are what `gemma4 recommend` says now: `make golden` writes them, and a test holds them to what an
expert would accept (tests/planning/test_eight_needs.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.planning.units import Band, read_predicted, read_rate


@dataclass(frozen=True)
class WrittenNeed:
    """A need in words, what to type for it, and why its answer is a good one."""

    title: str
    words: str
    """What stands behind `gemma4 recommend`."""
    defence: str
    """What an expert would say for the first answer."""

    @property
    def command(self) -> str:
        return f"gemma4 recommend {self.words}"


NEEDS = (
    WrittenNeed(
        "Chat for 5",
        "--users 5",
        "A small team asks now and then: a machine that scales to zero costs nothing at night, and the largest model that "
        "fits it gives the best answers for the same money.",
    ),
    WrittenNeed(
        "Agents with 32k of context, 20 at once",
        "--users 20 --context 32768 --prompt-tokens 12000 --output-tokens 500 --min-quality 75",
        "Long prompts that are read anew need arithmetic and room for the KV cache, so a large card beats several small ones; "
        "at calling tools the larger models are far ahead (Google's Tau2: E4B 42, 26B-A4B 68, 31B 77).",
    ),
    WrittenNeed(
        "Batch summaries",
        "--users 64 --prompt-tokens 3000 --output-tokens 300 --order tokens --may-end --min-quality 75",
        "Nobody waits for a stream, so what counts is the price of a token, and a machine that ends after the batch is right.",
    ),
    WrittenNeed(
        "Vision",
        "--users 5 --images --min-quality 80",
        "Pictures need the vision tower in memory: no text-only start, and a model that reads documents well.",
    ),
    WrittenNeed(
        "The lowest price above a quality",
        "--min-quality 80",
        "With a least score the price alone ranks, so the first row is the cheapest machine that such a model runs well on.",
    ),
    WrittenNeed(
        "The lowest latency",
        "--order speed --min-quality 80",
        "A stream is as fast as memory brings the weights of a token: few active parameters on a fast card, drafts beside it.",
    ),
    WrittenNeed(
        "100 users",
        "--users 100",
        "One large card with a batch of 100 costs less than many small ones, and keeps every stream faster than people read.",
    ),
    WrittenNeed(
        "1,000 users",
        "--users 1000",
        "A mixture of experts reads few weights for each token, so two cards carry what eight would need for the dense 31B.",
    ),
)
"""In the order of the page."""

_SHOWN = 3

_HEAD = """# Choose a model and a machine

<!-- written by make golden from tests/needs.py -->

Eight needs, the command for each, and its first answers on the day this page was written. Speeds are predictions with the
bands that `gemma4 recommend` prints, and nobody has run any of this here. **Score** is MMLU-Pro in percent, as published of
Google's bf16 weights; `~` marks quantised weights, of which none was published.

How rows are ranked: what can be deployed, fits without doubt and stays up goes first. Among these, ten points of score count
as half the price; with `--min-quality` the price alone ranks, with `--order tokens` the price of a token, and with
`--order speed` the speed of a stream, twice of which is worth four times the price. What lies within the error of a
prediction counts as equal, and the better score goes first."""


def page(output: Callable[..., str]) -> str:
    """Return the page, with answers as `output` prints them."""
    parts = [_HEAD]
    for need in NEEDS:
        rows = json.loads(output("recommend", *need.words.split(), "--top", str(_SHOWN), "--json"))["candidates"]
        parts += ["", f"## {need.title}", "", "```sh", need.command, "```", "", need.defence, ""]
        parts += ["| | model | machine | $/hour | score | tok/s each | why |", "|---|---|---|---|---|---|---|"]
        parts += [_row(number, row) for number, row in enumerate(rows, 1)]
    return "\n".join([*parts, "", _TAIL]) + "\n"


def _row(number: int, row: dict[str, Any]) -> str:
    quality = row["quality"]
    copies = f"{row['replicas']} × " if row["replicas"] > 1 else ""
    score = f"{quality['percent']:.1f}{'' if quality['ownScore'] else '~'}"
    speed = read_predicted(Band(**row["tokensPerSecondEach"]), read_rate, brief=True)
    cells = (
        str(number),
        row["model"],
        copies + row["accelerator"],
        f"{row['usdPerHour']:.2f}",
        score,
        speed,
        row["why"],
    )
    return f"| {' | '.join(cells)} |"


_TAIL = """## 31B on one L4

The stack `l4-31b` keeps 5 GiB of the weights in the host's memory, and reads them over PCIe for every token. What was
reported of 31B QAT on one L4, all of it by others:

| how | tokens/s alone | what is wrong with it |
|---|---|---|
| CPU offload, 14 or 5 GiB | 0.8 to 2 | slower than people read |
| text only, utilization 0.97, contexts of 1,024 | 12.6 | starts only with compiled programs: the first start died |

Do not choose it for people who wait. For the same hour's price an L4 runs the 26B-A4B in 4 bits several times as fast and
loses 2.6 points of score (`l4-26b`); 31B itself wants a TPU v6e-1 (`v6e1-31b`: slices end after a day, and 36 tokens/s were
reported) or one RTX PRO 6000 (`rtx6000`, with drafts `rtx-mtp`). `l4-31b` stays for work without anybody waiting that
may be cut off at any time: batches overnight that must have 31B and may use no other machine."""
