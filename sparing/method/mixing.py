"""Sec. 3 and 4.1: which candidate groups make up a training batch. G candidate groups."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import MethodError
from sparing.method import _checks
from sparing.types import BoolArray, FloatArray, IntArray

Rest = Literal["all", "unmastered", "partial"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MixturePlan:
    """Indices into the candidates, ascending in each share; only `compress` is trained with the length penalty.

    `missing_compress` and `missing_rest` count the places of either share that its own pool could not fill (and another
    did, where there were candidates); `shortage` says so in words and is empty when nothing is missing.
    """

    compress: IntArray
    capability: IntArray
    missing_compress: int
    missing_rest: int
    shortage: str

    @property
    def indices(self) -> IntArray:
        """The whole batch, compression share first."""
        return np.concatenate([self.compress, self.capability])


def quota(batch_size: int, rho: float) -> tuple[int, int]:
    """Sec. 3: `(num_mastered, num_rest)`, rho and 1 - rho of the batch in whole problems.

    Halves round up, and each share has at least 1 problem in a batch of 2 or more, since a share of 0 would switch
    compression or capability training off. 256 problems at rho = 0.1 are 26 and 230.
    """
    if batch_size < 1:
        raise MethodError(f"batch_size is {batch_size}; a batch holds at least 1 problem")
    _checks.within("rho", rho, 0.0, 1.0, open_low=True, open_high=True)
    # Decimal, since 0.145 * 100 is 14.499999999999998 in binary and would round down.
    num_mastered = int((Decimal(repr(float(rho))) * batch_size).quantize(Decimal(1), rounding=ROUND_HALF_UP))
    if batch_size >= 2:
        num_mastered = min(max(num_mastered, 1), batch_size - 1)
    return num_mastered, batch_size - num_mastered


def plan_mixture(
    mastered: ArrayLike,
    pass_rates_G: ArrayLike,
    *,
    rho: float,
    batch_size: int,
    rest: Rest,
    rng: np.random.Generator,
    compressible: ArrayLike | None = None,
) -> MixturePlan:
    """Sec. 3: a batch with a share rho of mastered groups for compression and 1 - rho of the rest.

    `mastered` is the gate of each candidate, shape (G,), `pass_rates_G` its pass rate. `compressible` restricts which
    mastered candidates may enter the compression share (default: all). `rest` says whose the other share is: "all"
    candidates (Sec. 4, which keeps pass rates 0 and 1), "unmastered" ones (Sec. 3) or 0 < pass rate < 1 (Sec. 5).

    The plan holds exactly `batch_size` groups whenever there are that many candidates, and all of them otherwise. What
    one pool lacks the other fills, always without a penalty: the penalised share never exceeds its quota. Under
    "partial" pass rate 0 fills before mastered groups do. Choices among equals are uniform, by `rng`.
    """
    mastered_G = _checks.binary("mastered", mastered)
    rates_G = _checks.numbers("pass_rates_G", pass_rates_G, 1)
    allowed_G = np.ones_like(mastered_G) if compressible is None else _checks.binary("compressible", compressible)
    _checks.same_shape(mastered=mastered_G, pass_rates_G=rates_G, compressible=allowed_G)
    _checks.one_of("rest", rest, ("all", "unmastered", "partial"))
    if ((rates_G < 0) | (rates_G > 1)).any() or (mastered_G & (rates_G < 1)).any():
        raise MethodError("pass_rates_G must lie in [0, 1] and be 1 where mastered; take both from the same rollouts")

    num_mastered, num_rest = quota(batch_size, rho)
    pool = np.flatnonzero(mastered_G & allowed_G)
    compress = np.sort(rng.permutation(pool)[:num_mastered])
    tier_G = _tiers(mastered_G, rates_G, rest)
    others = rng.permutation(np.setdiff1d(np.arange(mastered_G.size), compress))
    others = others[np.argsort(tier_G[others], kind="stable")]
    capability = np.sort(others[: batch_size - compress.size])

    missing_compress = num_mastered - compress.size
    missing_rest = max(num_rest - int((tier_G[capability] == 0).sum()), 0)
    missing_groups = batch_size - compress.size - capability.size
    return MixturePlan(
        compress=compress.astype(np.int64),
        capability=capability.astype(np.int64),
        missing_compress=missing_compress,
        missing_rest=missing_rest,
        shortage=_shortage(missing_compress, num_mastered, missing_rest, num_rest, missing_groups),
    )


def _tiers(mastered_G: BoolArray, rates_G: FloatArray, rest: Rest) -> IntArray:
    """In which order candidates enter the capability share: 0 is its own pool, higher ones only fill."""
    if rest == "all":
        return np.zeros(mastered_G.size, dtype=np.int64)
    if rest == "unmastered":
        return mastered_G.astype(np.int64)
    partial_G = (rates_G > 0) & (rates_G < 1)
    return np.where(partial_G, 0, np.where(mastered_G, 2, 1)).astype(np.int64)


def _shortage(missing_compress: int, num_mastered: int, missing_rest: int, num_rest: int, missing_groups: int) -> str:
    parts = []
    if missing_compress:
        parts.append(f"{missing_compress} of {num_mastered} mastered problems")
    if missing_rest:
        parts.append(f"{missing_rest} of {num_rest} other problems")
    if missing_groups:
        parts.append(f"{missing_groups} problems of the batch")
    return f"missing {' and '.join(parts)}" if parts else ""
