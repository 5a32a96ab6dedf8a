"""The dynamic sampler: which problems to generate rollouts for, by predicted mastery (Sec. 3, Sec. 4.1).

Shape legend: K proposed candidates in order, E excluded problems, S pass-rate bands with the unseen last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sparing.data.draw_plan import MIN_YIELD, Need, choose_counts, rest_weights, spread
from sparing.data.epoch_order import EpochOrder
from sparing.data.mastery_table import MASTERED, PARTIAL, UNSEEN, UNSOLVED, MasteryTable
from sparing.errors import DataError
from sparing.seeding import derive_rng, derive_seed
from sparing.types import FloatArray, IntArray

Rest = Literal["all", "unmastered", "partial"]
Want = Literal["any", "mastered", "unmastered", "partial"]

_OUTCOMES = {
    "any": (UNSOLVED, PARTIAL, MASTERED),
    "all": (),  # any leftover group serves, so nothing has to be found
    "mastered": (MASTERED,),
    "unmastered": (UNSOLVED, PARTIAL),
    "partial": (PARTIAL,),
}
# Standard deviations of safety by attempt: what a first draw lacks is cheap to add, what the last one lacks stays.
_CONFIDENCE = (0.25, 0.5, 1.0)
_FREE_CONFIDENCE = 2.5  # with rest = "all" surplus mastered groups of the first draw cost nothing
_SOFT_EXCESS, _HARD_EXCESS = 0.08, 0.25  # overdraw of the first draw as shares of the batch
_EXPLORED = 0.05  # share of the rest draw that may go to bands with hardly a chance, to look at them again


def check_enough_problems(num_problems: int, batch_size: int) -> None:
    """DataError where a batch of distinct problems cannot be drawn from the data."""
    if batch_size > num_problems:
        raise DataError(
            f"a batch needs {batch_size} different problems and the training data has {num_problems}; "
            f"set mixture.batch_size to at most {num_problems}, or add problems to data.train"
        )


@dataclass(frozen=True, kw_only=True)
class _Proposal:
    """Candidates in order; any prefix may be taken, which moves the epoch on to `cursor_K` of its last."""

    index_K: IntArray
    cursor_K: IntArray


class MixtureSampler:
    """Draws distinct problems: unseen ones in a shuffled pass, the others from pools by last pass rate.

    Every draw is a function of (seed, step, attempt) and the state, so a resumed run draws the same. A call
    costs O(candidates), whatever the number of problems.

    >>> sampler = MixtureSampler(100, MasteryTable(100), seed=0)
    >>> sampler.draw(3, "any", step=1).shape
    (3,)
    """

    def __init__(self, num_problems: int, table: MasteryTable, seed: int) -> None:
        if num_problems != table.num_problems:
            raise DataError(f"{num_problems} problems and a mastery table of {table.num_problems}; they must agree")
        self.num_problems = num_problems
        self.table = table
        self._seed = derive_seed(seed, "sampler")
        self._order = EpochOrder(num_problems, self._seed)
        self._cursor = 0  # places of the shuffled pass used so far, over all epochs

    @property
    def epoch(self) -> float:
        """Passes over the data that draws of `any` and of unseen problems have made."""
        return self._cursor / self.num_problems

    def draw(self, num: int, want: Want, *, step: int, attempt: int = 0, exclude: IntArray | None = None) -> IntArray:
        """`num` distinct problems not in `exclude` (fewer only where there are not that many), shape (num,).

        `any` follows the shuffled pass; the other wants take the problems likeliest to turn out so, and are
        topped up from the shuffled pass.
        """
        excluded_E = _as_index(exclude)
        rng = derive_rng(self._seed, "draw", step, attempt, want)
        if want == "any":
            chosen = [self._take(self._propose_any(num, excluded_E), num)]
        elif want == "mastered":
            chosen = [self._take(self._propose_mastered(num, excluded_E, rng, lowest=0.0), num)]
        else:
            need = Need(mastered=0, rest=num, candidates=num, confidence=0.0, soft_limit=num, hard_limit=num)
            chosen = [self._take(self._propose_rest(num, want, need, excluded_E, rng), num)]
        missing = num - chosen[0].shape[0]
        if missing > 0:
            chosen.append(self._take(self._propose_any(missing, np.concatenate([excluded_E, *chosen])), missing))
        return np.concatenate(chosen)

    def draw_candidates(
        self,
        need_mastered: int,
        need_rest: int,
        rest: Rest,
        *,
        batch_size: int,
        step: int,
        attempt: int = 0,
        exclude: IntArray | None = None,
    ) -> IntArray:
        """As many candidates as will probably bring the needed groups of both shares, shape (K,).

        The first attempt brings at least `batch_size` candidates. Later ones bring only problems with a fair
        chance to be what is missing, at most `batch_size` of them and possibly none.
        """
        excluded_E = _as_index(exclude)
        first = attempt == 0
        need = _need(need_mastered, need_rest, rest, batch_size, attempt)
        rng = derive_rng(self._seed, "candidates", step, attempt)
        longest = max(need.hard_limit, need.candidates)
        mastered = self._propose_mastered(longest if need_mastered else 0, excluded_E, rng)
        if rest == "all":
            other = self._propose_any(need.candidates, excluded_E)
        else:
            other = self._propose_rest(longest, rest, need, excluded_E, rng, explore=first)
        num_m, num_r = choose_counts(
            self._chances(mastered.index_K, rest, step), self._chances(other.index_K, rest, step), need
        )
        chosen = [self._take(mastered, num_m)]
        taken_E = np.concatenate([excluded_E, chosen[0]])
        if rest != "all" and num_r:
            chosen.append(self._take(self._propose_rest(num_r, rest, need, taken_E, rng, explore=first), num_r))
            taken_E = np.concatenate([taken_E, chosen[1]])
        missing = max(need.candidates, num_m + num_r if rest == "all" else 0) - sum(map(len, chosen))
        if missing > 0:
            chosen.append(self._take(self._propose_any(missing, taken_E), missing))
        return np.concatenate(chosen)

    def observe(self, index_G: IntArray, pass_rate_G: FloatArray, step: int) -> None:
        """Record the pass rates of generated groups, used or not, shapes (G,)."""
        self.table.observe(index_G, pass_rate_G, step)

    def state_dict(self) -> dict[str, Any]:
        """The table's state and the place in the shuffled pass, as numpy arrays and ints."""
        return {**self.table.state_dict(), "cursor": self._cursor}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        self.table.load_state_dict(state)
        self._cursor = int(state["cursor"])

    def metrics(self) -> dict[str, float]:
        """The table's metrics and the epoch of the shuffled pass."""
        return {**self.table.metrics(), "epoch": self.epoch}

    def _chances(self, index_K: IntArray, rest: Rest, step: int) -> FloatArray:
        """Chances of being mastered and of serving the rest share, shape (K, 2)."""
        outcome_K3 = self.table.predict(index_K, step)
        return np.stack([outcome_K3[:, MASTERED], outcome_K3[:, list(_OUTCOMES[rest])].sum(axis=1)], axis=1)

    def _propose_any(self, num: int, excluded_E: IntArray, unseen_until: int | None = None) -> _Proposal:
        """The next problems of the shuffled pass, those excluded or met twice left out.

        `unseen_until` leaves out problems observed before as well, and ends the search at that place.
        """
        found: list[IntArray] = []
        cursors: list[IntArray] = []
        place, missing = self._cursor, num
        # Two passes meet every problem that is not excluded, wherever the first one starts.
        end = self._cursor + 2 * self.num_problems if unseen_until is None else unseen_until
        while missing > 0 and place < end:
            length = min(end - place, missing + 16)
            index_K = self._order.at(place, length)
            _, first_K = np.unique(index_K, return_index=True)
            keep_K = np.sort(first_K)
            keep_K = keep_K[~np.isin(index_K[keep_K], np.concatenate([excluded_E, *found]))]
            if unseen_until is not None:
                keep_K = keep_K[~self.table.is_seen(index_K[keep_K])]
            keep_K = keep_K[:missing]
            found.append(index_K[keep_K])
            cursors.append(place + keep_K + 1)
            place += length
            missing -= keep_K.shape[0]
        return _Proposal(index_K=np.concatenate([_NONE, *found]), cursor_K=np.concatenate([_NONE, *cursors]))

    def _propose_mastered(
        self, num: int, excluded_E: IntArray, rng: np.random.Generator, lowest: float = MIN_YIELD
    ) -> _Proposal:
        """Likeliest band first, down to the lowest chance."""
        chance_S = self.table.band_rates()[:, MASTERED]
        proposals: list[_Proposal] = []
        for band in np.argsort(-chance_S, kind="stable").tolist():
            missing = num - sum(len(proposal.index_K) for proposal in proposals)
            if missing <= 0 or chance_S[band] < lowest:
                break
            proposals.append(self._propose_band(band, missing, excluded_E, rng))
        return _Proposal(
            index_K=np.concatenate([_NONE, *(proposal.index_K for proposal in proposals)]),
            cursor_K=np.concatenate([_NONE, *(proposal.cursor_K for proposal in proposals)]),
        )

    def _propose_rest(
        self, num: int, want: Want, need: Need, excluded_E: IntArray, rng: np.random.Generator, explore: bool = True
    ) -> _Proposal:
        """Bands in proportion to their weights, shuffled, so that every prefix has the same make-up."""
        rates_S3 = self.table.band_rates()
        rest_S, mastered_S = rates_S3[:, list(_OUTCOMES[want])].sum(axis=1), rates_S3[:, MASTERED]
        size_S = self._band_sizes(excluded_E)
        faint_S = rest_S < MIN_YIELD
        size_S[faint_S] = np.minimum(size_S[faint_S], math.ceil(_EXPLORED * num) if explore else 0)
        mastered_yield = float(mastered_S[size_S > 0].max(initial=0.0))
        weight_S = rest_weights(size_S, rest_S, mastered_S, need, mastered_yield)
        given_S = spread(num, weight_S, size_S)
        whole_S = np.floor(given_S).astype(np.int64)
        part_S = given_S - whole_S
        if part_S.sum() > 1e-9:
            missing = round(float(part_S.sum()))
            whole_S += rng.multinomial(missing, part_S / part_S.sum())
        bands = [
            self._propose_band(band, int(whole_S[band]), excluded_E, rng) for band in np.flatnonzero(whole_S).tolist()
        ]
        # Unseen problems keep the order of the pass among themselves, so that a prefix of them is a prefix of it.
        label_K = rng.permutation(np.repeat(np.arange(len(bands)), [len(band.index_K) for band in bands]))
        index_K, cursor_K = np.zeros_like(label_K), np.zeros_like(label_K)
        for label, band in enumerate(bands):
            index_K[label_K == label], cursor_K[label_K == label] = band.index_K, band.cursor_K
        return _Proposal(index_K=index_K, cursor_K=cursor_K)

    def _propose_band(self, band: int, num: int, excluded_E: IntArray, rng: np.random.Generator) -> _Proposal:
        if band != UNSEEN:
            index_K = self.table.pools.pick(band, num, rng, excluded_E)
            return _Proposal(index_K=index_K, cursor_K=np.zeros_like(index_K))
        # Behind the cursor of the first epoch everything has been drawn before, ahead of it nothing has.
        last_place = min(self.num_problems, self._cursor + 4 * num + 64)
        return self._propose_any(num, excluded_E, last_place)

    def _band_sizes(self, excluded_E: IntArray) -> IntArray:
        """Problems of each band that may be drawn, the unseen last, shape (S,)."""
        excluded_S = np.bincount(self.table.pools.pool_of(excluded_E) + 1, minlength=UNSEEN + 1)[1:]
        return np.append(self.table.pools.sizes - excluded_S, max(0, self.num_problems - self._cursor))

    def _take(self, proposal: _Proposal, num: int) -> IntArray:
        if num > 0 and proposal.cursor_K.size:
            self._cursor = max(self._cursor, int(proposal.cursor_K[:num].max()))
        return proposal.index_K[:num]


_NONE = np.zeros(0, dtype=np.int64)


def _need(need_mastered: int, need_rest: int, rest: Rest, batch_size: int, attempt: int) -> Need:
    first = attempt == 0
    confidence = _CONFIDENCE[min(attempt, len(_CONFIDENCE) - 1)]
    return Need(
        mastered=need_mastered,
        rest=0 if rest == "all" else need_rest,
        candidates=batch_size if first else 0,
        confidence=_FREE_CONFIDENCE if first and rest == "all" else confidence,
        soft_limit=batch_size + (math.ceil(_SOFT_EXCESS * batch_size) if first else 0),
        hard_limit=batch_size + (math.ceil(_HARD_EXCESS * batch_size) if first else 0),
    )


def _as_index(exclude: IntArray | None) -> IntArray:
    return _NONE if exclude is None else np.asarray(exclude, dtype=np.int64)
