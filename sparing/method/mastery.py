"""Sec. 3: when a problem counts as mastered, and the two length targets of a mastered one.

N rollouts of one problem under the current policy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import MethodError
from sparing.method import _checks


def pass_rate(correct_N: ArrayLike) -> float:
    """Sec. 3: p_hat(x), the mean of the binary correctness r_cor over the N rollouts of this step.

    `correct_N` is bool or 0/1, shape (N,). Raises `MethodError` when it is empty or not binary.
    """
    return float(_checks.binary("correct_N", correct_N).mean())


def is_mastered(correct_N: ArrayLike, unknown_N: ArrayLike | None = None) -> bool:
    """Sec. 3: the mastery gate I{p_hat(x) = 1}: every rollout is correct and none is unknown.

    `correct_N` is bool or 0/1, shape (N,). `unknown_N` marks verdicts the verifier could not reach (timeout, crash); one
    of them closes the gate whatever `correct_N` says of that rollout, since mastery must have been seen, not assumed.
    """
    correct = _checks.binary("correct_N", correct_N)
    if unknown_N is None:
        return bool(correct.all())
    unknown = _checks.binary("unknown_N", unknown_N)
    _checks.same_shape(correct_N=correct, unknown_N=unknown)
    return bool(correct.all() and not unknown.any())


def safe_length(lengths_N: ArrayLike) -> float:
    """Sec. 3: L_start(x), the median length in tokens of the correct rollouts of a mastered problem.

    `lengths_N` holds full response lengths (thinking, answer and end token; no tool or environment tokens), shape (N,).
    """
    # The median of an even group is the mean of the middle two, so at least half of the group is always free.
    return float(np.median(_checks.lengths("lengths_N", lengths_N)))


def max_length(lengths_N: ArrayLike) -> int:
    """Sec. 3: L_max(x), the longest of the correct rollouts of a mastered problem, in whole tokens.

    `lengths_N` as in `safe_length`. Raises `MethodError` when the longest is not a whole number.
    """
    longest = float(_checks.lengths("lengths_N", lengths_N).max())
    if not longest.is_integer():
        raise MethodError(f"the longest of lengths_N is {longest:g}; lengths are whole tokens, pass token counts")
    return int(longest)
