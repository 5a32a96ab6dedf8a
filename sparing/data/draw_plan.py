"""How many candidates to generate so that both shares of a batch are met with few groups in vain (Sec. 3).

Shape legend: S pass-rate bands, K proposed candidates in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparing.types import BoolArray, FloatArray, IntArray

MIN_YIELD = 0.2
"""Lowest chance of success worth generating a group for: at most five groups for one that is missing."""

_FOCUS = (2.0, 4.0, 8.0, 16.0, 32.0)
_EXPECTED_EXCESS = 1.05  # groups generated for each used that the breadth of the rest share may cost


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a draw has to bring: groups of either outcome, and candidates in all.

    `confidence` is in standard deviations of the predicted number of successes; overdraw for the sake of
    confidence ends at `soft_limit` candidates, overdraw for the expected number at `hard_limit`.
    """

    mastered: int
    rest: int
    candidates: int
    confidence: float
    soft_limit: int
    hard_limit: int


def spread(num: float, weight_S: FloatArray, size_S: IntArray) -> FloatArray:
    """Expected candidates of each band, shape (S,): in proportion to the weights, never more than its size."""
    given_S = np.zeros(weight_S.shape[0])
    open_S = (weight_S > 0) & (size_S > 0)
    while num > 1e-9 and open_S.any():
        share_S = np.where(open_S, weight_S, 0.0)
        wanted_S = given_S + num * share_S / share_S.sum()
        full_S = open_S & (wanted_S >= size_S)
        given_S = np.where(open_S, np.minimum(wanted_S, size_S), given_S)
        num = float((np.where(open_S, wanted_S, given_S) - given_S).sum())
        open_S &= ~full_S
    return given_S


def rest_weights(
    size_S: IntArray, rest_S: FloatArray, mastered_S: FloatArray, need: Need, mastered_yield: float
) -> FloatArray:
    """Weights of the bands when candidates of the rest share are drawn, shape (S,).

    A band's weight is its size times (its chance of success / the best chance) ** focus. The lowest focus, so
    the broadest draw, is taken whose expected waste is small; a high one keeps to the surest problems.
    """
    size_S = np.maximum(size_S, 0)
    best = float(rest_S[size_S > 0].max(initial=0.0))
    if best == 0.0:
        return size_S.astype(np.float64)
    weight_S = size_S.astype(np.float64)
    for focus in _FOCUS:
        weight_S = size_S * (rest_S / best) ** focus
        num = float(need.rest)
        for _ in range(3):
            given_S = spread(num, weight_S, size_S)
            found = float(given_S @ rest_S)
            num = num * need.rest / found if found > 0 else num
        missing_mastered = max(0.0, need.mastered - float(given_S @ mastered_S) * num / max(given_S.sum(), 1e-9))
        if num + missing_mastered / max(mastered_yield, MIN_YIELD) <= _EXPECTED_EXCESS * (need.rest + need.mastered):
            break
    return weight_S


def choose_counts(mastered_K2: FloatArray, rest_K2: FloatArray, need: Need) -> tuple[int, int]:
    """How many of the proposed mastered and rest candidates to generate.

    Columns are the chances of being mastered and of serving the rest share. The smallest numbers are taken
    for which both needs are met with the asked confidence, by the normal approximation of the number of
    successes; a candidate of one list that turns out to fit the other share counts there. Where anyone may
    serve the rest share (`need.rest` is 0), at least the mastered need itself comes from the mastered list, so
    that the compression share is not taken out of an unbiased draw of the rest.
    """
    sums = (*_prefix_sums(mastered_K2), *_prefix_sums(rest_K2))
    most_m, most_r = mastered_K2.shape[0], rest_K2.shape[0]
    anyone = need.rest == 0
    num_m = min(need.mastered, most_m) if anyone else 0
    num_r = min(max(0, need.candidates - num_m) if anyone else need.rest, most_r)
    while True:
        unsure_2, limit = _unsure(sums, num_m, num_r, need)
        total = num_m + num_r
        # Anyone may fill the rest share, so a likelier candidate takes a place there at no cost.
        swap = anyone and num_r > 0 and total >= need.candidates
        if unsure_2[1] and num_r < most_r and total < limit:
            num_r += 1
        elif unsure_2[0] and num_m < most_m and (swap or total < limit):
            num_m += 1
            num_r -= int(swap)
        else:
            break
    # Mastered candidates that fail serve the rest share, so some of its candidates may have become needless.
    while not anyone and num_r > 0 and num_m + num_r > need.candidates:
        if unsure_2.any() or _unsure(sums, num_m, num_r - 1, need)[0].any():
            break
        num_r -= 1
    return num_m, num_r


def _unsure(sums: tuple[FloatArray, ...], num_m: int, num_r: int, need: Need) -> tuple[BoolArray, int]:
    """Which of the two needs are not surely met by these numbers, and the limit that holds for more."""
    needed_2 = np.array([need.mastered, need.rest])
    mean_2 = sums[0][num_m] + sums[2][num_r]
    spread_2 = np.sqrt(sums[1][num_m] + sums[3][num_r])
    # Half a group of continuity: meeting a need of 3 is to find more than 2.5.
    unsure_2 = (mean_2 - need.confidence * spread_2 < needed_2 - 0.5) & (needed_2 > 0)
    short = bool(np.any((mean_2 < needed_2) & (needed_2 > 0)))
    return unsure_2, need.hard_limit if short else need.soft_limit


def _prefix_sums(chance_K2: FloatArray) -> tuple[FloatArray, FloatArray]:
    zero = np.zeros((1, 2))
    mean = np.concatenate([zero, np.cumsum(chance_K2, axis=0)])
    variance = np.concatenate([zero, np.cumsum(chance_K2 * (1 - chance_K2), axis=0)])
    return mean, variance
