"""Tracing the variables of a straight-line program."""

from __future__ import annotations

import numpy as np

from sparing.lab.families.puzzle import Puzzle, Step, mark, pick

_VARIABLES = ("a", "b", "c", "d")


def generate(rng: np.random.Generator, num_steps: int) -> Puzzle:
    """Draw `let a = 3 (1) b = a + 4 (2) a = b - 2 ... print a ?`."""
    memory = {"a": int(rng.integers(3, 40))}
    words = ["let", "a", "=", str(memory["a"])]
    steps = []
    target = "a"
    for position in range(1, num_steps + 1):
        # The program reads what it wrote last, so that no line is dead and no step can be left out.
        source, target = target, pick(rng, _VARIABLES)
        operand = int(rng.integers(2, 16))
        operator = "+" if memory[source] < operand or (memory[source] < 85 and rng.random() < 0.5) else "-"
        value = memory[source]
        result = value + operand if operator == "+" else value - operand
        words += [mark(position), target, "=", source, operator, str(operand)]
        work = f"{target} = {source} {operator} {operand} = {value} {operator} {operand} ="
        slip = result + 1 if rng.random() < 0.5 or result == 0 else result - 1
        steps.append(Step(work=work, result=str(result), slip=str(slip)))
        memory[target] = result
    return Puzzle(question=" ".join([*words, "print", target, "?"]), steps=tuple(steps), answer=str(memory[target]))
