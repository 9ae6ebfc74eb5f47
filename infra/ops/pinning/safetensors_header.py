"""The header of a safetensors file: 8 bytes of length, then JSON with the type, shape and place of each tensor.

The form is documented at github.com/huggingface/safetensors. A header says everything about sizes, so that a file of many
gigabytes is counted from its first kilobytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.errors import Gemma4Error

LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100_000_000
"""What the format itself allows."""
FIRST_READ = 256 * 1024
"""Bytes of the first request: most headers need no second one."""
BITS = {
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "F32": 32,
    "I32": 32,
    "U32": 32,
    "F16": 16,
    "BF16": 16,
    "I16": 16,
    "U16": 16,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I8": 8,
    "U8": 8,
    "BOOL": 8,
    "F4": 4,
}
"""Bits of each type of the format."""

ReadRange = Callable[[int, int], bytes]
"""Returns as many bytes of a file, from an offset on."""


@dataclass(frozen=True)
class Tensor:
    """One tensor as its file's header lists it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


def read_header(name: str, file_bytes: int, read: ReadRange) -> list[Tensor]:
    """Return the tensors of the file `name` of `file_bytes` bytes. Raises Gemma4Error where it is cut short."""
    first = read(0, min(FIRST_READ, file_bytes))
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    if len(first) < LENGTH_BYTES or length > min(MOST_HEADER_BYTES, file_bytes - LENGTH_BYTES) or length < 2:
        raise _bad(name, f"its first 8 bytes announce a header of {length:,} bytes in a file of {file_bytes:,}")
    end = LENGTH_BYTES + length
    whole = first if len(first) >= end else first + read(len(first), end - len(first))
    if len(whole) < end:
        raise _bad(name, f"{len(whole):,} of {end:,} bytes of its header could be read")
    try:
        rows = json.loads(whole[LENGTH_BYTES:end])
        rows.pop("__metadata__", None)
        tensors = [_tensor(tensor, row) for tensor, row in rows.items()]
        data_bytes = max((row["data_offsets"][1] for row in rows.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise _bad(name, "its header is not a list of tensors") from None
    if end + data_bytes != file_bytes or sum(tensor.size_bytes for tensor in tensors) != data_bytes:
        raise _bad(
            name, f"its tensors take {data_bytes:,} bytes, and the file holds {file_bytes - end:,} behind its header"
        )
    return tensors


def _tensor(name: str, row: Any) -> Tensor:
    begin, end = row["data_offsets"]
    shape = tuple(row["shape"])
    size = math.prod(shape) * BITS[row["dtype"]]
    if not all(isinstance(count, int) and count >= 0 for count in (begin, end, *shape)) or 8 * (end - begin) != size:
        raise ValueError(name)
    return Tensor(name, row["dtype"], shape, end - begin)


def _bad(name: str, why: str) -> Gemma4Error:
    return Gemma4Error(f"{name} is not a whole safetensors file: {why}. Nothing was pinned; upload it again.")
