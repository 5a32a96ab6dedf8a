"""One training batch: candidates by predicted mastery, current rollouts, exact shares (Sec. 3, Sec. 4.1).

Shape legend: K candidates generated for this step, G groups of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from sparing.data.sampler import MixtureSampler, check_enough_problems
from sparing.method.mastery import is_mastered, pass_rate
from sparing.method.mixing import MixturePlan, plan_mixture, quota
from sparing.seeding import derive_rng
from sparing.settings import MixtureSettings
from sparing.types import BoolArray, FloatArray, IntArray, RolloutGroup, TrainBatch

Generate = Callable[[Sequence[int], int], list[RolloutGroup]]
"""Problem indices and the attempt number -> one group of current rollouts for each, in order."""


def collect_batch(
    generate: Generate,
    sampler: MixtureSampler,
    mixture: MixtureSettings,
    *,
    step: int,
    stage_type: Literal["accuracy", "compression"],
    seed: int,
) -> TrainBatch:
    """Exactly `batch_size` groups of current rollouts for one step (Sec. 3).

    In the accuracy stage problems come in a shuffled pass and none is compressed. In the compression stage
    round(rho * batch_size) groups are mastered by their current rollouts and the others are of the kind
    `mixture.rest`. What a share lacks after at most `max_refills` further draws is filled from the other one,
    and `shortage` says so. The sampler observes every generated group.

    Raises:
        DataError: the data has fewer problems than a batch.
    """
    check_enough_problems(sampler.num_problems, mixture.batch_size)
    if stage_type == "accuracy":
        index_K = sampler.draw(mixture.batch_size, "any", step=step)
        groups = _generate_and_observe(generate, sampler, index_K, step, attempt=0)[0]
        return TrainBatch(
            groups=tuple(groups), compress_G=np.zeros(len(groups), dtype=np.bool_), num_generated=len(groups)
        )
    return _collect_mixture(generate, sampler, mixture, step=step, seed=seed)


def _collect_mixture(
    generate: Generate, sampler: MixtureSampler, mixture: MixtureSettings, *, step: int, seed: int
) -> TrainBatch:
    num_mastered, num_rest = quota(mixture.batch_size, mixture.rho)
    groups: list[RolloutGroup] = []
    index_K, pass_rate_K, mastered_K = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_)
    need_mastered, need_rest = num_mastered, num_rest
    refills = 0
    for attempt in range(mixture.max_refills + 1):
        drawn_K = sampler.draw_candidates(
            need_mastered,
            need_rest,
            mixture.rest,
            batch_size=mixture.batch_size,
            step=step,
            attempt=attempt,
            exclude=index_K,
        )
        if drawn_K.size == 0:
            break
        refills = attempt
        new_groups, new_pass_rate_K, new_mastered_K = _generate_and_observe(generate, sampler, drawn_K, step, attempt)
        groups += new_groups
        index_K = np.concatenate([index_K, drawn_K])
        pass_rate_K = np.concatenate([pass_rate_K, new_pass_rate_K])
        mastered_K = np.concatenate([mastered_K, new_mastered_K])
        need_mastered = max(0, num_mastered - int(mastered_K.sum()))
        need_rest = max(0, num_rest - _num_rest(pass_rate_K, mastered_K, mixture, num_mastered))
        if need_mastered == 0 and need_rest == 0:
            break
    plan = plan_mixture(
        mastered_K,
        pass_rate_K,
        rho=mixture.rho,
        batch_size=mixture.batch_size,
        rest=mixture.rest,
        rng=derive_rng(seed, "mixture", step),
    )
    return TrainBatch(
        groups=tuple(groups[candidate] for candidate in plan.indices),
        compress_G=np.arange(mixture.batch_size) < len(plan.compress),
        num_generated=len(groups),
        shortage=describe_shortage(plan, num_mastered, num_rest, mixture.rest, refills),
    )


def _generate_and_observe(
    generate: Generate, sampler: MixtureSampler, index_K: IntArray, step: int, attempt: int
) -> tuple[list[RolloutGroup], FloatArray, BoolArray]:
    groups = generate(index_K.tolist(), attempt)
    if len(groups) != index_K.shape[0]:
        raise ValueError(f"generate returned {len(groups)} groups for {index_K.shape[0]} problems; it owes one each")
    pass_rate_K = np.array([pass_rate(group.correct_N) for group in groups])
    mastered_K = np.array([is_mastered(group.correct_N, group.unknown_N) for group in groups], dtype=np.bool_)
    sampler.observe(index_K, pass_rate_K, step)
    return groups, pass_rate_K, mastered_K


def _num_rest(pass_rate_K: FloatArray, mastered_K: BoolArray, mixture: MixtureSettings, num_mastered: int) -> int:
    """Candidates that may serve the rest share beside the mastered ones meant for compression."""
    if mixture.rest == "all":
        return pass_rate_K.shape[0] - min(num_mastered, int(mastered_K.sum()))
    unmastered_K = ~mastered_K
    if mixture.rest == "partial":
        unmastered_K &= pass_rate_K > 0
    return int(unmastered_K.sum())


def describe_shortage(plan: MixturePlan, num_mastered: int, num_rest: int, rest: str, refills: int) -> str:
    """What the shares of a batch lack, in words; empty where both are full.

    For example: 2 of 6 mastered groups short after 2 refills; filled from the rest.
    """
    after = f"after {refills} refill{'' if refills == 1 else 's'}"
    parts = []
    if plan.missing_compress:
        parts.append(f"{plan.missing_compress} of {num_mastered} mastered groups short {after}; filled from the rest")
    if plan.missing_rest:
        name = "partly solved" if rest == "partial" else rest
        filled = "unsolved and mastered groups" if rest == "partial" else "mastered groups"
        parts.append(f"{plan.missing_rest} of {num_rest} {name} groups short {after}; filled from {filled}")
    return ". ".join(parts)
