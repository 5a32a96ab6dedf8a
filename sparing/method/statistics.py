"""What is reported of a checkpoint and of a pair of them: avg@k, pass@k, relative length, paired intervals, word rates.

P problems, K responses of each; base and final may have different K.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparing.errors import MethodError
from sparing.method import _checks
from sparing.types import FloatArray

_CHUNK_VALUES = 4_000_000
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_PIECE = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An estimate with the percentile interval of its bootstrap."""

    value: float
    low: float
    high: float


def avg_at_k(correct_PK: ArrayLike) -> float:
    """Sec. 4.1: avg@k, the mean over problems of the share of their k responses that are correct."""
    return float(_checks.binary("correct_PK", correct_PK, 2).mean(axis=1).mean())


def pass_at_k(correct_PK: ArrayLike, k: int) -> float:
    """pass@k: the chance that at least one of k responses is correct, mean over problems, unbiased.

    1 - C(K - c, k) / C(K, k) for a problem with c of K correct (Chen et al. 2021, arXiv 2107.03374, Eq. 1).
    Raises `MethodError` when k exceeds K.
    """
    correct_PK = _checks.binary("correct_PK", correct_PK, 2)
    num_responses = correct_PK.shape[1]
    if not 1 <= k <= num_responses:
        raise MethodError(f"k is {k}; with {num_responses} responses a problem it must lie in 1..{num_responses}")
    wrong_P = num_responses - correct_PK.sum(axis=1)
    # C(w, k) / C(K, k) as a product, which no K can overflow; a factor is 0 as soon as k exceeds the wrong ones.
    drawn = np.arange(k)
    none_correct_P = np.prod(np.maximum(wrong_P[:, None] - drawn, 0) / (num_responses - drawn), axis=1)
    return float((1.0 - none_correct_P).mean())


def mean_length(lengths_PK: ArrayLike) -> float:
    """Mean over problems of their mean response length, in tokens."""
    return float(_checks.lengths("lengths_PK", lengths_PK, 2).mean(axis=1).mean())


def relative_length(base_lengths_PK: ArrayLike, final_lengths_PK: ArrayLike) -> float:
    """Mean length of final divided by that of base, over the same problems: 0.4 means 60 % shorter.

    A ratio of means, so a problem counts by the tokens it costs; a mean of ratios would be ruled by short problems.
    """
    base, final = _pair("lengths_PK", base_lengths_PK, final_lengths_PK)
    return mean_length(final) / _positive(mean_length(base))


def accuracy_interval(
    correct_PK: ArrayLike, *, rng: np.random.Generator, confidence: float = 0.95, resamples: int = 2000
) -> Interval:
    """avg@k with its nested bootstrap interval (see `delta_accuracy_interval`)."""
    values = _checks.binary("correct_PK", correct_PK, 2).astype(np.float64)
    draws = _nested_means([values], rng, resamples, responses=True)[0]
    return _interval(avg_at_k(correct_PK), draws, confidence)


def delta_accuracy_interval(
    base_correct_PK: ArrayLike,
    final_correct_PK: ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
    responses: bool = True,
) -> Interval:
    """Final minus base avg@k, with its paired nested bootstrap interval.

    Each resample draws problems with replacement, the same ones for base and final, and then, of each drawn problem,
    its responses with replacement, independently for base and final.

    Drawing responses again counts their noise twice, since the observed means of the drawn problems carry it already:
    the interval covers more often than `confidence` says, the more so the fewer responses a problem has.
    `responses=False` draws problems only, with all their responses, and covers as often as it says.
    """
    base, final = _pair("correct_PK", base_correct_PK, final_correct_PK, check=_checks.binary)
    draws_base, draws_final = _nested_means([base, final], rng, resamples, responses)
    return _interval(float(final.mean() - base.mean()), draws_final - draws_base, confidence)


def relative_length_interval(
    base_lengths_PK: ArrayLike,
    final_lengths_PK: ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
    responses: bool = True,
) -> Interval:
    """`relative_length` with its paired nested bootstrap interval, drawn as in `delta_accuracy_interval`."""
    base, final = _pair("lengths_PK", base_lengths_PK, final_lengths_PK)
    value = relative_length(base, final)
    draws_base, draws_final = _nested_means([base, final], rng, resamples, responses)
    # A resample whose base responses are all empty has no ratio; the largest finite number keeps it on the high side.
    tiny = np.finfo(np.float64).tiny
    return _interval(value, draws_final / np.maximum(draws_base, tiny), confidence)


def word_counts(texts: Sequence[str], words: Sequence[str]) -> dict[str, int]:
    """How often each of `words` occurs in `texts`, as a whole word, whatever its case (Fig. 8, right)."""
    counts = {word.lower(): 0 for word in words}
    for text in texts:
        for match in _WORD.findall(text.lower()):
            if match in counts:
                counts[match] += 1
    return {word: counts[word.lower()] for word in words}


