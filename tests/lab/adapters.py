"""Tiny LoRA adapters in PEFT's form, written by hand: random matrices for every linear layer of a tiny model's decoder."""

from __future__ import annotations

import json
import random
from pathlib import Path

MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def header_of(safetensors: Path) -> bytes:
    """The list of tensors at the start of a safetensors file, as JSON."""
    with safetensors.open("rb") as file:
        return file.read(int.from_bytes(file.read(8), "little"))


def make_adapter(model: Path, target: Path, *, rank: int, seed: int) -> Path:
    """Write an adapter of `model` whose answers are other ones than the model's own."""
    target.mkdir(parents=True)
    listed = json.loads(header_of(model / "model.safetensors"))
    shapes: dict[str, tuple[int, int]] = {}
    for name, row in listed.items():
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] in MODULES and "_tower." not in name:
            outputs, inputs = row["shape"]
            shapes[f"base_model.model.{module}.lora_A.weight"] = (rank, inputs)
            shapes[f"base_model.model.{module}.lora_B.weight"] = (outputs, rank)
    source, data, rows = random.Random(seed), bytearray(), dict[str, object]()
    for name, (first, second) in shapes.items():
        start = len(data)
        data += b"".join(_bf16(source) for _ in range(first * second))
        rows[name] = {"dtype": "BF16", "shape": [first, second], "data_offsets": [start, len(data)]}
    header = json.dumps(rows).encode()
    header += b" " * (-len(header) % 8)
    (target / "adapter_model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank, "bias": "none"}
    config |= {"target_modules": list(MODULES), "base_model_name_or_path": str(model)}
    (target / "adapter_config.json").write_text(json.dumps(config))
    return target


def _bf16(source: random.Random) -> bytes:
    """A number of about half, of either sign: sign, exponent of 0.25 or 0.5, seven random bits."""
    exponent = source.choice((125, 126))
    return (source.getrandbits(1) << 15 | exponent << 7 | source.getrandbits(7)).to_bytes(2, "little")
