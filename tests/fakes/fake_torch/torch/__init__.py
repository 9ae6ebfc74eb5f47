"""So much of torch as the check of the GPUs uses: numbers in a row on one device, and sums over processes (`distributed`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

float32 = "float32"
cuda = SimpleNamespace(set_device=lambda rank: None)


class FakeTensor:
    def __init__(self, values: list[float]) -> None:
        self.values = values

    def __add__(self, other: float) -> FakeTensor:
        return FakeTensor([value + other for value in self.values])

    def __mul__(self, other: float) -> FakeTensor:
        return FakeTensor([value * other for value in self.values])

    def __mod__(self, other: float) -> FakeTensor:
        return FakeTensor([value % other for value in self.values])

    def __ne__(self, other: object) -> Any:
        assert isinstance(other, FakeTensor)
        return FakeTensor([float(one != two) for one, two in zip(self.values, other.values, strict=True)])

    __hash__ = None  # type: ignore[assignment]

    def to(self, device: str) -> FakeTensor:
        """Return a copy; FAKE_SUMS may lose one number on the way to the second GPU."""
        if device == "cuda:1" and os.environ.get("FAKE_SUMS") == "lossy":
            return FakeTensor([*self.values[:-1], -1.0])
        return FakeTensor([*self.values])

    def sum(self) -> FakeTensor:
        return FakeTensor([sum(self.values)])

    @property
    def item(self) -> Callable[[], float]:
        return lambda: self.values[0]


def arange(size: int, **_: object) -> FakeTensor:
    return FakeTensor([float(number) for number in range(size)])


def zeros(size: int, **_: object) -> FakeTensor:
    return FakeTensor([0.0] * size)
