"""What a server holds of each kind of tensor: counted from the checkpoint's own tensors, else from architecture and format.

Memory and speed are estimated from these bytes, so that a fine-tune or another maker's format needs no rule of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.catalog import BF16_BYTES, Architecture, Model, WeightFormat

FP8_BYTES = 1


@dataclass(frozen=True)
class ServedWeights:
    """Bytes over all devices, as they are served: after vLLM has quantised what it quantises while loading."""

    attention: float
    mlp: float
    experts: float
    router: float
    per_layer_linears: float
    embedding: float
    per_layer_embedding: float
    own_lm_head: float
    """An output embedding beside the input's; 0 where the two are one."""
    norms: float
    vision: float
    audio: float
    shared_kv: float
    """K and V of KV-shared layers."""
    duplicated_value: float
    """V of full layers that vLLM on GPU keeps beside the same K; not part of `attention`."""

    @property
    def linear(self) -> float:
        """Return the decoder's linear layers: what is quantised, and what may be offloaded."""
        return self.attention + self.mlp + self.experts + self.per_layer_linears

    @property
    def total(self) -> float:
        """Return all that the checkpoint gives to a server that serves every modality, K and V of shared layers left out."""
        tables = self.embedding + self.per_layer_embedding + self.own_lm_head
        return self.linear + tables + self.router + self.norms + self.vision + self.audio


def served_weights(
    model: Model, architecture: Architecture, weight_format: WeightFormat, *, to_fp8: bool
) -> ServedWeights:
    """Return what is served of `model`; `to_fp8` says that vLLM makes fp8 of the linear layers while loading."""
    sizes, p = model.sizes, architecture.parameters
    if sizes is not None:
        narrower = FP8_BYTES / BF16_BYTES if to_fp8 else 1.0
        untied = 0 if sizes.lm_head_is_tied else sizes.lm_head or sizes.embedding
        return ServedWeights(
            attention=narrower * sizes.attention,
            mlp=narrower * sizes.mlp,
            experts=narrower * sizes.experts,
            router=sizes.router,
            per_layer_linears=narrower * sizes.per_layer_linears,
            embedding=sizes.embedding,
            per_layer_embedding=sizes.per_layer_embedding,
            own_lm_head=untied,
            norms=sizes.norms,
            vision=sizes.vision,
            audio=sizes.audio,
            shared_kv=narrower * sizes.shared_kv,
            duplicated_value=narrower * sizes.duplicated_value,
        )
    each = FP8_BYTES if to_fp8 else weight_format.bytes_per_parameter
    return ServedWeights(
        attention=each * p.attention,
        mlp=each * p.mlp,
        experts=each * p.experts,
        router=BF16_BYTES * p.router,
        per_layer_linears=each * p.per_layer_linears,
        embedding=BF16_BYTES * p.embedding,
        per_layer_embedding=BF16_BYTES * p.per_layer_embedding,
        own_lm_head=0.0,
        norms=BF16_BYTES * p.norms,
        vision=BF16_BYTES * p.vision,
        audio=BF16_BYTES * p.audio,
        shared_kv=architecture.unshared_kv_checkpoint_bytes * each / BF16_BYTES,
        duplicated_value=architecture.duplicated_value_bytes * each / BF16_BYTES,
    )
