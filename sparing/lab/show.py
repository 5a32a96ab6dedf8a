"""Lab problems in words: question, a trace of the overthinking teacher, and the shortest one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sparing.lab.problems import TRAINED_DOMAIN, Tier, puzzles
from sparing.lab.teacher import overthinking_trace, shortest_trace
from sparing.seeding import derive_rng

_TIERS: tuple[Tier, ...] = ("easy", "hard")


def describe(domain: str, *, num_problems: int, seed: int) -> Iterator[str]:
    """Lines that show `num_problems` test problems of each tier; lengths are in tokens, end token included."""
    yield f"{domain} ({'trained' if domain == TRAINED_DOMAIN else 'unseen'} in the lab preset)"
    for tier in _TIERS:
        rng = derive_rng(seed, "lab show", domain, tier)
        for puzzle in islice(puzzles(domain, tier, "test", seed), num_problems):
            yield f"  {tier}: {puzzle.question}"
            for name, trace in (("shortest", shortest_trace(puzzle)), ("teacher", overthinking_trace(puzzle, rng))):
                yield f"    {name}, {len(trace.split()) + 1} tokens: {trace}"
