"""Disjoint pools of problem indices with constant-time moves, for data sets of any size.

Shape legend: K picked indices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparing.types import IntArray

OUTSIDE = -1
_FIRST_CAPACITY = 64


class IndexPools:
    """Which pool each index is in, and the members of each pool as a plain array.

    A move costs the same at ten problems and at ten million: the last member of the old pool takes the
    leaver's place (swap-remove). Memory is 5 bytes an index, plus 4 to 8 for each that is in a pool.
    """

    def __init__(self, num_indices: int, num_pools: int) -> None:
        self._pool_of = np.full(num_indices, OUTSIDE, dtype=np.int8)
        self._place_of = np.zeros(num_indices, dtype=np.int32)
        self._members = [np.zeros(_FIRST_CAPACITY, dtype=np.int32) for _ in range(num_pools)]
        self.sizes = np.zeros(num_pools, dtype=np.int64)

    def pool_of(self, index_K: IntArray) -> NDArray[np.int8]:
        """Pool of each index, shape (K,); `OUTSIDE` for those in none."""
        return self._pool_of[index_K]

    def members(self, pool: int) -> NDArray[np.int32]:
        """Members of a pool; the order is that of arrival, disturbed by those that left. Do not write to it."""
        return self._members[pool][: self.sizes[pool]]

    def move(self, index: int, pool: int) -> None:
        """Put one index into a pool, out of the one it is in."""
        old = int(self._pool_of[index])
        if old == pool:
            return
        if old != OUTSIDE:
            last = int(self.sizes[old]) - 1
            heir = self._members[old][last]
            place = self._place_of[index]
            self._members[old][place] = heir
            self._place_of[heir] = place
            self.sizes[old] = last
        self._append(index, pool)

    def _append(self, index: int, pool: int) -> None:
        size = int(self.sizes[pool])
        if size == self._members[pool].shape[0]:
            # Doubling: the copy is paid for by the arrivals before it.
            self._members[pool] = np.concatenate([self._members[pool], np.zeros_like(self._members[pool])])
        self._members[pool][size] = index
        self._place_of[index] = size
        self._pool_of[index] = pool
        self.sizes[pool] = size + 1

    def pick(self, pool: int, num: int, rng: np.random.Generator, excluded_E: IntArray) -> IntArray:
        """Up to `num` distinct random members that are not excluded, in random order; O(num + E)."""
        size = int(self.sizes[pool])
        num_excluded = int(np.count_nonzero(self.pool_of(excluded_E) == pool)) if excluded_E.size else 0
        num_tried = min(size, num + num_excluded)
        if num_tried == 0:
            return np.zeros(0, dtype=np.int64)
        picked_K = self._members[pool][rng.choice(size, size=num_tried, replace=False)].astype(np.int64)
        if num_excluded:
            picked_K = picked_K[~np.isin(picked_K, excluded_E)]
        return picked_K[:num]

    def load(self, members: Sequence[IntArray]) -> None:
        """Become exactly these pools, member order included."""
        self._pool_of.fill(OUTSIDE)
        for pool, members_K in enumerate(members):
            size = members_K.shape[0]
            capacity = _FIRST_CAPACITY
            while capacity < size:
                capacity *= 2
            self._members[pool] = np.zeros(capacity, dtype=np.int32)
            self._members[pool][:size] = members_K
            self._place_of[members_K] = np.arange(size, dtype=np.int32)
            self._pool_of[members_K] = pool
            self.sizes[pool] = size
