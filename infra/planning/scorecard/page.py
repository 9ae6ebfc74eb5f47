"""docs/scorecard.md: the scorecard of the rows that ship, as a page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from infra.catalog.flags import flag_table
from infra.planning.scorecard.predict import ComparedRow
from infra.planning.scorecard.sets import SetScore, score_sets, score_verdicts, sets_of, unclaimed
from infra.planning.units import BAND_CLAIM

_HEAD = """# Scorecard

<!-- written by make scorecard from infra/catalog/published_runs.json -->

Written on {date} by `make scorecard`, with the catalog's vLLM {version}. `gemma4 scorecard` prints the same in a terminal,
and `gemma4 scorecard FILE` scores rows of your own.

**These rows are in sample**: the fitted constants of this program were learned from them, so that runs which nobody has
shown to it will be predicted less well. Every row is predicted from its description alone (machine, flags, shape), and
compared with what its source published. None of these runs was made by this project.

* *median, p90, worst*: of |predicted / published - 1|, in percent; p90 is interpolated between neighbours.
* *inside*: runs that lie inside the predicted band. What a band claims is that {claim}.
* *half-width*: the median of half the bands' widths, in percent of their middles.
* A row may count in several sets. ROCm and XPU, recognised by the name of the hardware (mi300x, rx…, arc…, b60, intel…),
  are compared and nothing is claimed of them."""

_FORM = """## Rows of your own

A file is JSON: an object with the lists `memory`, `speed`, `first_token`, `start` and `verdicts`, each of which may be
missing, or one list of rows, or one row a line. `gemma4 status l4 --as-row` prints the last serving check of a stack as such
lines, to be added to a file with `>>`. A row that cannot be read, as one with a key that is not known, is said and left out.

| key | meaning |
|---|---|
| `id`, `what` | a name of its own; memory, speed or first_token |
| `model`, `quantization` | catalog id; fp8, or a format of the catalog, where the weights are not the checkpoint's |
| `weights_gib_given` | logged size of the weights on one device, for a checkpoint that the catalog lacks |
| `hardware`, `backend`, `devices` | catalog id or any other name; gpu or tpu; devices that share the model |
| `device_memory_gib` | usable GiB of one device; may be left out for a machine of the catalog, like the next two |
| `bandwidth_gb_s`, `flops_tf_s` | of one device: 10^9 bytes/s, 10^12 operations/s at bf16 |
| `vllm` | version |
| `max_model_len`, `max_num_seqs`, `max_num_batched_tokens` | flags of the run, defaults included, as the next two lines |
| `gpu_memory_utilization`, `kv_cache_dtype`, `block_size`, `async_scheduling` | |
| `enforce_eager`, `cpu_offload_gib`, `text_only` | |
| `speculation`, `speculative_tokens` | none, ngram or mtp; draft tokens a step |
| `running`, `prompt_tokens`, `output_tokens` | of speed: requests that were sent at once, and their shape; some may wait |
| `prompts` | of speed: `new`, or `cached` where the rate does not pay for them |
| `end_to_end` | false: not all flags are known, so that only the tokens of the given KV bytes are compared |
| `published.tokens`, `.concurrency`, `.kv_gib`, `.weights_gib` | of memory: what vLLM logged, GiB of one device |
| `published.outcome` | of memory: boots or dies |
| `published.tokens_per_second`, `.first_token_ms` | of speed: all requests together; of first token: one request alone |
| `note`, `source` | what a reader should know, and where it was published |

Rows of `start` describe themselves in `what`, or by `model`, `backend` and `devices`; of these, `engine_init_s` is compared
with the engine's own start, and `gcs_restore_s` with the copy of `gib` GiB from a bucket. Rows of `verdicts` are prose and
are listed only."""


def page(rows: Sequence[ComparedRow], *, written: dt.date) -> str:
    """Return the page about compared rows, dated `written`."""
    return "\n".join(_page(rows, written)) + "\n"


def _page(rows: Sequence[ComparedRow], written: dt.date) -> Iterator[str]:
    yield _HEAD.format(date=written.isoformat(), version=flag_table().version, claim=BAND_CLAIM)
    yield from ("", "## Sets", "")
    yield "| set | rows | median | p90 | worst | inside | half-width |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    scores = score_sets(rows)
    for score in scores:
        yield f"| {' | '.join([_indented(score.name), *set_cells(score)])} |"
    verdicts = score_verdicts(rows)
    yield from ("", f"Verdicts: {len(verdicts.compared)} runs booted or died.", "")
    yield f"* {_ids('died although the verdict was fits', verdicts.died_though_fits)}"
    yield f"* {_ids('booted although it was refused', verdicts.booted_though_refused)}"
    yield from ("", "## Runs outside their bands", "")
    yield "| row | figure | published | predicted | band | error |"
    yield "|---|---|--:|--:|--:|--:|"
    for cells in outside_cells(rows):
        yield f"| {' | '.join(cells)} |"
    yield from ("", "## Not compared", "", "| row | what | why |", "|---|---|---|")
    for row in rows:
        if row.reason and not row.figures:
            yield f"| {row.id} | {described(row)} | {row.reason} |"
    yield from ("", _FORM)


def set_cells(score: SetScore) -> list[str]:
    """Return rows, median, p90, worst, inside and half-width of a set as text."""
    percents = [_percent(value) for value in (score.median, score.p90, score.worst)]
    return [str(len(score.members)), *percents, f"{score.inside / len(score.members):.0%}", _percent(score.half_width)]


def outside_cells(rows: Sequence[ComparedRow]) -> Iterator[list[str]]:
    """Yield id, figure, published, predicted, band and error of every claimed figure outside its band, as text."""
    for row in rows:
        for figure in row.figures:
            if not figure.in_band and sets_of(row, figure) and not unclaimed(row.row):
                band = figure.predicted
                error = "" if figure.error_pct is None else f"{figure.error_pct:+.0f} %"
                ends = f"{_figure(band.low)} to {_figure(band.high)}"
                name = f"{figure.name.removesuffix('_gib').removesuffix('_s').replace('_', ' ')}, {figure.unit}"
                yield [row.id, name, _figure(figure.published), _figure(band.mid), ends, error]


def described(row: ComparedRow) -> str:
    """Return what a row says of itself in prose or as its kind."""
    return str(getattr(row.row, "what", None) or getattr(row.row, "config", ""))


def _indented(name: str) -> str:
    return f"&emsp;{name.strip()}" if name.startswith(" ") else name


def _ids(fact: str, ids: Sequence[str]) -> str:
    return f"{fact}: {', '.join(ids) if ids else 'none'}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %" if value < 1000 else "over 1,000 %"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
