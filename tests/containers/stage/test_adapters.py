"""LoRA adapters: what of one is copied, which are refused before anything is stored, and a bucket as the source."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from containers.weights.gemma4_stage.adapter_files import AdapterFacts, AdapterRules, faults_of, from_manifest
from tests.containers.stage.copies import MANIFEST, MIB, MakePlace, Place, Run, bytes_of
from tests.fakes.hub import COMMIT, Content

HIDDEN, LAYERS, RANK = 3840, 48, 16
ASKED = ["--adapter-rank", str(RANK), "--adapter-base", "gemma-4-12b", "--adapter-layers", str(LAYERS)]
ASKED += ["--adapter-hidden", str(HIDDEN)]
BASE = "google/gemma-4-12B-it"
PREFIX = "base_model.model.model.language_model"


def config(**changes: Any) -> bytes:
    said: dict[str, Any] = {"peft_type": "LORA", "r": RANK, "lora_alpha": 32, "base_model_name_or_path": BASE}
    return json.dumps({**said, "target_modules": ["q_proj"], "bias": "none", **changes}).encode()


def tensors(*modules: str, rank: int = RANK, hidden: int = HIDDEN, layer: int = 0, more: tuple[str, ...] = ()) -> bytes:
    """A safetensors file: the list of tensors, then bytes that nobody looks at."""
    shapes: dict[str, list[int]] = {}
    for module in modules or ("self_attn.q_proj",):
        name = f"{PREFIX}.layers.{layer}.{module}"
        shapes |= {f"{name}.lora_A.weight": [rank, hidden], f"{name}.lora_B.weight": [4096, rank]}
    shapes |= {name: [rank, 768] for name in more}
    rows = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    header = json.dumps({"__metadata__": {"format": "pt"}, **rows}).encode()
    return len(header).to_bytes(8, "little") + header + bytes_of(MIB + 5)


ADAPTER: dict[str, Content] = {
    "adapter_config.json": config(),
    "adapter_model.safetensors": tensors(),
    "README.md": b"a card",
    "tokenizer.json": b"{}",
    "training_args.bin": b"pickle",
    "checkpoint-100/adapter_model.safetensors": b"older",
}


def adapter(make_place: MakePlace, **files: Content) -> Place:
    named = {name.replace("__", "."): content for name, content in files.items()}
    return make_place({**ADAPTER, **named})


def refused(run: Run, place: Place) -> str:
    """Why the run refused the adapter; nothing of it was stored."""
    assert run.code == 10, run.text
    assert not [name for name in place.storage.objects if name.startswith("model/")]
    assert place.storage.uploads == {}
    return run.error


class TestACopy:
    def test_takes_the_two_files_and_nothing_that_could_hold_code(self, make_place: MakePlace) -> None:
        place = adapter(make_place)
        run = place.run(*ASKED)
        assert run.code == 0, run.text
        two = {"adapter_config.json", "adapter_model.safetensors"}
        assert set(place.storage.objects) == {f"model/{name}" for name in two} | {MANIFEST}
        assert all(place.stored(name) == ADAPTER[name] for name in two)

    def test_keeps_what_it_read_in_the_manifest(self, make_place: MakePlace) -> None:
        place = adapter(make_place)
        place.run(*ASKED)
        facts = from_manifest(place.manifest["adapter"])
        assert facts == AdapterFacts(RANK, BASE, 1, HIDDEN, False, (), ())

    def test_runs_again_without_copying(self, make_place: MakePlace) -> None:
        place = adapter(make_place)
        place.run(*ASKED)
        place.forget_requests()
        assert place.run(*ASKED).code == 0
        assert not [seen for seen in place.hub.hub_requests if "/resolve/" in seen.path]

    def test_is_refused_later_where_the_room_became_too_small(self, make_place: MakePlace) -> None:
        place = adapter(make_place)
        place.run(*ASKED)
        again = place.run(*ASKED, "--adapter-rank", "8")
        assert again.code == 10
        assert "serving.adapterRank" in again.error

    def test_looks_at_a_folder_that_was_copied_as_a_model(self, make_place: MakePlace) -> None:
        place = make_place({name: ADAPTER[name] for name in ("adapter_config.json", "adapter_model.safetensors")})
        assert place.run().code == 0
        assert "adapter" not in place.manifest
        assert place.run(*ASKED).code == 0
        assert place.manifest["adapter"]["rank"] == RANK


class TestWhatIsRefused:
    @pytest.mark.parametrize("missing", ["adapter_config.json", "adapter_model.safetensors"])
    def test_a_source_without_one_of_the_files(self, make_place: MakePlace, missing: str) -> None:
        place = make_place({name: content for name, content in ADAPTER.items() if name != missing})
        assert missing in refused(place.run(*ASKED), place)

    def test_pickled_weights(self, make_place: MakePlace) -> None:
        place = make_place({"adapter_config.json": config(), "adapter_model.bin": b"pickle"})
        error = refused(place.run(*ASKED), place)
        assert "can hold code" in error
        assert "safe_serialization" in error

    @pytest.mark.parametrize(
        ("config_of", "tensors_of", "words"),
        [
            ({"r": 64}, {}, "serving.adapterRank"),
            ({"rank_pattern": {"q_proj": 32}}, {}, "serving.adapterRank"),
            ({}, {"rank": 32}, "serving.adapterRank"),
            ({"base_model_name_or_path": "google/gemma-4-31B-it"}, {}, "gemma-4-31B-it"),
            ({"base_model_name_or_path": "/content/base"}, {"hidden": 5376}, "hidden size 5376"),
            ({"base_model_name_or_path": "/content/base"}, {"layer": 59}, "layer 60"),
            ({"use_dora": True}, {}, "DoRA"),
            ({"bias": "all"}, {}, "bias"),
            ({"modules_to_save": ["embed_tokens"]}, {}, "modules_to_save"),
            ({"init_lora_weights": "pissa"}, {}, "pissa"),
            ({"peft_type": "IA3"}, {}, "IA3"),
            ({}, {"more": (f"{PREFIX}.embed_tokens.lora_embedding_A",)}, "embed_tokens"),
            ({}, {"more": (f"{PREFIX}.layers.0.experts.base_layer.lora_A.weight",)}, "one by one"),
            ({}, {"more": (f"{PREFIX}.layers.0.experts.7.w1.lora_A.weight",)}, "serving.adapterExperts"),
        ],
    )
    def test_what_vllm_would_not_load(
        self, make_place: MakePlace, config_of: dict[str, Any], tensors_of: dict[str, Any], words: str
    ) -> None:
        place = adapter(
            make_place, adapter_config__json=config(**config_of), adapter_model__safetensors=tensors(**tensors_of)
        )
        assert words in refused(place.run(*ASKED), place)

    @pytest.mark.parametrize(
        "weights",
        [b"", b"PK\x03\x04pickled archive", (200 * MIB).to_bytes(8, "little") + b"{}", b"\x02" + bytes(7) + b"[]"],
    )
    def test_weights_that_are_no_safetensors(self, make_place: MakePlace, weights: bytes) -> None:
        place = adapter(make_place, adapter_model__safetensors=weights)
        assert "PEFT adapter" in refused(place.run(*ASKED), place)

    @pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"r": "many"}', b"[" * 100_000])
    def test_a_configuration_that_is_none(self, make_place: MakePlace, text: bytes) -> None:
        place = adapter(make_place, adapter_config__json=text)
        assert "PEFT adapter" in refused(place.run(*ASKED), place)

    def test_half_a_question(self, make_place: MakePlace) -> None:
        assert adapter(make_place).run("--adapter-rank", "16").code == 2


class TestWhatIsTaken:
    def rules(self, **changes: Any) -> AdapterRules:
        return AdapterRules(RANK, "gemma-4-12b", LAYERS, HIDDEN, False)._replace(**changes)

    @pytest.mark.parametrize("base", [BASE, "unsloth/gemma-4-12b-it-unsloth-bnb-4bit", "/content/my-model", ""])
    def test_a_base_of_the_same_size_or_of_no_name(self, base: str) -> None:
        facts = AdapterFacts(RANK, base, LAYERS, HIDDEN, False, (), ())
        assert list(faults_of(facts, self.rules())) == []

    def test_experts_where_there_is_room(self) -> None:
        facts = AdapterFacts(RANK, BASE, LAYERS, HIDDEN, True, (), ())
        assert list(faults_of(facts, self.rules(experts=True))) == []
        assert len(list(faults_of(facts, self.rules()))) == 1

    def test_a_tower_with_a_warning(self, make_place: MakePlace) -> None:
        changed = tensors(more=("base_model.model.model.vision_tower.encoder.layers.0.self_attn.q_proj.lora_A.weight",))
        run = adapter(make_place, adapter_model__safetensors=changed).run(*ASKED)
        assert run.code == 0, run.text
        assert [entry for entry in run.entries if entry["severity"] == "WARNING" and "vision_tower" in entry["message"]]


class TestABucketAsTheSource:
    @pytest.fixture
    def place(self, make_place: MakePlace) -> Place:
        place = make_place()
        for name, content in ADAPTER.items():
            place.storage.put(f"training/run 7/{name}", content[:])
        place.where = ["--repo", "gs://weights/training/run 7", "--destination", "gs://weights/model"]
        return place

    def test_gives_both_files_checked_and_with_their_sha256(self, place: Place) -> None:
        run = place.run(*ASKED)
        assert run.code == 0, run.text
        assert place.stored("adapter_model.safetensors") == ADAPTER["adapter_model.safetensors"]
        assert not place.has("training_args.bin")
        rows = {row["name"]: row["sha256"] for row in place.manifest["files"]}
        assert rows == {
            name: hashlib.sha256(ADAPTER[name][:]).hexdigest()
            for name in ("adapter_config.json", "adapter_model.safetensors")
        }
        assert place.hub.hub_requests == []

    def test_is_not_copied_twice_and_tells_of_another_content(self, place: Place) -> None:
        place.run(*ASKED)
        place.forget_requests()
        assert place.run(*ASKED).code == 0
        assert not [seen for seen in place.storage.requests if seen.method in ("POST", "PUT")]
        place.storage.put("training/run 7/adapter_config.json", config(lora_alpha=8))
        again = place.run(*ASKED)
        assert again.code == 0
        assert "newer commit" in again.text
        assert place.stored("adapter_config.json") == ADAPTER["adapter_config.json"]

    def test_may_be_a_folder_that_another_copy_filled(self, place: Place) -> None:
        place.storage.put("training/run 7/gemma4-manifest.json", b"{}")
        run = place.run(*ASKED)
        assert run.code == 0, run.text
        assert sorted(row["name"] for row in place.manifest["files"]) == [
            "adapter_config.json",
            "adapter_model.safetensors",
        ]

    def test_is_refused_where_it_lists_no_checksum(self, place: Place) -> None:
        place.storage.objects["training/run 7/adapter_model.safetensors"].md5 = ""
        run = place.run(*ASKED)
        assert run.code == 6
        assert "parallel_composite_upload_enabled" in run.error

    def test_is_not_believed_where_its_bytes_are_others(self, place: Place) -> None:
        stored = place.storage.objects["training/run 7/adapter_model.safetensors"]
        stored.data = stored.data[:-1] + bytes([stored.data[-1] ^ 1])
        assert place.run(*ASKED).code == 3
        assert not place.has("adapter_model.safetensors")

    def test_that_does_not_exist_or_may_not_be_read_names_the_grant(self, place: Place) -> None:
        place.where[1] = "gs://weights/elsewhere"
        assert place.run(*ASKED).code == 6
        place.where[1] = "gs://other/folder"
        assert "no such bucket" in place.run(*ASKED).error


def test_the_commit_is_the_one_that_was_asked_for(make_place: MakePlace) -> None:
    place = adapter(make_place)
    place.run(*ASKED)
    assert place.manifest["revision"] == COMMIT
