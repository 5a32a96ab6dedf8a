"""Ordering puzzles: people join a queue just before or after somebody."""

from __future__ import annotations

import numpy as np

from sparing.lab.families.puzzle import Puzzle, Step, mark, pick

_LETTERS = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")


def generate(rng: np.random.Generator, num_steps: int) -> Puzzle:
    """Draw `queue d (1) f after d (2) a before f ... order ?`; at most nine steps."""
    letters = [_LETTERS[i] for i in rng.permutation(len(_LETTERS))[: num_steps + 1]]
    queue = letters[:1]
    words = ["queue", queue[0]]
    steps = []
    for position, letter in enumerate(letters[1:], start=1):
        side, anchor = pick(rng, ("before", "after")), pick(rng, queue)
        at = queue.index(anchor) + (side == "after")
        queue = [*queue[:at], letter, *queue[at:]]
        words += [mark(position), letter, side, anchor]
        wrong = [*queue[:at], *queue[at + 1 : at + 2], letter, *queue[at + 2 :]]
        slip = wrong if at + 1 < len(queue) else [letter, *queue[:-1]]
        steps.append(Step(work=f"{letter} {side} {anchor} :", result=" ".join(queue), slip=" ".join(slip)))
    return Puzzle(question=" ".join([*words, "order", "?"]), steps=tuple(steps), answer=" ".join(queue))
