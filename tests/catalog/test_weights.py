"""The counted sizes of Gemma 4: parameters that sum up, checkpoints and resident weights that follow from them.

Published figures are restated here with their source, so that a slip in the data file cannot agree with itself.
"""

from __future__ import annotations

import pytest

from infra.catalog import GIB, Architecture, Model, WeightFormat, catalog

CATALOG = catalog()
ARCHITECTURES = list(CATALOG.architectures.values())
MODELS = list(CATALOG.models.values())
BYTES_BF16 = 2
BYTES_W4A16 = 0.5625  # int4 in groups of 32 with one bf16 scale each


def named(row: Architecture | Model) -> str:
    return row.id


class TestParametersCloseExactly:
    @pytest.mark.parametrize("architecture", ARCHITECTURES, ids=named)
    def test_the_categories_sum_to_the_total(self, architecture: Architecture) -> None:
        p = architecture.parameters
        categories = p.model_dump(exclude={"total"})
        assert sum(categories.values()) == p.total

    @pytest.mark.parametrize("architecture", ARCHITECTURES, ids=named)
    def test_the_large_categories_follow_from_the_geometry(self, architecture: Architecture) -> None:
        a, p = architecture, architecture.parameters
        shared = a.layers - a.sliding_layers_with_kv - a.full_layers_with_kv
        mlp_layers = a.layers + (shared if a.double_wide_shared_mlp else 0)
        assert p.embedding == a.vocab_size * a.hidden_size
        assert p.mlp == 3 * a.hidden_size * a.intermediate_size * mlp_layers
        assert p.per_layer_embedding in (0, a.vocab_size * 256 * a.layers)
        if a.experts is not None:
            assert p.experts == 3 * a.hidden_size * a.experts.intermediate_size * a.experts.count * a.layers
            assert p.router == a.hidden_size * a.experts.count * a.layers

    @pytest.mark.parametrize("architecture", [row for row in ARCHITECTURES if row.key_equals_value], ids=named)
    def test_attention_follows_from_heads_where_every_layer_owns_its_kv(self, architecture: Architecture) -> None:
        a = architecture
        sliding = a.hidden_size * a.head_dim * (2 * a.attention_heads + 2 * a.kv_heads)
        full = a.hidden_size * a.global_head_dim * (2 * a.attention_heads + a.global_kv_heads)  # one matrix for K and V
        assert a.parameters.attention == a.sliding_layers_with_kv * sliding + a.full_layers_with_kv * full

    @pytest.mark.parametrize("architecture", ARCHITECTURES, ids=named)
    def test_what_vllm_keeps_beside_the_parameters_follows_from_the_geometry(self, architecture: Architecture) -> None:
        a = architecture
        value_matrices = a.full_layers_with_kv if a.key_equals_value else 0
        values = a.hidden_size * a.global_kv_heads * a.global_head_dim * value_matrices
        assert a.rope_cache_bytes == a.max_position * (a.head_dim + a.global_head_dim) * BYTES_BF16
        assert a.duplicated_value_bytes == values * BYTES_BF16

    @pytest.mark.parametrize("weight_format", CATALOG.weight_formats.values(), ids=lambda row: row.id)
    def test_a_format_stores_as_many_bytes_as_its_numbers_take(self, weight_format: WeightFormat) -> None:
        counted = {"bf16": BYTES_BF16, "w4a16": BYTES_W4A16}
        assert weight_format.bytes_per_parameter == counted.get(weight_format.id, weight_format.bytes_per_parameter)
        assert weight_format.quantized == (weight_format.bytes_per_parameter < BYTES_BF16)

    @pytest.mark.parametrize("model", MODELS, ids=named)
    def test_the_checkpoint_holds_what_the_counts_say(self, model: Model) -> None:
        a = CATALOG.architecture_of(model.id)
        p = a.parameters
        stored = CATALOG.weight_formats[model.weight_format]
        bf16 = (p.total - p.linear) * BYTES_BF16
        if model.sizes is not None:
            assert model.checkpoint_bytes == model.sizes.total
            return
        if not stored.quantized:
            assert model.checkpoint_bytes == p.linear * BYTES_BF16 + bf16 + a.unshared_kv_checkpoint_bytes
            return
        lm_head_copy = p.embedding * BYTES_BF16
        narrow = p.linear * stored.bytes_per_parameter + bf16
        if model.weight_format == "w4a16":  # Google's, counted to the byte
            assert model.checkpoint_bytes == narrow + lm_head_copy
        assert narrow <= model.checkpoint_bytes <= narrow + lm_head_copy

    @pytest.mark.parametrize("model", [row for row in MODELS if row.sizes is not None], ids=named)
    def test_counted_tensors_are_those_of_the_architecture(self, model: Model) -> None:
        """Each kind is as large as its parameters in bf16, or in the format of the checkpoint with its scales."""
        p, sizes = CATALOG.architecture_of(model.id).parameters, model.sizes
        assert sizes is not None
        narrow = CATALOG.weight_formats[model.weight_format].bytes_per_parameter
        for kind in ("attention", "mlp", "experts", "per_layer_linears"):
            counted, parameters = getattr(sizes, kind), getattr(p, kind)
            in_bf16, in_format = parameters * BYTES_BF16, parameters * narrow
            assert counted == in_bf16 or in_format <= counted <= 1.01 * in_format
        for kind in ("router", "embedding", "per_layer_embedding", "norms", "vision", "audio"):
            assert getattr(sizes, kind) == getattr(p, kind) * BYTES_BF16
        assert sizes.lm_head in (0, sizes.embedding)

    def test_sizes_of_third_parties_agree_with_what_was_published(self) -> None:
        # GB of the files by a survey of the Hub's API (2026-10-10) and by two users of the AWQ repack
        published = {
            "gemma-4-12b-it-fp8-dynamic": 15.0,
            "gemma-4-26b-a4b-it-fp8-dynamic": 28.6,
            "gemma-4-31b-it-fp8-dynamic": 33.3,
            "gemma-4-26b-a4b-it-awq-4bit": 17.2,
        }
        for model, gigabytes in published.items():
            assert CATALOG.model(model).checkpoint_bytes / 1e9 == pytest.approx(gigabytes, abs=0.05)

    def test_a_decoded_token_reads_the_bytes_that_were_counted(self) -> None:
        # GB a step in bf16 as counted for the speed model: linears and the output embedding, PLE tables left out
        for architecture, gigabytes in (("e2b", 4.56), ("31b", 61.4)):
            active = CATALOG.architectures[architecture].active_parameters
            assert active * BYTES_BF16 / 1e9 == pytest.approx(gigabytes, abs=0.05)
        assert CATALOG.architectures["26b-a4b"].active_parameters == pytest.approx(3.8e9, rel=0.02)