def word_rates(texts: Sequence[str], words: Sequence[str]) -> dict[str, float]:
    """Occurrences of each of `words` per 1,000 words of `texts` (Fig. 8, left); 0 where there are no words."""
    total = sum(len(_WORD.findall(text)) for text in texts)
    return {word: 1000.0 * count / max(total, 1) for word, count in word_counts(texts, words).items()}


def instant_share(thinking_lengths_R: ArrayLike, threshold: float, correct_R: ArrayLike | None = None) -> float:
    """Sec. 5, failure mode: the share of responses that think for at most `threshold` tokens.

    With `correct_R` only wrong ones count: the collapsed model answers at once and wrongly, while a problem that needs
    no thinking is answered at once and rightly. Shapes (R,) over any set of responses.
    """
    instant = _checks.lengths("thinking_lengths_R", thinking_lengths_R) <= threshold
    if correct_R is not None:
        correct = _checks.binary("correct_R", correct_R)
        _checks.same_shape(thinking_lengths_R=instant, correct_R=correct)
        instant = instant & ~correct
    return float(instant.mean())


def repetition_share(
    texts: Sequence[str], *, max_period: int = 32, min_repeats: int = 5, min_pieces: int = 24
) -> float:
    """Sec. 4.2: the share of texts with a meaningless repeated pattern, in the middle or at the end.

    A text counts when up to `max_period` pieces (words, numbers or single signs) come back to back at least
    `min_repeats` times and cover at least `min_pieces` pieces.
    """
    if not texts:
        raise MethodError("texts is empty; pass at least one response")
    return sum(_repeats(text, max_period, min_repeats, min_pieces) for text in texts) / len(texts)


def _repeats(text: str, max_period: int, min_repeats: int, min_pieces: int) -> bool:
    pieces = _PIECE.findall(text)
    numbering: dict[str, int] = {}
    ids = np.array([numbering.setdefault(piece, len(numbering)) for piece in pieces], dtype=np.int64)
    for period in range(1, max_period + 1):
        # A pattern of p pieces that repeats m times is a run of (m - 1) * p pieces equal to the one p before.
        needed = max(min_repeats * period, min_pieces) - period
        if ids.size < needed + period:
            continue
        unequal = np.flatnonzero(ids[period:] != ids[:-period])
        edges = np.concatenate([[-1], unequal, [ids.size - period]])
        if int(np.diff(edges).max()) - 1 >= needed:
            return True
    return False


def _nested_means(
    tables: Sequence[FloatArray], rng: np.random.Generator, resamples: int, responses: bool
) -> list[FloatArray]:
    """Means over problems of resampled problem means, one array of (resamples,) a table; problems drawn jointly."""
    if resamples < 100:
        raise MethodError(f"resamples is {resamples}; a percentile interval needs at least 100")
    num_problems = tables[0].shape[0]
    chunk = max(1, _CHUNK_VALUES // (num_problems * max(table.shape[1] for table in tables)))
    parts: list[list[FloatArray]] = [[] for _ in tables]
    for start in range(0, resamples, chunk):
        drawn_RP = rng.integers(0, num_problems, size=(min(chunk, resamples - start), num_problems), dtype=np.int32)
        for table, part in zip(tables, parts, strict=True):
            part.append(
                _resampled_mean(table, drawn_RP, rng) if responses else table.mean(axis=1)[drawn_RP].mean(axis=1)
            )
    return [np.concatenate(part) for part in parts]


def _resampled_mean(table_PK: FloatArray, drawn_RP: NDArray[np.int32], rng: np.random.Generator) -> FloatArray:
    """Mean over drawn problems of the mean of responses drawn from each, shape (R,)."""
    num_responses = table_PK.shape[1]
    first_RP = drawn_RP * np.int32(num_responses)
    total_R = np.zeros(drawn_RP.shape[0])
    flat = table_PK.ravel()
    for _ in range(num_responses):
        # uint8 draws where they suffice: numpy makes them four times as fast as int64 ones.
        dtype = np.uint8 if num_responses <= 256 else np.int32
        total_R += flat[first_RP + rng.integers(0, num_responses, size=drawn_RP.shape, dtype=dtype)].sum(axis=1)
    return np.asarray(total_R / (drawn_RP.shape[1] * num_responses))


def _interval(value: float, draws_R: FloatArray, confidence: float) -> Interval:
    _checks.within("confidence", confidence, 0.0, 1.0, open_low=True, open_high=True)
    low, high = np.quantile(draws_R, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value=value, low=float(low), high=float(high))


def _pair(
    name: str, base: ArrayLike, final: ArrayLike, check: Callable[[str, ArrayLike, int], np.ndarray] = _checks.lengths
) -> tuple[FloatArray, FloatArray]:
    first = check(f"base_{name}", base, 2).astype(np.float64)
    second = check(f"final_{name}", final, 2).astype(np.float64)
    if first.shape[0] != second.shape[0]:
        raise MethodError(
            f"base has {first.shape[0]} problems and final {second.shape[0]}; pass the same problems in the same order"
        )
    return first, second


def _positive(length: float) -> float:
    if length <= 0:
        raise MethodError("base_lengths_PK are all 0; a relative length needs base responses that are not empty")
    return length
