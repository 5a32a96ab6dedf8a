"""The base model's supervised data: drills that teach the facts, and overthinking traces that teach the habit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparing.lab import teacher
from sparing.lab.families import FAMILIES, Puzzle
from sparing.lab.problems import Tier, num_steps, split_of
from sparing.lab.tokenizer import END
from sparing.seeding import derive_rng

DRILL = "drill"
# Rows a domain gets relative to the others: facts of arithmetic are learnt the slowest.
WEIGHTS = {"arithmetic": 2.0, "code": 1.25}


def rows(*, seed: int, drill_share: float, hard_share: float) -> Iterator[tuple[str, str]]:
    """Prompts and responses without end, every domain by its weight, from the train split only.

    A drill asks for the bare computation under its own prompt word, as a hybrid model has a mode without
    thinking; only the other rows set how the model thinks.
    """
    rng = derive_rng(seed, "lab-sft")
    domains = list(FAMILIES)
    weights = np.array([WEIGHTS.get(domain, 1.0) for domain in domains])
    while True:
        domain = domains[int(rng.choice(len(domains), p=weights / weights.sum()))]
        tier: Tier = "hard" if rng.random() < hard_share else "easy"
        puzzle = FAMILIES[domain](rng, num_steps(rng, domain, tier))
        if split_of(puzzle.question) == "train":
            yield _row(puzzle, rng, drill_share)


def _row(puzzle: Puzzle, rng: np.random.Generator, drill_share: float) -> tuple[str, str]:
    if rng.random() < drill_share:
        return f"{DRILL} {puzzle.question}", teacher.drill(puzzle)
    return puzzle.question, teacher.overthinking_trace(puzzle, rng)


def encode(tokenizer: Any, prompt: str, response: str) -> tuple[list[int], list[int]]:
    """Token ids of a prompt, as the chat template renders it, and of a response with its end token."""
    ids = tokenizer.convert_tokens_to_ids
    return ids(["<user>", *prompt.split(), "<assistant>"]), ids([*response.split(), END])
