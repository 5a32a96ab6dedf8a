"""Chains of additions, subtractions and doublings within 0..99: the mathematics of the lab."""

from __future__ import annotations

import numpy as np

from sparing.lab.families.puzzle import Puzzle, Step, mark


def generate(rng: np.random.Generator, num_steps: int) -> Puzzle:
    """Draw `start at 12 (1) + 7 (2) - 3 ... result ?`."""
    value = int(rng.integers(5, 60))
    words = ["start", "at", str(value)]
    steps = []
    for position in range(1, num_steps + 1):
        operator, operand, result = _operation(rng, value)
        words += [mark(position), operator, str(operand)]
        slip = result + int(rng.choice([-10, -2, -1, 1, 2, 10]))
        slip = slip if 0 <= slip <= 99 and slip != result else (result + 1) % 100
        steps.append(Step(work=f"{value} {operator} {operand} =", result=str(result), slip=str(slip)))
        value = result
    return Puzzle(question=" ".join([*words, "result", "?"]), steps=tuple(steps), answer=str(value))


def _operation(rng: np.random.Generator, value: int) -> tuple[str, int, int]:
    if value <= 49 and value > 0 and rng.random() < 0.1:
        return "*", 2, value * 2
    operand = int(rng.integers(2, 16))
    add_fits, subtract_fits = value + operand <= 99, value - operand >= 0
    if add_fits and (not subtract_fits or rng.random() < 0.5):
        return "+", operand, value + operand
    return "-", operand, value - operand
