"""Multi-hop look-up in a table of who reports to whom: question answering without world knowledge."""

from __future__ import annotations

import numpy as np

from sparing.lab.families.puzzle import Puzzle, Step, mark, pick

_NAMES = ("ann", "bob", "cem", "dan", "eve", "fay", "gus", "hal")


def generate(rng: np.random.Generator, num_steps: int) -> Puzzle:
    """Draw `ann boss bob , dan boss ann , ... from ann (1) boss (2) boss ... who ?`."""
    names = [_NAMES[i] for i in rng.permutation(len(_NAMES))]
    boss = {name: pick(rng, [other for other in names if other != name]) for name in names}
    words = [word for name in names for word in (name, "boss", boss[name], ",")]
    person = pick(rng, names)
    words += ["from", person]
    steps = []
    for position in range(1, num_steps + 1):
        found = boss[person]
        words += [mark(position), "boss"]
        slip = pick(rng, [name for name in names if name != found])
        steps.append(Step(work=f"{person} boss", result=found, slip=slip))
        person = found
    return Puzzle(question=" ".join([*words, "who", "?"]), steps=tuple(steps), answer=person)
