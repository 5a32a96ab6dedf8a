"""Sec. 3: stop compression at the pre-collapse optimum, and say which checkpoint that was.

The rule of the paper is "the point where accuracy first shows a sustained decline while length is still falling". What
makes it hard is that validation accuracy is noisy and is looked at many times:

* The best of several equal checkpoints is the luckiest one, so everything after it looks like a decline.
* The bar that one comparison passes by chance one time in ten is passed by chance most of the time in twenty.

So a decline is measured problem by problem against a level that was *held* for `patience` validations, and the bar it
must exceed is read off validations of this very run, shuffled into runs whose accuracy does not change: it is what such
a run exceeds only with probability 1 - confidence in a whole stage, its reference chosen after the fact as here.

B simulated runs, P problems, T validations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sparing.errors import MethodError
from sparing.method import _checks
from sparing.types import FloatArray, IntArray

ONSET_DECLINE = 0.67
"""Standard errors below the reference, tolerance aside, from which a validation belongs to a decline established by later
ones: its accuracy is then lower with odds of three to one. It decides how far back a decline reached, not whether there
is one, except that the bar is never lower."""

SIMULATED_RUNS = 500
_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationPoint:
    """One validation of a fixed set of problems.

    `accuracy_P` is the share of correct responses of each problem, in [0, 1], shape (P,), in the same order every time;
    `length` is the mean response length in tokens.
    """

    step: int
    accuracy_P: FloatArray
    length: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Whether to stop, which validation's checkpoint to keep (an index into the points), and why.

    `evidence` holds plain numbers and lists: `accuracy`, `length` and `decline` (standard errors below the reference)
    of every point, `reference_steps`, `reference_accuracy`, `reference_length` and the `bar`.
    """

    stop: bool
    chosen: int
    reason: str
    evidence: dict[str, float | list[float]] = field(default_factory=dict)


def detect_pre_collapse(
    points: Sequence[ValidationPoint],
    *,
    patience: int,
    confidence: float,
    tolerance: float,
    rng: np.random.Generator,
    horizon: int = 20,
) -> Decision:
    """Sec. 3: stop at the first sustained decline of accuracy while length falls, and go back to before it began.

    `points` are all validations of the stage so far, the first one that of the checkpoint it started from.

    * Reference: the highest accuracy held on average over `patience` validations in a row (fewer at the start).
    * Decline of a later validation: the mean over problems of (reference - tolerance - accuracy), in standard errors of
      that paired difference.
    * Stop when each of the last `patience` validations has declined by more than the bar and is shorter than the
      reference. The bar is the `confidence` quantile of the largest such decline in runs of constant accuracy, drawn
      from each problem's own accuracies, with `horizon` validations (more if there are more).
    * Chosen: the last validation before the unbroken run of declined ones (`ONSET_DECLINE`) that leads to the stop.
      Without a stop it is the newest.

    Hence 1 - confidence bounds the chance that a stage of `horizon` validations is stopped although its accuracy does
    not fall. With 64 problems and 8 responses each, at patience 2 and confidence 0.9, over 20 validations: a constant
    accuracy is stopped in fewer than 14 % of stages, a fall by 2 points a validation is found in more than 95 %, and
    the chosen validation is then on average within 1.5 validations of the onset and less than 1 point worse than it.

    Raises `MethodError` when points do not share one set of problems or a parameter is out of range.
    """
    accuracy_TP = _check(points, patience, confidence, tolerance, horizon)
    newest = len(points) - 1
    if newest < patience:
        return Decision(
            stop=False, chosen=newest, reason=f"{len(points)} validations; a decline takes at least {patience + 1}"
        )
    declines, last_of_reference = _declines(accuracy_TP[:, None], patience, tolerance)
    decline, last = float(declines[-1, 0]), int(last_of_reference[-1, 0])
    reference = slice(max(last - patience + 1, 0), last + 1)
    reference_P = accuracy_TP[reference].mean(axis=0)
    declines_T = _standard_errors_below(reference_P[None], accuracy_TP[:, None], tolerance)[:, 0]
    lengths = [float(point.length) for point in points]
    reference_length = float(np.mean(lengths[reference]))
    bar = _bar(accuracy_TP, patience, confidence, max(horizon, len(points)), rng)
    evidence: dict[str, float | list[float]] = {
        "accuracy": [float(value) for value in accuracy_TP.mean(axis=1)],
        "length": lengths,
        "decline": [float(value) for value in declines_T],
        "bar": bar,
        "reference_steps": [float(point.step) for point in points[reference]],
        "reference_accuracy": float(reference_P.mean()),
        "reference_length": reference_length,
    }
    if decline <= bar:
        reason = f"no sustained decline: {decline:.2f} standard errors, the bar is {bar:.2f}"
        return Decision(stop=False, chosen=newest, reason=reason, evidence=evidence)
    if max(lengths[-patience:]) >= reference_length:
        reason = f"accuracy declines, but length does not fall: not over-compression ({decline:.2f} standard errors)"
        return Decision(stop=False, chosen=newest, reason=reason, evidence=evidence)

    chosen = newest - patience
    while chosen > last and declines_T[chosen] > ONSET_DECLINE:
        chosen -= 1
    reason = (
        f"accuracy of the last {patience} validations is at least {decline:.2f} standard errors below "
        f"{reference_P.mean():.3f} (bar {bar:.2f}) while length falls; the decline began after step {points[chosen].step}"
    )
    return Decision(stop=True, chosen=chosen, reason=reason, evidence=evidence)


