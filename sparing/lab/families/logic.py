"""Boolean expressions whose operands are given letters or earlier results."""

from __future__ import annotations

import numpy as np

from sparing.lab.families.puzzle import Puzzle, Step, mark, pick

_OPERATORS = ("and", "or", "xor")


def generate(rng: np.random.Generator, num_steps: int) -> Puzzle:
    """Draw `a is T b is F (1) a and b (2) (1) xor b ... truth ?`."""
    known = {letter: bool(rng.integers(2)) for letter in ("a", "b", "c")}
    words = [word for letter, value in known.items() for word in (letter, "is", _name(value))]
    steps = []
    result = False
    for position in range(1, num_steps + 1):
        # The step before is always used, so that no step can be left out.
        left = mark(position - 1) if position > 1 else "a"
        right = pick(rng, [name for name in known if name != left])
        operator = pick(rng, _OPERATORS)
        result = _apply(operator, known[left], known[right])
        words += [mark(position), left, operator, right]
        work = f"{left} {operator} {right} = {_name(known[left])} {operator} {_name(known[right])} ="
        steps.append(Step(work=work, result=_name(result), slip=_name(not result)))
        known[mark(position)] = result
    return Puzzle(question=" ".join([*words, "truth", "?"]), steps=tuple(steps), answer=_name(result))


def _name(value: bool) -> str:
    return "T" if value else "F"


def _apply(operator: str, left: bool, right: bool) -> bool:
    if operator == "and":
        return left and right
    if operator == "or":
        return left or right
    return left != right
