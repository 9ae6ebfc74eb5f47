"""Facts as data: models, machines, prices, images, recipes and vLLM's flags, each with its source and date.

Read README.md first, then the data (`*.toml`, `vllm_flags-*.json`, `lock.json`, `published_runs.json`). `schema` says what
a row may hold and in which unit, `failures` what a known failure is, `file_reader` reads one file and reports every fault of
it, `loader` holds all rows by id: `catalog()` is the way in. `flags` and `flag_values` answer what `vllm serve` takes; `lock`
reads what `gemma4 pin` wrote, `checkpoint_lock` what it read of a user's own checkpoints, and `versions` compares versions of
vLLM. `dump_flags` writes a table of flags anew and is imported by nothing.
"""

from __future__ import annotations

from infra.catalog.loader import Catalog, catalog
from infra.catalog.lock import Lock, write_lock
from infra.catalog.schema import (
    BF16_BYTES,
    FLOAT32_BYTES,
    GIB,
    Accelerator,
    Architecture,
    Assistant,
    Benchmark,
    CheckpointSizes,
    CloudRunLimits,
    ComputeEngineLimits,
    Device,
    Experts,
    Image,
    LoadedSize,
    Modality,
    Model,
    OpenFault,
    Parameters,
    Price,
    PriceUnit,
    Profile,
    ProgramSize,
    Quota,
    ReadRate,
    Recipe,
    Score,
    SlowPrompts,
    Source,
    StageTime,
    TpuLimits,
    Unscored,
    VisionTower,
    WeightFormat,
)

__all__ = [
    "BF16_BYTES",
    "FLOAT32_BYTES",
    "GIB",
    "Accelerator",
    "Architecture",
    "Assistant",
    "Benchmark",
    "Catalog",
    "CheckpointSizes",
    "CloudRunLimits",
    "ComputeEngineLimits",
    "Device",
    "Experts",
    "Image",
    "LoadedSize",
    "Lock",
    "Modality",
    "Model",
    "OpenFault",
    "Parameters",
    "Price",
    "PriceUnit",
    "Profile",
    "ProgramSize",
    "Quota",
    "ReadRate",
    "Recipe",
    "Score",
    "SlowPrompts",
    "Source",
    "StageTime",
    "TpuLimits",
    "Unscored",
    "VisionTower",
    "WeightFormat",
    "catalog",
    "write_lock",
]
