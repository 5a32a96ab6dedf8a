"""Sampling with a random stream per sequence: a token depends on its seed, sequence, position and logits alone.

Shape legend: B sequences decoded at once, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from sparing.types import IntArray

# Rows are handled in pieces of about this many logits, so that a large vocabulary does not multiply memory.
_PIECE_ELEMENTS = 1 << 22

_UInts = NDArray[np.uint64]


def _mix(value: _UInts) -> _UInts:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a bijection in which every input bit matters."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def sequence_keys(seed: int, num_sequences: int) -> _UInts:
    """One 64-bit key for each sequence of a call, from `(seed, sequence index)` alone; shape (num_sequences,)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    start = _mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64) + golden)
    return _mix(start + golden * np.arange(1, num_sequences + 1, dtype=np.uint64))


def uniforms(keys_B: _UInts, positions_B: IntArray) -> NDArray[np.float64]:
    """Counter-based uniform numbers in [0, 1), shape (B,): a hash of a sequence's key and its token position.

    52 bits, so that `uniform * total` stays below `total` in float64 and no token of probability zero is reached.
    """
    golden = np.uint64(0x9E3779B97F4A7C15)
    bits = _mix(_mix(keys_B + golden * (positions_B.astype(np.uint64) + np.uint64(1))))
    return np.asarray((bits >> np.uint64(12)).astype(np.float64) * 2.0**-52, dtype=np.float64)


def choose_tokens(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, *, temperature: float, top_p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token a row by inverting the cumulative distribution at `uniforms_B` (float64, in [0, 1)).

    Returns token ids (B,) and float32 log-probabilities (B,) of softmax(logits / temperature), before the top-p
    filter. With `top_p` < 1 the draw is from the smallest set of most likely tokens that holds that much probability.
    """
    rows = max(1, _PIECE_ELEMENTS // logits_BV.shape[1])
    if logits_BV.shape[0] <= rows:
        return _choose(logits_BV, uniforms_B, temperature, top_p)
    pieces = [
        _choose(logits, uniform, temperature, top_p)
        for logits, uniform in zip(logits_BV.split(rows), uniforms_B.split(rows), strict=True)
    ]
    return torch.cat([tokens for tokens, _ in pieces]), torch.cat([logprobs for _, logprobs in pieces])


def _choose(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, temperature: float, top_p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logits_BV = logits_BV.float()
    if temperature != 1.0:
        logits_BV = logits_BV / temperature
    logprobs_BV = torch.log_softmax(logits_BV, dim=-1)
    weights_BV = logprobs_BV.exp()
    order_BV = None
    if top_p < 1.0:
        weights_BV, order_BV = weights_BV.sort(dim=-1, descending=True, stable=True)
        # Mass before a token, not including it: the token that crosses top_p is kept, so is always the first.
        weights_BV = weights_BV.masked_fill(weights_BV.cumsum(-1) - weights_BV >= top_p, 0.0)
    # float64: a float32 sum over a large vocabulary would round away unlikely tokens.
    mass_BV = weights_BV.cumsum(-1, dtype=torch.float64)
    target_B1 = uniforms_B[:, None] * mass_BV[:, -1:]
    chosen_B1 = torch.searchsorted(mass_BV, target_B1, right=True).clamp_(max=mass_BV.shape[1] - 1)
    if order_BV is not None:
        chosen_B1 = order_BV.gather(1, chosen_B1)
    return chosen_B1[:, 0], logprobs_BV.gather(1, chosen_B1)[:, 0]
