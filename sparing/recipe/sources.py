"""From the sources a recipe names to problems and a model folder; the only place that tells the lab from other data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sparing.data.problems import load_problems, split_validation
from sparing.data.sampler import check_enough_problems
from sparing.errors import DataError
from sparing.settings import JsonlSource, LabSource, RunConfig
from sparing.types import Problem, Turn

LAB_MODEL = "lab"


class ProblemSets(NamedTuple):
    """Problems by use; no question is in two of them."""

    train: list[Problem]
    validation: list[Problem]
    test: list[Problem]


def resolve_problems(config: RunConfig) -> ProblemSets:
    """Read or generate every problem of a run, before any model is loaded.

    Where the recipe names no validation data, `validation.num_problems` are set apart from the training data,
    and questions of the test data never are among them. Problem ids that two sources share are made distinct.

    Raises:
        DataError: a file is broken; a question is in two sets, or in two sources of one; the training data has
            fewer problems than a batch.
    """
    suffix = config.data.prompt_suffix
    train = _read(config.data.train, suffix, "data.train")
    validation = _read(config.data.validation, suffix, "data.validation")
    test = _read(config.data.test, suffix, "data.test")
    _check_apart(train, "data.train", test, "data.test")
    _check_apart(train, "data.train", validation, "data.validation")
    _check_apart(validation, "data.validation", test, "data.test")
    if not config.data.validation:
        train, validation = split_validation(train, config.validation.num_problems, config.seed)
    check_enough_problems(len(train), config.mixture.batch_size)
    return ProblemSets(train, validation, test)


def domain_notes(problems: ProblemSets) -> list[str]:
    """What to say where no test problem belongs to a domain that is trained on: often only the files' names differ."""
    trained, tested = ({problem.domain for problem in part} for part in (problems.train, problems.test))
    if not tested or trained & tested:
        return []
    return [
        f"data.test has the domains {', '.join(sorted(tested))} and data.train has {', '.join(sorted(trained))}: the report "
        "will call every test result one on an unseen domain. Where the problems are of one kind, give both sources "
        'the same domain, as in data.test = {path = "test.jsonl", domain = "maths"}'
    ]


def resolve_model(config: RunConfig) -> RunConfig:
    """The same recipe with the folder of the lab's model in place of the word `lab`."""
    if config.model.path != LAB_MODEL:
        return config
    from sparing.lab import base_model_path

    model = config.model.model_copy(update={"path": str(base_model_path())})
    return config.model_copy(update={"model": model})


def _read(sources: Sequence[JsonlSource | LabSource], suffix: str, name: str) -> list[Problem]:
    parts = [_problems_of(source, suffix) for source in sources]
    for later in range(len(parts)):
        for earlier in range(later):
            _check_apart(parts[earlier], f"{name}.{earlier}", parts[later], f"{name}.{later}")
    problems = [problem for part in parts for problem in part]
    shared = Counter(problem.id for problem in problems)
    if len(shared) == len(problems):
        return problems
    return [
        replace(problem, id=f"{number}/{problem.id}") if shared[problem.id] > 1 else problem
        for number, part in enumerate(parts)
        for problem in part
    ]


def _problems_of(source: JsonlSource | LabSource, suffix: str) -> list[Problem]:
    if isinstance(source, JsonlSource):
        return load_problems(source, prompt_suffix=suffix)
    from sparing.lab import FAMILIES, make_problems

    return [
        problem
        for domain in (FAMILIES if source.domain == ("all",) else source.domain)
        for tier in source.tier
        for problem in make_problems(
            domain=domain, tier=tier, split=source.split, num_problems=source.num_problems, seed=source.seed
        )
    ]


def _check_apart(first: Sequence[Problem], first_name: str, second: Sequence[Problem], second_name: str) -> None:
    seen: dict[tuple[Turn, ...], str] = {problem.turns: problem.id for problem in first}
    shared = [(seen[problem.turns], problem.id) for problem in second if problem.turns in seen]
    if not shared:
        return
    one, other = shared[0]
    what = "1 question is" if len(shared) == 1 else f"{len(shared)} questions are"
    raise DataError(
        f"{what} both in {first_name} and in {second_name} (first: {one} and {other}); "
        f"results on seen questions prove nothing, so remove them from one of the two"
    )
