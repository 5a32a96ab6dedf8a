"""What is known of every problem's mastery, and how likely each outcome is at the next look (Sec. 3).

Training uses the pass rates of the current rollouts only; this table merely predicts them, so that few
groups are generated in vain. Shape legend: G groups, S pass-rate bands, A age bins, 3 outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparing.data.index_pools import OUTSIDE, IndexPools
from sparing.errors import DataError, RunError
from sparing.types import BoolArray, FloatArray, IntArray

UNSOLVED, PARTIAL, MASTERED = 0, 1, 2
"""The three outcomes of a group: pass rate 0, between, 1."""

# Bands of the last observed pass rate: exactly 0, then up to each edge, exactly 1. Finer towards 1, where the
# chance of being mastered next time changes most.
_EDGES = np.array([0.2, 0.5, 0.7, 0.8, 0.9])
NUM_BANDS = _EDGES.shape[0] + 3
_LAST_BAND = NUM_BANDS - 1
_CLASS_OF_BAND = np.array([UNSOLVED, *[PARTIAL] * (NUM_BANDS - 2), MASTERED])
UNSEEN = NUM_BANDS
"""Row of the problems never observed, after the bands."""

# Outcome shares (unsolved, partial, mastered) of the next group before anything is known of this run.
_FIRST_GUESS_S3 = np.array(
    [
        [0.80, 0.19, 0.01],
        [0.40, 0.59, 0.01],
        [0.08, 0.91, 0.01],
        [0.02, 0.93, 0.05],
        [0.01, 0.84, 0.15],
        [0.01, 0.64, 0.35],
        [0.01, 0.49, 0.50],
        [0.01, 0.19, 0.80],
    ]
)
_BAND_STRENGTH = 4.0  # groups that the first guess of a band weighs as much as
_CELL_STRENGTH = 8.0  # groups that a band's own rate weighs as much as within one of its ages
_HALF_LIFE = 512.0  # steps after which an observation is worth half against the base rate, before evidence
_FORGETTING = 0.98  # the policy changes: evidence of 50 steps ago weighs about a third
_NUM_AGES = 12  # ages 1, 2-3, 4-7, ... 2048 and more steps


def band_of(pass_rate_G: FloatArray) -> IntArray:
    """Band of each pass rate, shape (G,): 0 for a pass rate of 0, the last one for a pass rate of 1."""
    return np.where(
        pass_rate_G <= 0,
        0,
        np.where(pass_rate_G >= 1, _LAST_BAND, 1 + np.searchsorted(_EDGES, pass_rate_G, side="right")),
    )


class MasteryTable:
    """Last observed pass rate of each problem in bands, its step, and running outcome rates by band and age.

    All calls cost O(groups), whatever the number of problems. Memory is at most 17 bytes a problem.

    >>> table = MasteryTable(num_problems=4)
    >>> table.observe(np.array([0, 1]), np.array([1.0, 0.0]), step=1)
    >>> mastered = table.expected_mastery(np.array([0, 1, 2]), step=2)
    >>> bool(mastered[0] > mastered[2] > mastered[1])
    True
    """

    def __init__(self, num_problems: int) -> None:
        if num_problems < 1:
            raise DataError(f"the mastery table got {num_problems} problems; it needs at least 1")
        self.num_problems = num_problems
        self.pools = IndexPools(num_problems, NUM_BANDS)
        self._last_step = np.zeros(num_problems, dtype=np.int32)
        # [band or UNSEEN, age, outcome] -> groups, with forgetting
        self._counts = np.zeros((NUM_BANDS + 1, _NUM_AGES, 3))
        self._counted_step = 0
        self._hits = np.zeros(3)  # predicted mastered, observed mastered, groups; with forgetting
        self._rates: FloatArray | None = None

    @property
    def num_seen(self) -> int:
        """Problems observed at least once."""
        return int(self.pools.sizes.sum())

    def observe(self, index_G: IntArray, pass_rate_G: FloatArray, step: int) -> None:
        """Record the pass rates that the current policy reached on these problems at this step."""
        index_G, pass_rate_G = self._checked(index_G, pass_rate_G)
        band_G, age_G = self._band_and_age(index_G, step)
        new_band_G = band_of(pass_rate_G)
        outcome_G = _CLASS_OF_BAND[new_band_G]
        kept = _FORGETTING ** max(0, step - self._counted_step)
        predicted = float(self.rates()[band_G, age_G, MASTERED].sum())
        self._hits = self._hits * kept + [predicted, np.count_nonzero(outcome_G == MASTERED), index_G.shape[0]]
        self._counts *= kept
        np.add.at(self._counts, (band_G, age_G, outcome_G), 1.0)
        self._counted_step = max(step, self._counted_step)
        for index, band in zip(index_G.tolist(), new_band_G.tolist(), strict=True):
            self.pools.move(index, band)
        self._last_step[index_G] = step
        self._rates = None

    def is_seen(self, index_G: IntArray) -> BoolArray:
        """Which of these problems have been observed, shape (G,)."""
        return np.asarray(self.pools.pool_of(index_G) != OUTSIDE)

    def predict(self, index_G: IntArray, step: int) -> FloatArray:
        """Chances of the outcomes unsolved, partial, mastered of each problem's next group, shape (G, 3)."""
        band_G, age_G = self._band_and_age(index_G, step)
        return self.rates()[band_G, age_G]

    def expected_mastery(self, index_G: IntArray, step: int) -> FloatArray:
        """Chance that every rollout of each problem's next group is correct, shape (G,)."""
        return self.predict(index_G, step)[:, MASTERED]

    def band_rates(self) -> FloatArray:
        """Outcome chances by band at the ages met so far, the unseen in the last row, shape (S + 1, 3)."""
        counts_S3 = self._counts.sum(axis=1)
        guess_S3 = np.vstack([_FIRST_GUESS_S3, self.base_rate()])
        total_S1 = counts_S3.sum(axis=1, keepdims=True)
        rates_S3: FloatArray = (counts_S3 + _BAND_STRENGTH * guess_S3) / (total_S1 + _BAND_STRENGTH)
        return rates_S3

    def base_rate(self) -> FloatArray:
        """Shares of the problems seen so far whose last outcome was unsolved, partial, mastered, shape (3,)."""
        counts_3 = np.bincount(_CLASS_OF_BAND, weights=self.pools.sizes, minlength=3)
        rate_3: FloatArray = (counts_3 + 1.0) / (counts_3.sum() + 3.0)
        return rate_3

    def rates(self) -> FloatArray:
        """Outcome chances by band and age, shape (S + 1, A, 3): counts shrunk towards the band's own rates.

        Before evidence, an old observation is worth less: the band's rate decays to the base rate.
        """
        if self._rates is None:
            band_S13 = self.band_rates()[:, None, :]
            worth_A = 0.5 ** (2.0 ** np.arange(_NUM_AGES) / _HALF_LIFE)
            base_3 = self.base_rate()
            prior_SA3 = base_3 + (band_S13 - base_3) * worth_A[None, :, None]
            prior_SA3[UNSEEN] = band_S13[UNSEEN]
            total_SA1 = self._counts.sum(axis=2, keepdims=True)
            self._rates = (self._counts + _CELL_STRENGTH * prior_SA3) / (total_SA1 + _CELL_STRENGTH)
        return self._rates

    def metrics(self) -> dict[str, float]:
        """Shares over all problems (seen, mastered when last seen) and recent predicted and observed mastery."""
        predicted, observed, num = self._hits
        return {
            "seen_share": self.num_seen / self.num_problems,
            "known_mastered_share": float(self.pools.sizes[_LAST_BAND]) / self.num_problems,
            "predicted_mastery": float(predicted / num) if num else 0.0,
            "observed_mastery": float(observed / num) if num else 0.0,
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that was observed, as numpy arrays and ints; its size grows with the problems seen."""
        members = [self.pools.members(band) for band in range(NUM_BANDS)]
        seen_K = np.concatenate(members)
        return {
            "num_problems": self.num_problems,
            "members": seen_K,
            "sizes": self.pools.sizes.copy(),
            "last_step": self._last_step[seen_K],
            "counts": self._counts.copy(),
            "counted_step": self._counted_step,
            "hits": self._hits.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the saved table; RunError where it was made for another number of problems."""
        if int(state["num_problems"]) != self.num_problems:
            raise RunError(
                f"the saved mastery table knows {int(state['num_problems'])} problems and the data has "
                f"{self.num_problems}; resume with the data the run began with, or start a new run"
            )
        seen_K = np.asarray(state["members"], dtype=np.int64)
        bounds = np.cumsum(np.asarray(state["sizes"]))[:-1]
        self.pools.load(np.split(seen_K, bounds))
        self._last_step.fill(0)
        self._last_step[seen_K] = state["last_step"]
        self._counts = np.array(state["counts"], dtype=np.float64)
        self._counted_step = int(state["counted_step"])
        self._hits = np.array(state["hits"], dtype=np.float64)
        self._rates = None

    def _band_and_age(self, index_G: IntArray, step: int) -> tuple[IntArray, IntArray]:
        pool_G = self.pools.pool_of(index_G)
        band_G = np.where(pool_G == OUTSIDE, UNSEEN, pool_G).astype(np.int64)
        # A rolled-back run looks at observations from its own future; they count as fresh.
        steps_G = np.maximum(step - self._last_step[index_G].astype(np.int64), 1)
        age_G = np.minimum(np.frexp(steps_G)[1] - 1, _NUM_AGES - 1)
        return band_G, np.where(band_G == UNSEEN, 0, age_G)

    def _checked(self, index_G: IntArray, pass_rate_G: FloatArray) -> tuple[IntArray, FloatArray]:
        index_G = np.asarray(index_G, dtype=np.int64)
        pass_rate_G = np.asarray(pass_rate_G, dtype=np.float64)
        if index_G.shape != pass_rate_G.shape or index_G.ndim != 1:
            raise DataError(f"{index_G.shape} indices and {pass_rate_G.shape} pass rates; give one pass rate an index")
        if index_G.size and (index_G.min() < 0 or index_G.max() >= self.num_problems):
            raise DataError(f"problem index outside 0..{self.num_problems - 1}: {index_G.min()}..{index_G.max()}")
        if not np.all((pass_rate_G >= 0) & (pass_rate_G <= 1)):
            raise DataError(f"pass rates must lie in [0, 1]; got {pass_rate_G.min()}..{pass_rate_G.max()}")
        return index_G, pass_rate_G
