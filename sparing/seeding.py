"""Seeds derived from names, so that a resumed run needs no saved generator state."""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(seed: int, *labels: str | int) -> int:
    """A 63-bit seed for the place named by `labels`, the same in every process.

    >>> derive_seed(0, "rollout", 7) == derive_seed(0, "rollout", 7)
    True
    >>> derive_seed(0, "rollout", 7) == derive_seed(0, "rollout", 8)
    False
    """
    text = "/".join(str(part) for part in (seed, *labels))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def derive_rng(seed: int, *labels: str | int) -> np.random.Generator:
    """A numpy generator for the place named by `labels`."""
    return np.random.default_rng(derive_seed(seed, *labels))
