"""Eq. 1: the soft length penalty r_len. N rollouts of one problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import MethodError
from sparing.method import _checks
from sparing.types import FloatArray


def soft_length_penalty(
    lengths_N: ArrayLike, safe_length: float, max_length: float, *, min_spread: float = 0.0, coef: float = 1.0
) -> FloatArray:
    """Eq. 1: zero up to the safe length, then linear down to -1 at the maximum, -1 beyond it.

    `lengths_N` in tokens, shape (N,); `safe_length` is L_start, `max_length` is L_max. The result has shape (N,) and
    lies in [-coef, 0]. Where L_start = L_max, or L_max - L_start is below `min_spread` tokens, it is zero for every
    length (the edge case under Eq. 1). `min_spread` 0 and `coef` 1 are the paper.

    The branch above L_max cannot fire on the rollouts that define L_max; it serves late or asynchronous rollouts of the
    same problem and offline audits. Raises `MethodError` when L_max < L_start or `coef` is outside [0, 1]: with a larger
    one a rollout of a mastered problem could score below a wrong one.
    """
    lengths = _checks.lengths("lengths_N", lengths_N)
    _checks.within("coef", coef, 0.0, 1.0)
    _checks.within("min_spread", min_spread, 0.0, np.inf)
    spread = max_length - safe_length
    if not spread >= 0:
        raise MethodError(
            f"max_length {max_length} is below safe_length {safe_length}; take both from the same rollouts"
        )
    if spread == 0 or spread < min_spread:
        return np.zeros_like(lengths)
    linear = -(lengths - safe_length) / spread
    penalty = np.where(lengths <= safe_length, 0.0, np.where(lengths > max_length, -1.0, linear))
    return np.asarray(coef * penalty + 0.0)  # + 0.0 turns the -0.0 of a zero coefficient into 0.0
