"""From a batch of graded rollouts to rewards and advantages (Eq. 1, Eq. 2, group baseline).

Shape legend: G groups of N rollouts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparing.method.advantage import group_advantages
from sparing.method.objective import Objective
from sparing.method.reward import shaped_reward
from sparing.settings import PenaltySettings
from sparing.types import BoolArray, FloatArray, TrainBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapedBatch:
    """A batch with what the objective needs of it."""

    batch: TrainBatch
    reward_GN: FloatArray
    penalty_GN: FloatArray
    advantage_GN: FloatArray
    mastered_G: BoolArray

    @property
    def active_G(self) -> BoolArray:
        """Groups with a non-zero advantage; the others have no gradient."""
        active: BoolArray = (self.advantage_GN != 0).any(axis=1)
        return active


def shape_batch(batch: TrainBatch, penalty: PenaltySettings, objective: Objective) -> ShapedBatch:
    """Shaped rewards (Eq. 2) and group advantages; only groups drawn for compression are penalised.

    A rollout whose verdict is unknown has no reward: it stays out of its group's baseline and gets no advantage.
    """
    shaped = [
        shaped_reward(
            group.correct_N,
            group.lengths_N,
            unknown_N=group.unknown_N,
            penalise=bool(compress),
            coef=penalty.coef,
            min_spread=penalty.min_spread,
        )
        for group, compress in zip(batch.groups, batch.compress_G, strict=True)
    ]
    reward_GN = np.stack([group.reward_N for group in shaped])
    return ShapedBatch(
        batch=batch,
        reward_GN=reward_GN,
        penalty_GN=np.stack([group.penalty_N for group in shaped]),
        advantage_GN=np.stack(
            [
                _known_advantages(reward_N, ~group.unknown_N, objective)
                for reward_N, group in zip(reward_GN, batch.groups, strict=True)
            ]
        ),
        mastered_G=np.array([group.mastered for group in shaped], dtype=np.bool_),
    )


def _known_advantages(reward_N: FloatArray, known_N: BoolArray, objective: Objective) -> FloatArray:
    advantage_N = np.zeros_like(reward_N)
    if known_N.any():
        advantage_N[known_N] = group_advantages(reward_N[known_N], normalise=objective.normalise)
    return advantage_N
