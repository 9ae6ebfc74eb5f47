"""The fakes around the weights copy, closed after each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.containers.stage.copies import (
    MODEL,
    MakePlace,
    Place,
)
from tests.fakes.hub import Content


@pytest.fixture
def make_place() -> Iterator[MakePlace]:
    made: list[Place] = []

    def make(files: dict[str, Content] | None = None, **options: Any) -> Place:
        made.append(Place(MODEL if files is None else files, **options))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.fixture
def place(make_place: MakePlace) -> Place:
    return make_place()
