"""A preallocated key-value cache in which every row has its own length.

Rows start at column 0 and write at their own position, so prompts of unequal length need no left padding, a finished
row is replaced by moving one live row into its place, and a waiting prompt can start in any free row.

Shape legend: R rows, H key-value heads, C columns (tokens a row can hold), D head size, L columns in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache

# Columns are handed to attention in multiples of this, so that tensor shapes recur and memory is reused.
COLUMN_BLOCK = 32


def round_up(value: int, block: int = COLUMN_BLOCK) -> int:
    """The smallest multiple of `block` that is not below `value`."""
    return -(-value // block) * block


class BufferPool:
    """Flat buffers that outlive a call: growing them in place of allocating anew keeps resident memory bounded."""

    def __init__(self) -> None:
        self._flat: dict[tuple[int, int], torch.Tensor] = {}

    def view(self, key: tuple[int, int], shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        """A tensor of `shape` on the buffer named `key`, with the type and device of `like`.

        Its strides depend on `shape` alone, never on what the buffer held before, so equal calls compute equal bits.
        """
        size = 1
        for length in shape:
            size *= length
        flat = self._flat.get(key)
        if flat is None or flat.numel() < size or flat.dtype != like.dtype or flat.device != like.device:
            self._flat.pop(key, None)
            # Zeros, not empty: attention multiplies masked columns by exactly 0, which NaN would survive.
            # Some headroom, or calls of slowly growing size would each allocate.
            flat = torch.zeros(size + size // 8, dtype=like.dtype, device=like.device)
            self._flat[key] = flat
        return flat[:size].view(shape)

    def clear(self) -> None:
        """Give all buffers back."""
        self._flat.clear()


@dataclass(frozen=True)
class _Prefill:
    """Write states of prompts to rows `start`, `start + 1`, ...; row `start + j` takes prompt `source[j]`."""

    start: int
    source: torch.Tensor


@dataclass(frozen=True)
class _Step:
    """Write one token in each of the first rows, at `positions`, and attend to the first `columns` columns."""

    rows: torch.Tensor
    positions: torch.Tensor
    columns: int


class RolloutCache(Cache):  # type: ignore[misc]
    """Key-value states of up to R rows, shape (R, H, C, D) a layer, written in place.

    Call `prefill` or `step` before each forward of the model to say where its states belong. Layers are created when
    the model first writes to them, with whatever shapes it uses. With `keys_by_feature`, keys lie in memory as
    (R, H, D, C), which makes the product of few queries with many keys on a CPU faster; shapes stay the same.
    """

    def __init__(self, pool: BufferPool, num_rows: int, num_columns: int, *, keys_by_feature: bool = False) -> None:
        super().__init__(layers=[])
        self._keys_by_feature = keys_by_feature
        self._pool = pool
        self._num_rows = num_rows
        self._num_columns = num_columns
        self._states: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._plan: _Prefill | _Step | None = None

    @property
    def num_columns(self) -> int:
        """Tokens that a row can hold; `grow` makes room for more."""
        return self._num_columns

    def prefill(self, start: int, source: torch.Tensor) -> None:
        """The next forward holds prompts from column 0; row `start + j` keeps the states of its entry `source[j]`."""
        self._plan = _Prefill(start, source)

    def step(self, rows: torch.Tensor, positions: torch.Tensor, columns: int) -> None:
        """The next forward holds one token for each of the rows 0, 1, ..., each at its own position."""
        self._plan = _Step(rows, positions, columns)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store new states of one layer; return those that attention looks at."""
        plan = self._plan
        states = self._states.get(layer_idx) or self._create(key_states, value_states, layer_idx)
        if isinstance(plan, _Step):
            columns = plan.columns
            for buffer, new in zip(states, (key_states, value_states), strict=True):
                buffer[plan.rows, :, plan.positions] = new[:, :, 0]
            rows = key_states.shape[0]
            return states[0][:rows, :, :columns], states[1][:rows, :, :columns]
        assert plan is not None, "call prefill or step before the forward"
        stop, columns = plan.start + plan.source.shape[0], key_states.shape[2]
        for buffer, new in zip(states, (key_states, value_states), strict=True):
            buffer[plan.start : stop, :, :columns] = new[plan.source]
        return key_states, value_states

    def move_rows(self, source: torch.Tensor, target: torch.Tensor, columns: int) -> None:
        """Copy the first `columns` columns of rows `source` over rows `target`; the two must not overlap."""
        for states in self._states.values():
            for buffer in states:
                buffer[target, :, :columns] = buffer[source, :, :columns]

    def grow(self, num_rows: int, num_columns: int, keep: int) -> None:
        """Make place for `num_columns` columns in `num_rows` rows and keep the first `keep` rows."""
        old_columns = self._num_columns
        self._num_rows, self._num_columns = num_rows, num_columns
        for layer_idx, states in self._states.items():
            grown = []
            for part, buffer in enumerate(states):
                # A copy, because the larger view may lie on the same memory.
                kept = buffer[:keep].clone()
                fresh = self._allocate(layer_idx, part, buffer)
                fresh[:keep, :, :old_columns] = kept
                grown.append(fresh)
            self._states[layer_idx] = (grown[0], grown[1])

    def _create(self, key: torch.Tensor, value: torch.Tensor, layer_idx: int) -> tuple[torch.Tensor, torch.Tensor]:
        self._states[layer_idx] = (self._allocate(layer_idx, 0, key), self._allocate(layer_idx, 1, value))
        return self._states[layer_idx]

    def _allocate(self, layer_idx: int, part: int, like: torch.Tensor) -> torch.Tensor:
        rows, columns, num_heads, size = self._num_rows, self._num_columns, like.shape[1], like.shape[3]
        if part == 0 and self._keys_by_feature:
            return self._pool.view((layer_idx, part), (rows, num_heads, size, columns), like).transpose(2, 3)
        return self._pool.view((layer_idx, part), (rows, num_heads, columns, size), like)

    # What mask and position code of transformers asks a cache. A prefill starts from nothing; in a step, masks and
    # positions are given explicitly.

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens seen before a prefill: none."""
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Number and offset of the columns that a prefill attends to."""
        return query_length, 0

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """Tokens that a row can hold."""
        return self._num_columns
