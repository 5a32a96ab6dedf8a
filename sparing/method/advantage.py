"""Group-relative advantages of the GRPO family (Sec. 3). N rollouts of one problem."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sparing.method import _checks
from sparing.types import FloatArray

STD_EPS = 1e-4
"""Added to the standard deviation before dividing by it, as TRL 1.16 does."""


def group_advantages(reward_N: ArrayLike, *, normalise: Literal["std", "none"]) -> FloatArray:
    """A_t = r_t - mean(r), divided by std(r) + 1e-4 for `normalise="std"` (GRPO, DAPO, GSPO); "none" is Dr. GRPO.

    `reward_N` has shape (N,), and so has the result; it sums to 0. The standard deviation has N - 1 degrees of freedom.
    A group of equal rewards gets exact zeros, never NaN, and so does a group of one.

    With "std" the scale of the rewards cancels: in a mastered group the penalty is the only variance, so a penalty
    coefficient of 0.01 or 1 gives the same advantages but for the 1e-4. "none" keeps them proportional.
    """
    reward = _checks.numbers("reward_N", reward_N, 1)
    _checks.one_of("normalise", normalise, ("std", "none"))
    # Rounding of the mean leaves about 1e-17 where all rewards are 0.1; such a group must count as having no signal.
    if np.ptp(reward) == 0:
        return np.zeros_like(reward)
    centred = reward - reward.mean()
    if normalise == "none":
        return np.asarray(centred)
    return np.asarray(centred / (reward.std(ddof=1) + STD_EPS))
