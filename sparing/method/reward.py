"""Eq. 2: the shaped reward of one group. N rollouts of one problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sparing.method import _checks
from sparing.method.length_penalty import soft_length_penalty
from sparing.method.mastery import is_mastered, max_length, safe_length
from sparing.types import FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapedReward:
    """Eq. 2 for one group: `reward_N` in [0, 1], its part `penalty_N` in [-1, 0], and whether the gate was open."""

    reward_N: FloatArray
    penalty_N: FloatArray
    mastered: bool


def shaped_reward(
    correct_N: ArrayLike,
    lengths_N: ArrayLike,
    *,
    unknown_N: ArrayLike | None = None,
    penalise: bool = True,
    coef: float = 1.0,
    min_spread: float = 0.0,
) -> ShapedReward:
    """Eq. 2: r_cor plus, where every rollout of the group is correct, the soft length penalty of Eq. 1.

    `correct_N` (bool or 0/1), `lengths_N` (tokens) and `unknown_N` (verdicts that could not be reached) have shape (N,).
    With the gate closed, or with `penalise=False` (accuracy stages, and mastered problems drawn into the capability
    share), the reward is r_cor exactly. An unknown rollout earns what `correct_N` says and closes the gate.

    `mastered` tells the state of the gate whether or not it was used. The longest rollout of a mastered group scores
    `1 - coef`: with the paper's coefficient 0, like a wrong answer (docs/method.md, "The longest rollout").
    """
    correct = _checks.binary("correct_N", correct_N)
    lengths = _checks.lengths("lengths_N", lengths_N)
    _checks.same_shape(correct_N=correct, lengths_N=lengths)
    mastered = is_mastered(correct, unknown_N)
    penalty = np.zeros_like(lengths)
    if mastered and penalise:
        # With the gate open every rollout is correct, so the targets "of the correct rollouts" are those of the group.
        penalty = soft_length_penalty(
            lengths, safe_length(lengths), max_length(lengths), min_spread=min_spread, coef=coef
        )
    return ShapedReward(reward_N=correct.astype(np.float64) + penalty, penalty_N=penalty, mastered=mastered)
