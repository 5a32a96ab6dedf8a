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
    """Shaped rewards (Eq. 2) and group advantages; only groups drawn for compression are penalised."""
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
        advantage_GN=np.stack([group_advantages(reward_N, normalise=objective.normalise) for reward_N in reward_GN]),
        mastered_G=np.array([group.mastered for group in shaped], dtype=np.bool_),
    )
