"""Walking on a grid and telling where the walker ends."""

from __future__ import annotations

import numpy as np

from sparing.lab.families.puzzle import Puzzle, Step, mark, pick

_DIRECTIONS = {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}
_SIDE = 30


def generate(rng: np.random.Generator, num_steps: int) -> Puzzle:
    """Draw `at 3 4 (1) north 2 (2) east 1 ... where ?`; coordinates within 0..29."""
    x, y = (int(value) for value in rng.integers(0, _SIDE, size=2))
    words = ["at", str(x), str(y)]
    steps = []
    for position in range(1, num_steps + 1):
        distance = int(rng.integers(1, 10))
        direction = pick(rng, [name for name in _DIRECTIONS if _inside(x, y, name, distance)])
        dx, dy = _DIRECTIONS[direction]
        x, y = x + dx * distance, y + dy * distance
        words += [mark(position), direction, str(distance)]
        slip = f"{x + 1} {y}" if dx else f"{x} {y + 1}"
        steps.append(Step(work=f"{direction} {distance} :", result=f"{x} {y}", slip=slip))
    return Puzzle(question=" ".join([*words, "where", "?"]), steps=tuple(steps), answer=f"{x} {y}")


def _inside(x: int, y: int, direction: str, distance: int) -> bool:
    dx, dy = _DIRECTIONS[direction]
    return 0 <= x + dx * distance < _SIDE and 0 <= y + dy * distance < _SIDE
