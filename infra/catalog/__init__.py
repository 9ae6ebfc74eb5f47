"""Facts as data: models, machines, prices, images, recipes and vLLM's flags, each with its source and date."""

from __future__ import annotations

from infra.catalog.loader import Catalog, Profile, catalog
from infra.catalog.lock import Lock, write_lock
from infra.catalog.schema import (
    BF16_BYTES,
    GIB,
    Accelerator,
    Architecture,
    Assistant,
    CloudRunLimits,
    Device,
    Experts,
    Image,
    Modality,
    Model,
    Parameters,
    Platform,
    Price,
    PriceUnit,
    Quota,
    Recipe,
    Source,
    TpuLimits,
    WeightFormat,
)

__all__ = [
    "BF16_BYTES",
    "GIB",
    "Accelerator",
    "Architecture",
    "Assistant",
    "Catalog",
    "CloudRunLimits",
    "Device",
    "Experts",
    "Image",
    "Lock",
    "Modality",
    "Model",
    "Parameters",
    "Platform",
    "Price",
    "PriceUnit",
    "Profile",
    "Quota",
    "Recipe",
    "Source",
    "TpuLimits",
    "WeightFormat",
    "catalog",
    "write_lock",
]
