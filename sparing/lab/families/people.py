"""Multi-hop look-up in a table of two relations between people: question answering without world knowledge."""

from __future__ import annotations

import numpy as np

from sparing.lab.families.puzzle import Puzzle, Step, mark, pick

_NAMES = ("ann", "bob", "cem", "dan", "eve", "fay", "gus", "hal")
_RELATIONS = ("boss", "peer")


def generate(rng: np.random.Generator, num_steps: int) -> Puzzle:
    """Draw `ann boss bob , ann peer dan , ... from ann (1) peer (2) boss ... who ?`."""
    names = [_NAMES[i] for i in rng.permutation(len(_NAMES))[: 4 if num_steps <= 4 else 6]]
    table = {}
    for relation in _RELATIONS:
        for name in names:
            table[name, relation] = pick(rng, [other for other in names if other != name])
    entries = list(table)
    words = []
    for i in rng.permutation(len(entries)):
        name, relation = entries[i]
        words += [name, relation, table[name, relation], ","]
    person = pick(rng, names)
    words += ["from", person]
    steps = []
    for position in range(1, num_steps + 1):
        relation = pick(rng, _RELATIONS)
        found = table[person, relation]
        words += [mark(position), relation]
        slip = pick(rng, [name for name in names if name != found])
        steps.append(Step(work=f"{person} {relation}", result=found, slip=slip))
        person = found
    return Puzzle(question=" ".join([*words, "who", "?"]), steps=tuple(steps), answer=person)
