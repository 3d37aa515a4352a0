"""Pen strokes of six gestures, of different size, tilt, speed and length, drawn with a shaking hand."""

from __future__ import annotations

import gzip
import math
import random
from collections.abc import Callable
from pathlib import Path

FILE = Path(__file__).parents[2] / "src/throughtime/data/embedded/gestures.tsv.gz"
COUNTS = {"train": 240, "valid": 60, "test": 60}
Point = tuple[float, float]


def _between(*corners: Point) -> Callable[[float], Point]:
    """The way along straight lines from corner to corner."""

    def at(share: float) -> Point:
        number = min(int(share * (len(corners) - 1)), len(corners) - 2)
        rest = share * (len(corners) - 1) - number
        (x, y), (to_x, to_y) = corners[number : number + 2]
        return x + rest * (to_x - x), y + rest * (to_y - y)

    return at


SHAPES: dict[str, Callable[[float], Point]] = {
    "circle": lambda share: (math.cos(2 * math.pi * share), math.sin(2 * math.pi * share)),
    "eight": lambda share: (math.sin(2 * math.pi * share), math.sin(4 * math.pi * share) / 2),
    "spiral": lambda share: (share * math.cos(4 * math.pi * share), share * math.sin(4 * math.pi * share)),
    "wave": lambda share: (2 * share - 1, math.sin(4 * math.pi * share) / 2),
    "zigzag": _between((-1, -0.5), (-0.5, 0.5), (0, -0.5), (0.5, 0.5), (1, -0.5)),
    "triangle": _between((0, 1), (-0.9, -0.5), (0.9, -0.5), (0, 1)),
}


def draw(name: str, dice: random.Random) -> list[Point]:
    """Draw one gesture: its points, at equal times."""
    shape, steps = SHAPES[name], dice.randint(18, 60)
    size, tilt, begin = dice.uniform(0.6, 1.4), dice.gauss(0, 0.25), dice.uniform(0, 0.12)
    haste, (right, up) = dice.uniform(0.7, 1.4), (dice.gauss(0, 0.3), dice.gauss(0, 0.3))
    points = []
    for step in range(steps):
        x, y = shape((begin + (1 - begin) * step / (steps - 1)) ** haste)
        x, y = x * math.cos(tilt) - y * math.sin(tilt), x * math.sin(tilt) + y * math.cos(tilt)
        points.append((size * x + right + dice.gauss(0, 0.09), size * y + up + dice.gauss(0, 0.09)))
    return points


def write() -> int:
    """Write a line for each gesture: its split, name and label, and its points in hundredths."""
    dice, lines = random.Random(20_261_119), []
    for split, count in COUNTS.items():
        for number in range(count):
            label = list(SHAPES)[number % len(SHAPES)]
            points = " ".join(f"{100 * x:.0f},{100 * y:.0f}" for x, y in draw(label, dice))
            lines.append(f"{split}\t{split}-{number + 1}\t{label}\t{points}\n")
    FILE.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
    return FILE.stat().st_size
