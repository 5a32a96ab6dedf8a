"""The teacher: traces that solve a puzzle in steps and overthink on purpose.

Nothing in a trace is needed beyond the steps themselves. The rest is planted: openings, checks of a step, slips that a check
repairs, re-derivations of the whole solution, a closing remark. How much of it a trace holds is drawn per trace, so that lengths vary
for the same problem, as the mastery gate needs; short problems carry relatively more of it than long ones.
"""

from __future__ import annotations

import numpy as np

from sparing.lab.families import Puzzle, Step
from sparing.lab.families.puzzle import mark, pick

OPENINGS = ("okay , let me think .", "hmm , let me see .", "let me go step by step .", "okay , this needs care .")
CHECKS = ("wait , check :", "hmm , is it right ?", "but let me check :", "however , look again :")
CONFIRMATIONS = ("yes .", "good .", "that is right .")
CORRECTIONS = ("no , wrong .", "no , it is this .")
RESTARTS = ("wait , let me do it again :", "but let me check all of it :", "however , once more :")
CLOSINGS = ("so that is it .", "okay , now i am sure .", "good , done .")
SLIP_RATE = 0.03


def shortest_trace(puzzle: Puzzle) -> str:
    """The response that holds the necessary steps and nothing else."""
    steps = [_step(position, step) for position, step in enumerate(puzzle.steps, start=1)]
    return _response(steps, puzzle.answer)


def overthinking_trace(puzzle: Puzzle, rng: np.random.Generator) -> str:
    """A correct response with planted redundancy, a different amount each time."""
    verbosity = float(rng.beta(3.0, 1.1))
    parts = [pick(rng, OPENINGS) for rate in (0.95, 0.45) if rng.random() < rate * verbosity]
    parts += _derivation(puzzle, rng, check_rates=(0.95 * verbosity, 0.5 * verbosity))
    # A long problem is gone over again less often than a short one: overthinking is worst where it is needed least.
    for rate in (1.0, 0.6) if len(puzzle.steps) <= 4 else (0.5,):
        if rng.random() < rate * verbosity:
            parts.append(pick(rng, RESTARTS))
            parts += _derivation(puzzle, rng, check_rates=(0.35 * verbosity,))
    if rng.random() < 0.9 * verbosity:
        parts.append(pick(rng, CLOSINGS))
    return _response(parts, puzzle.answer)


def drill(puzzle: Puzzle) -> str:
    """The bare computation, without a thinking block: what the base model learns its facts from."""
    return " ".join(_step(position, step) for position, step in enumerate(puzzle.steps, start=1))


def words() -> set[str]:
    """Every word the teacher may add to a puzzle's own words."""
    phrases = (*OPENINGS, *CHECKS, *CONFIRMATIONS, *CORRECTIONS, *RESTARTS, *CLOSINGS)
    return {word for phrase in phrases for word in phrase.split()} | {"."}


def _step(position: int, step: Step) -> str:
    return f"{mark(position)} {step.work} {step.result} ."


def _derivation(puzzle: Puzzle, rng: np.random.Generator, *, check_rates: tuple[float, ...]) -> list[str]:
    parts = []
    for position, step in enumerate(puzzle.steps, start=1):
        if rng.random() < SLIP_RATE:
            parts += [f"{mark(position)} {step.work} {step.slip} .", pick(rng, CHECKS)]
            parts += [f"{step.work} {step.result} .", pick(rng, CORRECTIONS)]
            continue
        parts.append(_step(position, step))
        for rate in check_rates:
            if rng.random() >= rate:
                break
            parts += [pick(rng, CHECKS), f"{step.work} {step.result} .", pick(rng, CONFIRMATIONS)]
    return parts


def _response(parts: list[str], answer: str) -> str:
    return " ".join(["<think>", *parts, "</think>", answer])
