"""Instructions carried out on a short list of digits."""

from __future__ import annotations

import numpy as np

from sparing.lab.families.puzzle import Puzzle, Step, mark, pick

_INSTRUCTIONS = ("reverse", "rotate", "swap", "sort", "raise")


def generate(rng: np.random.Generator, num_steps: int) -> Puzzle:
    """Draw `list 5 3 8 2 6 (1) reverse (2) rotate ... list ?`; five digits."""
    items = [int(item) for item in rng.choice(10, size=5, replace=False)]
    words = ["list", *map(str, items)]
    steps = []
    last = ""
    for position in range(1, num_steps + 1):
        # Sorting makes the order before it irrelevant, so only the first step may sort; no step undoes the one before.
        instruction = pick(rng, [name for name in _INSTRUCTIONS if name != last and (name != "sort" or position == 1)])
        items = _apply(instruction, items)
        words += [mark(position), instruction]
        slip = [items[1], items[0], *items[2:]]
        steps.append(Step(work=f"{instruction} :", result=_text(items), slip=_text(slip)))
        last = instruction
    return Puzzle(question=" ".join([*words, "list", "?"]), steps=tuple(steps), answer=_text(items))


def _text(items: list[int]) -> str:
    return " ".join(map(str, items))


def _apply(instruction: str, items: list[int]) -> list[int]:
    if instruction == "reverse":
        return items[::-1]
    if instruction == "rotate":
        return items[1:] + items[:1]
    if instruction == "swap":
        return [items[-1], *items[1:-1], items[0]]
    if instruction == "sort":
        return sorted(items)
    return [(item + 1) % 10 for item in items]
