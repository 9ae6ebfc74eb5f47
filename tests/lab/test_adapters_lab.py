"""LoRA adapters on a real vLLM with a tiny Gemma 4: our flags start it, our check asks it, our arithmetic counts its layers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers.weights.gemma4_stage.adapter_files import AdapterRules, adapter_facts, faults_of
from infra.catalog import catalog
from infra.errors import ServingError
from infra.planning.memory.adapter_memory import numbers_per_rank
from infra.planning.planner import make_plan
from infra.serving.check import CheckExpectation, run_check
from infra.serving.client import ServingClient
from tests.lab import count_adapter_room, servers
from tests.lab.adapters import header_of, make_adapter
from tests.lab.servers import LAB, MAX_MODEL_LEN, SPEC_HASH, RealVllm

pytestmark = [pytest.mark.lab, pytest.mark.skipif(LAB is None, reason=servers.NO_LAB)]

RANKS = {"tone": 8, "sql": 16}
EXPECTED = CheckExpectation(
    model="gemma",
    spec_hash=SPEC_HASH,
    max_model_len=MAX_MODEL_LEN,
    prompt_tokens=128,
    ready_timeout_s=600,
    adapters=tuple(RANKS),
)


def model_named(name: str) -> Path:
    assert LAB is not None
    if not (LAB / name).is_dir():
        pytest.skip(f"the laboratory has no {name}")
    return LAB / name


def planned_words(folders: dict[str, Path], rank: int) -> list[str]:
    """What a plan's command says of adapters, with the folders of this machine."""
    sources = {f"serving.adapters.{name}": f"lab/{name}" for name in folders}
    plan = make_plan(
        "lab", {"model": "gemma-4-12b-it", "accelerator": "rtx-pro-6000"}, {**sources, "serving.adapterRank": rank}
    )
    words = list(plan.command.argv)
    start = words.index("--lora-modules")
    mine = words[start : words.index("--served-model-name")]
    mounted = {f"{name}=/mnt/weights/lab/{name}/main": f"{name}={folder}" for name, folder in folders.items()}
    assert set(mounted) < set(mine)
    return [mounted.get(word, word) for word in mine]


@pytest.fixture(scope="module", params=["tiny", "tiny-mm"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    model, scratch = model_named(request.param), tmp_path_factory.mktemp(request.param)
    folders = {name: make_adapter(model, scratch / name, rank=rank, seed=rank) for name, rank in RANKS.items()}
    with servers.running(model, scratch, *planned_words(folders, 16)) as started:
        yield started


class TestAServerWithAdapters:
    def test_passes_the_check_which_hears_each_adapter_say_something_else(self, served: RealVllm) -> None:
        result = run_check(ServingClient(served.url), EXPECTED, log_tail=served.log_tail)
        assert result.notes == ()

    def test_lists_them_and_no_other(self, served: RealVllm) -> None:
        servers.wait_until_healthy(served)
        assert {model.name for model in ServingClient(served.url).models()} == {"gemma", SPEC_HASH, *RANKS}
        expected = EXPECTED.model_copy(update={"adapters": (*RANKS, "poems")})
        with pytest.raises(ServingError, match="not the adapter poems") as caught:
            run_check(ServingClient(served.url), expected)
        assert caught.value.stage == "models"

    def test_takes_no_further_one_from_callers(self, served: RealVllm, tmp_path: Path) -> None:
        import requests

        servers.wait_until_healthy(served)
        loaded = requests.post(
            f"{served.url}/v1/load_lora_adapter", json={"lora_name": "x", "lora_path": str(tmp_path)}, timeout=30
        )
        assert loaded.status_code == 404


def test_a_rank_without_room_stops_the_start_and_the_check_says_why(tmp_path: Path) -> None:
    model = model_named("tiny")
    folder = make_adapter(model, tmp_path / "tone", rank=16, seed=1)
    with servers.running(model, tmp_path, *planned_words({"tone": folder}, 8)) as started:
        expected = EXPECTED.model_copy(update={"adapters": ("tone",), "ready_timeout_s": 90})
        with pytest.raises(ServingError, match=r"Raise serving\.adapterRank"):
            run_check(ServingClient(started.url), expected, log_tail=started.log_tail)


def test_the_copy_would_have_refused_it_before(tmp_path: Path) -> None:
    model = model_named("tiny")
    folder = make_adapter(model, tmp_path / "tone", rank=16, seed=1)
    said, hidden = json.loads((model / "config.json").read_text()), 128
    assert said["hidden_size"] == hidden
    config, header = (folder / "adapter_config.json").read_bytes(), header_of(folder / "adapter_model.safetensors")
    facts = adapter_facts("tone", config, header)
    rules = AdapterRules(16, "gemma-4-tiny", said["num_hidden_layers"], hidden, False)
    assert list(faults_of(facts, rules)) == []
    assert ["serving.adapterRank" in fault for fault in faults_of(facts, rules._replace(rank=8))] == [True]


def test_vllms_layers_hold_what_is_counted() -> None:
    model = model_named("tiny")
    said = json.loads((model / "config.json").read_text())
    kinds = said["layer_types"]
    geometry = (
        catalog()
        .architectures["12b"]
        .model_copy(
            update={
                "hidden_size": said["hidden_size"],
                "layers": len(kinds),
                "sliding_layers_with_kv": kinds.count("sliding_attention"),
                "full_layers_with_kv": kinds.count("full_attention"),
                "attention_heads": said["num_attention_heads"],
                "kv_heads": said["num_key_value_heads"],
                "global_kv_heads": said["num_key_value_heads"],
                "intermediate_size": said["intermediate_size"],
            }
        )
    )
    assert LAB is not None
    rank, slots = 16, 3
    counted = subprocess.run(
        [LAB / "venv/bin/python", count_adapter_room.__file__, model, str(rank), str(slots)],
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in counted.stdout.splitlines() if line.startswith("room "))
    assert int(line.split()[1]) == 2 * rank * slots * numbers_per_rank(geometry, 1)
