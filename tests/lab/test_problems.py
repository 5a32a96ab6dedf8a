"""Lab problems: disjoint splits, seeds, answers checked by solvers that read the question only."""

import numpy as np
import pytest

from sparing.errors import DataError
from sparing.lab import FAMILIES, make_problems
from sparing.lab.problems import split_of


@pytest.mark.parametrize("domain", FAMILIES)
@pytest.mark.parametrize("tier", ["easy", "hard"])
def test_splits_share_no_question_whatever_their_seeds(domain, tier):
    seen = {}
    for seed, split in enumerate(("train", "validation", "test")):
        for problem in make_problems(domain=domain, tier=tier, split=split, num_problems=60, seed=seed):
            assert seen.setdefault(problem.question, split) == split
            assert split_of(problem.question) == split


def test_problems_depend_on_the_seed_alone():
    first = make_problems(domain="code", tier="hard", split="train", num_problems=20, seed=3)
    assert first == make_problems(domain="code", tier="hard", split="train", num_problems=20, seed=3)
    assert first != make_problems(domain="code", tier="hard", split="train", num_problems=20, seed=4)
    longer = make_problems(domain="code", tier="hard", split="train", num_problems=30, seed=3)
    assert longer[:20] == first


def test_an_unknown_domain_is_named_with_the_known_ones():
    with pytest.raises(DataError, match="'algebra' does not exist; choose one of arithmetic, logic"):
        make_problems(domain="algebra", tier="easy", split="train", num_problems=1)


@pytest.mark.parametrize("domain", FAMILIES)
def test_the_shortest_trace_of_hard_problems_is_far_longer_than_that_of_easy_ones(domain):
    mean = {
        tier: np.mean(
            [p.shortest_length for p in make_problems(domain=domain, tier=tier, split="test", num_problems=80)]
        )
        for tier in ("easy", "hard")
    }
    assert mean["hard"] > 2.5 * mean["easy"]


def _chunks(words, start):
    """Words of each numbered step after index `start`."""
    chunks = []
    for word in words[start:]:
        if word.startswith("(") and word == f"({len(chunks) + 1})":
            chunks.append([])
        elif chunks:
            chunks[-1].append(word)
    return chunks


def _arithmetic(words):
    value = int(words[2])
    for operator, operand, *_ in _chunks(words, 3):
        number = int(operand)
        value = {"+": value + number, "-": value - number, "*": value * number}[operator]
    return str(value)


def _code(words):
    memory = {words[1]: int(words[3])}
    for target, _, source, operator, operand, *_ in _chunks(words, 4):
        memory[target] = memory[source] + (int(operand) if operator == "+" else -int(operand))
    return str(memory[words[words.index("print") + 1]])


def _walk(words):
    x, y = int(words[1]), int(words[2])
    for direction, distance, *_ in _chunks(words, 3):
        step = int(distance)
        x += {"east": step, "west": -step}.get(direction, 0)
        y += {"north": step, "south": -step}.get(direction, 0)
    return f"{x} {y}"


def _ordering(words):
    queue = [words[1]]
    for letter, side, anchor, *_ in _chunks(words, 2):
        queue.insert(queue.index(anchor) + (side == "after"), letter)
    return " ".join(queue)


def _people(words):
    start = words.index("from")
    boss = {words[i]: words[i + 2] for i in range(0, start, 4)}
    person = words[start + 1]
    for _ in range(words[start + 2 :].count("boss")):
        person = boss[person]
    return person


SOLVERS = {"arithmetic": _arithmetic, "code": _code, "walk": _walk, "ordering": _ordering, "people": _people}


@pytest.mark.parametrize("domain", SOLVERS)
@pytest.mark.parametrize("tier", ["easy", "hard"])
def test_answers_are_what_an_independent_solver_reads_off_the_question(domain, tier):
    for problem in make_problems(domain=domain, tier=tier, split="train", num_problems=100):
        assert SOLVERS[domain](problem.question.split()) == problem.answer


def test_a_list_worked_out_by_hand():
    from sparing.lab.families.lists import _apply

    items = _apply("sort", [5, 3, 9, 2, 6])
    assert items == [2, 3, 5, 6, 9]
    items = _apply("rotate", items)
    assert items == [3, 5, 6, 9, 2]
    items = _apply("swap", items)
    assert items == [2, 5, 6, 9, 3]
    assert _apply("raise", _apply("reverse", items)) == [4, 0, 7, 6, 3]


def test_a_truth_worked_out_by_hand():
    from sparing.lab.families.logic import _apply

    assert not _apply("and", True, False)
    assert _apply("or", True, False)
    assert _apply("xor", True, False)
    assert not _apply("xor", True, True)
