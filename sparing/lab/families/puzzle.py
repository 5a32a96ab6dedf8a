"""What every family produces: a question, the steps that solve it, and the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One necessary step: what is worked on, what comes out, and a plausible wrong outcome."""

    work: str
    result: str
    slip: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Puzzle:
    """A problem with its step-by-step solution; all texts are words separated by single spaces."""

    question: str
    steps: tuple[Step, ...]
    answer: str


Family = Callable[[np.random.Generator, int], Puzzle]
"""Draws a puzzle that takes the given number of steps."""


def mark(position: int) -> str:
    """The word that numbers a step, in questions and in traces: `(1)`, `(2)`, ..."""
    return f"({position})"


def pick(rng: np.random.Generator, options: list[str] | tuple[str, ...]) -> str:
    """One of `options`, uniformly."""
    return options[int(rng.integers(len(options)))]