def _declines(accuracy_TBP: FloatArray, patience: int, tolerance: float) -> tuple[FloatArray, IntArray]:
    """For every look with a full tail: the smallest decline in the tail, and the last validation of its reference.

    Row i of both results, shape (looks, B), is the look at which validation `patience + i` is the newest. Time comes
    first in memory: every step of the loop then reads whole contiguous validations.
    """
    num_points, num_runs, num_problems = accuracy_TBP.shape
    best_B = np.full(num_runs, -np.inf)
    reference_BP = np.zeros((num_runs, num_problems))
    last_B = np.zeros(num_runs, dtype=np.int64)
    smallest, lasts = [], []
    for newest in range(patience, num_points):
        last = newest - patience
        held_BP = accuracy_TBP[max(last - patience + 1, 0) : last + 1].mean(axis=0)
        held_B = held_BP.mean(axis=1)
        # Of equal levels the later one: it is the more compressed. A level that had too few validations gives way.
        better_B = (held_B >= best_B) | (last < patience)
        best_B = np.where(better_B, held_B, best_B)
        reference_BP = np.where(better_B[:, None], held_BP, reference_BP)
        last_B = np.where(better_B, last, last_B)
        tail_TBP = accuracy_TBP[last + 1 : newest + 1]
        smallest.append(_standard_errors_below(reference_BP, tail_TBP, tolerance).min(axis=0))
        lasts.append(last_B)
    return np.stack(smallest), np.stack(lasts)


def _standard_errors_below(reference_BP: FloatArray, accuracy_TBP: FloatArray, tolerance: float) -> FloatArray:
    """Paired decline in standard errors, shape (T, B)."""
    difference_TBP = reference_BP - accuracy_TBP
    mean_TB = difference_TBP.mean(axis=2) - tolerance
    variance_TB = difference_TBP.var(axis=2, ddof=1) / difference_TBP.shape[2]
    # Where all problems changed alike there is no spread to divide by; the floor keeps 0 / 0 at 0 and the rest finite.
    return np.asarray(mean_TB / np.sqrt(np.maximum(variance_TB, 1e-12)))


def _bar(accuracy_TP: FloatArray, patience: int, confidence: float, horizon: int, rng: np.random.Generator) -> float:
    """The decline that a run of constant accuracy exceeds within `horizon` validations with chance 1 - confidence."""
    num_points, num_problems = accuracy_TP.shape
    chunk = max(1, _CHUNK_VALUES // (num_problems * horizon))
    largest = []
    for start in range(0, SIMULATED_RUNS, chunk):
        shape = (horizon, min(chunk, SIMULATED_RUNS - start), num_problems)
        drawn = rng.integers(0, num_points, size=shape)
        simulated_TBP = accuracy_TP[drawn, np.arange(num_problems)]
        largest.append(_declines(simulated_TBP, patience, 0.0)[0].max(axis=0))
    return max(float(np.quantile(np.concatenate(largest), confidence)), ONSET_DECLINE)


def _check(
    points: Sequence[ValidationPoint], patience: int, confidence: float, tolerance: float, horizon: int
) -> FloatArray:
    if not points:
        raise MethodError("points is empty; validate the checkpoint a stage starts from before its first step")
    if patience < 1:
        raise MethodError(f"patience is {patience}; a decline takes at least 1 validation")
    if horizon <= patience:
        raise MethodError(f"horizon is {horizon}; it must exceed patience ({patience})")
    _checks.within("confidence", confidence, 0.5, 1.0, open_low=True, open_high=True)
    _checks.within("tolerance", tolerance, 0.0, 1.0, open_high=True)
    rows = [_checks.numbers(f"accuracy_P of step {point.step}", point.accuracy_P, 1) for point in points]
    if len({row.size for row in rows}) > 1:
        raise MethodError(f"points hold {sorted({row.size for row in rows})} problems; validate one fixed set")
    if rows[0].size < 2:
        raise MethodError("accuracy_P holds 1 problem; paired statistics need at least 2, validate more problems")
    accuracy_TP = np.stack(rows)
    if (accuracy_TP < 0).any() or (accuracy_TP > 1).any():
        raise MethodError("accuracy_P must lie in [0, 1]; pass the share of correct responses of each problem")
    return accuracy_TP