# Resident weights in GiB on one GPU: predicted to the digit given, and published by vllm-project/recipes (2026-08-21,
# printed "GB", read as GiB). The prediction is known to be a little low, never high.
RESIDENT_GIB = {
    "gemma-4-e2b-it": (9.69, 9.8),
    "gemma-4-e4b-it": (14.98, 15.2),
    "gemma-4-12b-it": (22.68, 22.8),
    "gemma-4-26b-a4b-it": (48.47, None),
    "gemma-4-31b-it": (58.83, 59.0),
    "gemma-4-e2b-it-qat-w4a16": (7.18, 7.3),
    "gemma-4-e4b-it-qat-w4a16": (9.66, 9.8),
    "gemma-4-12b-it-qat-w4a16": (8.07, 8.3),
    "gemma-4-31b-it-qat-w4a16": (19.47, 19.8),
}


def resident_gib(model: Model) -> float:
    a = CATALOG.architecture_of(model.id)
    if model.weight_format == "bf16":
        return (a.parameters.total * BYTES_BF16 + a.rope_cache_bytes + a.duplicated_value_bytes) / GIB
    quantized = a.parameters.linear
    weights = quantized * BYTES_W4A16 + (a.parameters.total - quantized) * BYTES_BF16
    return (weights + a.rope_cache_bytes + a.duplicated_value_bytes * BYTES_W4A16 / BYTES_BF16) / GIB


class TestResidentWeights:
    @pytest.mark.parametrize("model", RESIDENT_GIB)
    def test_the_counts_give_the_sizes_that_were_seen(self, model: str) -> None:
        predicted, published = RESIDENT_GIB[model]
        resident = resident_gib(CATALOG.model(model))
        assert resident == pytest.approx(predicted, abs=0.006)
        if published is not None:
            assert 0.97 * published < resident < published

    def test_measured_loads_are_within_two_percent(self) -> None:
        # logged by vLLM 0.22.1 (E4B, a 24 GB card) and 0.26.0 (31B, B300)
        for model, logged in (("gemma-4-e4b-it", 15.18), ("gemma-4-31b-it", 58.99)):
            assert resident_gib(CATALOG.model(model)) == pytest.approx(logged, rel=0.02)

    def test_a_31b_qat_checkpoint_cannot_be_constructed_on_an_l4(self) -> None:
        # measured: 19.81 GiB in use and 2.62 GiB asked for with 2.15 GiB free
        resident = resident_gib(CATALOG.model("gemma-4-31b-it-qat-w4a16"))
        lm_head = CATALOG.architectures["31b"].parameters.embedding * BYTES_BF16 / GIB
        assert lm_head == pytest.approx(2.62, abs=0.01)
        assert resident + lm_head > CATALOG.accelerator("l4").device_memory_gib


class TestModels:
    @pytest.mark.parametrize("model", [row for row in MODELS if row.hub_id.startswith("google/")], ids=named)
    def test_the_id_of_a_checkpoint_of_googles_is_its_hub_name_in_lower_case(self, model: Model) -> None:
        name = model.hub_id.removeprefix("google/")
        assert model.id == name.removesuffix("-ct").lower()
        assert (model.weight_format == "w4a16") == name.endswith("-qat-w4a16-ct")

    @pytest.mark.parametrize("model", MODELS, ids=named)
    def test_the_drafter_is_that_of_the_same_size(self, model: Model) -> None:
        assistant = CATALOG.assistant_of(model.id)
        assert assistant is not None
        assert assistant.id == f"gemma-4-{model.architecture}-it-assistant"
        assert assistant.hub_id.lower() == f"google/{assistant.id}"
        assert assistant.parameters < CATALOG.architecture_of(model.id).parameters.total / 10

    @pytest.mark.parametrize("model", MODELS, ids=named)
    def test_the_default_images_are_new_enough(self, model: Model) -> None:
        assistant = CATALOG.assistant_of(model.id)
        needed = max(version(model.min_vllm), version(assistant.min_vllm if assistant else "0"))
        for image in ("gpu", "tpu"):
            assert version(CATALOG.images[image].vllm_version or "0") >= needed

    @pytest.mark.parametrize("architecture", ARCHITECTURES, ids=named)
    def test_audio_is_an_input_exactly_where_there_are_audio_weights(self, architecture: Architecture) -> None:
        assert ("audio" in architecture.input_modalities) == (architecture.parameters.audio > 0)


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
