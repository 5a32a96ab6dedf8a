"""Lab problems: seedable, unlimited, with train, validation and test disjoint by construction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal

import numpy as np

from sparing.errors import DataError
from sparing.lab.families import FAMILIES, Puzzle
from sparing.lab.teacher import shortest_trace
from sparing.seeding import derive_rng
from sparing.types import Problem, Turn

Tier = Literal["easy", "hard"]
Split = Literal["train", "validation", "test"]

TRAINED_DOMAIN = "arithmetic"
EASY_STEPS = (1, 3)
HARD_STEPS: dict[str, tuple[int, int]] = {
    "arithmetic": (9, 12),
    "logic": (6, 8),
    "code": (5, 8),
    "lists": (7, 10),
    "people": (12, 16),
    "ordering": (5, 8),
    "walk": (9, 12),
}


def num_steps(rng: np.random.Generator, domain: str, tier: Tier) -> int:
    """Draw how many steps a problem of this tier takes."""
    low, high = EASY_STEPS if tier == "easy" else HARD_STEPS[domain]
    return int(rng.integers(low, high + 1))


def split_of(question: str) -> Split:
    """The split a question belongs to, a function of its text: 80 % train, 10 % validation, 10 % test."""
    bucket = hashlib.sha256(question.encode()).digest()[0] % 10
    return "train" if bucket < 8 else "validation" if bucket == 8 else "test"


def puzzles(domain: str, tier: Tier, split: Split, seed: int) -> Iterator[Puzzle]:
    """Distinct puzzles without end."""
    if domain not in FAMILIES:
        raise DataError(f"lab domain {domain!r} does not exist; choose one of {', '.join(FAMILIES)}")
    rng = derive_rng(seed, "lab", domain, tier, split)
    seen: set[str] = set()
    while True:
        puzzle = FAMILIES[domain](rng, num_steps(rng, domain, tier))
        if puzzle.question not in seen and split_of(puzzle.question) == split:
            seen.add(puzzle.question)
            yield puzzle


def make_problems(*, domain: str, tier: Tier, split: Split, num_problems: int, seed: int = 0) -> list[Problem]:
    """`num_problems` distinct problems, each with the length in tokens of its shortest trace (end token included)."""
    stream = puzzles(domain, tier, split, seed)
    return [_problem(next(stream), f"{domain}-{tier}-{split}-{seed}-{i}", domain, tier) for i in range(num_problems)]


def _problem(puzzle: Puzzle, name: str, domain: str, tier: Tier) -> Problem:
    return Problem(
        id=name,
        turns=(Turn(role="user", content=puzzle.question),),
        answer=puzzle.answer,
        kind="exact",
        domain=domain,
        tier=tier,
        shortest_length=len(shortest_trace(puzzle).split()) + 1,
    )
