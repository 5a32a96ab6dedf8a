"""A shuffled pass over the data set, epoch after epoch, without holding a permutation in memory.

Shape legend: K places in the pass.
"""

from __future__ import annotations

import numpy as np

from sparing.seeding import derive_seed
from sparing.types import IntArray

_ROUNDS = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class EpochOrder:
    """Place p of the pass -> problem index; places [0, num) are epoch 0, [num, 2 num) epoch 1, and so on.

    Every epoch is its own permutation: a Feistel network over the next power of four, in which values
    outside the data set are sent through again ("cycle walking", Black and Rogaway 2002). It needs no state
    and O(K) time, so a checkpoint of ten million problems keeps one integer.
    """

    def __init__(self, num_problems: int, seed: int) -> None:
        self._num = num_problems
        self._seed = seed
        self._half_bits = np.uint64(max(1, (max(num_problems - 1, 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half_bits)) - 1)

    def at(self, place: int, num: int) -> IntArray:
        """Problem indices at places [place, place + num), shape (num,)."""
        parts = []
        while num > 0:
            epoch, start = divmod(place, self._num)
            length = min(num, self._num - start)
            parts.append(self._permute(np.arange(start, start + length, dtype=np.uint64), epoch))
            place += length
            num -= length
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def _permute(self, value_K: np.ndarray, epoch: int) -> IntArray:
        keys = [np.uint64(derive_seed(self._seed, "epoch", epoch, number)) for number in range(_ROUNDS)]
        value_K = self._network(value_K, keys)
        outside_K = np.flatnonzero(value_K >= self._num)
        while outside_K.size:
            value_K[outside_K] = self._network(value_K[outside_K], keys)
            outside_K = outside_K[value_K[outside_K] >= self._num]
        return value_K.astype(np.int64)

    def _network(self, value_K: np.ndarray, keys: list[np.uint64]) -> np.ndarray:
        left_K, right_K = value_K >> self._half_bits, value_K & self._mask
        for key in keys:
            # The upper bits of a product depend on every bit of its factors.
            mixed_K = ((right_K ^ key) * _MULTIPLIER) ^ (key >> np.uint64(17))
            mixed_K = (mixed_K ^ (mixed_K >> np.uint64(29))) * _MULTIPLIER
            left_K, right_K = right_K, left_K ^ ((mixed_K >> np.uint64(32)) & self._mask)
        return (left_K << self._half_bits) | right_K
