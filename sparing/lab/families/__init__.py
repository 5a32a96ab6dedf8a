"""Task families of the lab: procedurally generated problems that are solved in steps."""

from sparing.lab.families import arithmetic, code, lists, logic, ordering, people, walk
from sparing.lab.families.puzzle import Family, Puzzle, Step

FAMILIES: dict[str, Family] = {
    "arithmetic": arithmetic.generate,
    "logic": logic.generate,
    "code": code.generate,
    "lists": lists.generate,
    "people": people.generate,
    "ordering": ordering.generate,
    "walk": walk.generate,
}

__all__ = ["FAMILIES", "Family", "Puzzle", "Step"]
