"""Evaluation: k responses to every problem, with verdicts, lengths and texts (Sec. 4.1, avg@k)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparing.rollout.completer import Completer
from sparing.rollout.groups import Grades, rollout_groups
from sparing.seeding import derive_seed
from sparing.types import Problem, ProblemResult, RolloutGroup


def evaluate(
    completer: Completer,
    grader: Grades,
    problems: Sequence[Problem],
    *,
    k: int,
    temperature: float,
    top_p: float,
    max_tokens: int,
    seed: int,
    problems_at_once: int = 256,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[ProblemResult]:
    """One result for every problem, in order, each of k responses.

    Problems are answered `problems_at_once` at a time, which bounds the memory of tokens held;
    `on_progress(done, total)` is called after each such part. Results depend on the seed and on the order of
    the problems.
    """
    results: list[ProblemResult] = []
    for start in range(0, len(problems), problems_at_once):
        groups = rollout_groups(
            completer,
            grader,
            problems[start : start + problems_at_once],
            num_rollouts=k,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            seed=derive_seed(seed, "evaluate", start),
        )
        results += [problem_result(group) for group in groups]
        if on_progress is not None:
            on_progress(len(results), len(problems))
    return results


def problem_result(group: RolloutGroup) -> ProblemResult:
    """What run folders keep of a group: outcomes, lengths, finish reasons and texts, without tokens."""
    return ProblemResult(
        problem=group.problem,
        outcomes=tuple(rollout.verdict.outcome for rollout in group.rollouts),
        lengths=tuple(rollout.length for rollout in group.rollouts),
        finish_reasons=tuple(rollout.completion.finish_reason for rollout in group.rollouts),
        texts=tuple(rollout.text for rollout in group.rollouts),
    )
