"""The drawn pictures show what the questions about them say."""

from __future__ import annotations

import zlib

from infra.serving.evaluation.pictures import PIXELS, drawn
from infra.serving.evaluation.task_set import Shape, task_set

Pixel = tuple[int, int, int]
WHITE = (255, 255, 255)
TASKS = {task.id: task for task in task_set().tasks}


def pixels(shapes: tuple[Shape, ...]) -> list[list[Pixel]]:
    """Decode the picture: this program writes rows without a filter, in one block."""
    image = drawn(shapes)
    start = image.index(b"IDAT") + 4
    length = int.from_bytes(image[start - 8 : start - 4], "big")
    data = zlib.decompress(image[start : start + length])
    rows = [data[at + 1 : at + 1 + 3 * PIXELS] for at in range(0, len(data), 1 + 3 * PIXELS)]
    return [[(row[i], row[i + 1], row[i + 2]) for i in range(0, len(row), 3)] for row in rows]


def places(task: str, like: str) -> list[tuple[float, float]]:
    """Where a colour is in a task's picture, in shares of its side."""
    strongest = {"red": 0, "green": 1, "blue": 2}
    found = []
    for y, row in enumerate(pixels(TASKS[task].picture)):
        for x, pixel in enumerate(row):
            is_it = pixel == (0, 0, 0) if like == "black" else pixel != WHITE and max(pixel) == pixel[strongest[like]]
            if is_it and (like == "black" or max(pixel) > 0):
                found.append((x / PIXELS, y / PIXELS))
    return found


def regions(task: str) -> int:
    """How many separate black areas there are."""
    left = {(round(x * PIXELS), round(y * PIXELS)) for x, y in places(task, "black")}
    count = 0
    while left:
        count, edge = count + 1, [left.pop()]
        while edge:
            x, y = edge.pop()
            for near in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
                if near in left:
                    left.remove(near)
                    edge.append(near)
    return count


def test_a_circle_is_round_and_red() -> None:
    found = places("image-colour", "red")
    assert abs(len(found) / PIXELS**2 - 3.1416 * 0.3**2) < 0.005, "its area"
    assert places("image-colour", "blue") == []


def test_a_triangle_is_wider_below() -> None:
    found = places("image-shape", "green")
    widths = [sum(round(y * PIXELS) == row for _, y in found) for row in (100, 168, 240)]
    assert widths == sorted(widths)
    assert widths[0] < widths[2] / 2


def test_the_blue_square_is_on_the_right() -> None:
    assert min(x for x, _ in places("image-side", "blue")) > 0.5
    assert max(x for x, _ in places("image-side", "red")) < 0.5


def test_three_circles_do_not_touch() -> None:
    assert regions("image-count") == 3


def test_two_digits_stand_side_by_side() -> None:
    assert regions("image-digits") == 2
    seven = [(x, y) for x, y in places("image-digits", "black") if x < 0.5]
    assert not [1 for x, y in seven if x < 0.25 and y > 0.4], "a seven has no bars on the left"


def test_the_green_bar_is_the_tallest() -> None:
    tops = {colour: min(y for _, y in places("image-tallest", colour)) for colour in ("red", "green", "blue")}
    assert min(tops, key=lambda colour: tops[colour]) == "green"
    assert all(max(y for _, y in places("image-tallest", colour)) > 0.99 for colour in tops), "bars stand on the edge"
