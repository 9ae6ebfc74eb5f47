"""Draws the pictures of the questions about images: shapes on white, without an imaging library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from infra.serving.evaluation.task_set import Shape
from infra.serving.message_parts import image_data_part
from infra.serving.samples import png_of

PIXELS = 336
_WHITE = (255, 255, 255)
_COLOURS = {
    "red": (220, 30, 30),
    "green": (20, 150, 40),
    "blue": (30, 60, 220),
    "black": (0, 0, 0),
    "yellow": (250, 210, 20),
}
_SEGMENTS = {
    "0": "abcdef",
    "1": "bc",
    "2": "abged",
    "3": "abgcd",
    "4": "fgbc",
    "5": "afgcd",
    "6": "afgedc",
    "7": "abc",
    "8": "abcdefg",
    "9": "abcdfg",
}
"""Bars of a seven-bar digit: a top, b and c right, d bottom, e and f left, g middle."""
_THICK = 0.16  # of a digit's height

Inside = Callable[[float, float], bool]


def picture_part(shapes: tuple[Shape, ...]) -> Mapping[str, Any]:
    """Return the picture as a part of a chat message."""
    return image_data_part(drawn(shapes), "image/png")


@cache
def drawn(shapes: tuple[Shape, ...]) -> bytes:
    """Return a PNG of the shapes on white, `PIXELS` wide and high; later shapes cover earlier ones."""
    layers = [(_COLOURS[shape.colour], _inside(shape)) for shape in reversed(shapes)]
    rows = []
    for row in range(PIXELS):
        y = (row + 0.5) / PIXELS
        colours = (
            next((colour for colour, inside in layers if inside((column + 0.5) / PIXELS, y)), _WHITE)
            for column in range(PIXELS)
        )
        rows.append(bytes(value for colour in colours for value in colour))
    return png_of(rows)


def _inside(shape: Shape) -> Inside:
    """Return whether a point, in shares of the picture's side, belongs to the shape."""
    x, y, half = shape.x, shape.y, shape.size / 2
    match shape.shape:
        case "circle":
            return lambda px, py: (px - x) ** 2 + (py - y) ** 2 <= half**2
        case "square":
            return lambda px, py: abs(px - x) <= half and abs(py - y) <= half
        case "triangle":  # its tip above, its base below
            return lambda px, py: abs(py - y) <= half and abs(px - x) <= (py - y + half) / 2
        case "bar":
            return lambda px, py: abs(px - x) <= half and py >= 1 - y
        case digit:
            return _digit(digit, x, y, shape.size)


def _digit(digit: str, x: float, y: float, height: float) -> Inside:
    """Return the inside of a seven-bar digit, half as wide as it is high, around (x, y)."""
    left, right, top, bottom = x - height / 4, x + height / 4, y - height / 2, y + height / 2
    thick = height * _THICK
    bars = {
        "a": (left, right, top, top + thick),
        "b": (right - thick, right, top, y),
        "c": (right - thick, right, y, bottom),
        "d": (left, right, bottom - thick, bottom),
        "e": (left, left + thick, y, bottom),
        "f": (left, left + thick, top, y),
        "g": (left, right, y - thick / 2, y + thick / 2),
    }
    lit = [bars[segment] for segment in _SEGMENTS[digit]]
    return lambda px, py: any(x0 <= px <= x1 and y0 <= py <= y1 for x0, x1, y0, y1 in lit)
