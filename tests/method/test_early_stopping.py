"""Simulated validations: P problems, k responses each, with the sampling noise that real ones have."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sparing.errors import MethodError
from sparing.method import ValidationPoint, detect_pre_collapse
from sparing.method.early_stopping import _declines

NUM_PROBLEMS, NUM_RESPONSES, NUM_POINTS = 64, 8, 21
FAR_BELOW_THE_BAR = 1.5


def validations(true_TP, rng, num_responses=NUM_RESPONSES, slope=-10.0):
    """Validations every 10 steps of a stage whose problems truly have these accuracies."""
    drawn_TP = rng.binomial(num_responses, true_TP) / num_responses
    return [
        ValidationPoint(step=10 * index, accuracy_P=row, length=1000 + slope * index)
        for index, row in enumerate(drawn_TP)
    ]


def difficulties(rng, num_problems=NUM_PROBLEMS):
    """True accuracies with mean 0.65, many near 0 and 1, as benchmarks have them."""
    return rng.beta(1.5, 0.8, num_problems)


def falling(accuracy_P, onset, points_lost, num_points=NUM_POINTS):
    """Constant up to validation `onset`, then mean accuracy loses `points_lost` a validation."""
    lost_T = np.maximum(np.arange(num_points) - onset, 0) * points_lost / accuracy_P.mean()
    return accuracy_P * np.clip(1 - lost_T, 0, 1)[:, None]


def decide(points, rng=None, patience=2, confidence=0.9, tolerance=0.0):
    rng = rng or np.random.default_rng(0)
    return detect_pre_collapse(points, patience=patience, confidence=confidence, tolerance=tolerance, rng=rng)


def run_stage(points, rng, **settings):
    """Validate one by one, as a stage does; the number of validations at the stop and the decision, or None."""
    accuracy_TP = np.stack([point.accuracy_P for point in points])
    patience, tolerance = settings.get("patience", 2), settings.get("tolerance", 0.0)
    decline_T = _declines(accuracy_TP[:, None], patience, tolerance)[0][:, 0]
    for newest in range(patience, len(points)):
        # Looks far below every bar are left out, to save time; the bars seen must confirm that they were.
        if decline_T[newest - patience] <= FAR_BELOW_THE_BAR:
            continue
        decision = decide(points[: newest + 1], rng, **settings)
        assert decision.evidence["bar"] > FAR_BELOW_THE_BAR + 0.2
        if decision.stop:
            return newest, decision
    return None


def test_constant_accuracy_is_rarely_stopped_in_a_whole_stage() -> None:
    rng = np.random.default_rng(0)
    stops = 0
    for _ in range(150):
        true_TP = np.tile(difficulties(rng), (NUM_POINTS, 1))
        stops += run_stage(validations(true_TP, rng), rng) is not None
    # 1 - confidence is 0.1; three binomial standard deviations of 150 stages are 0.07. The docstring says 0.14.
    assert stops / 150 < 0.14


def test_comparing_raw_dips_with_the_best_so_far_would_stop_most_stages() -> None:
    """Why the bar is not 1.28, the 90 % point of one comparison: this is the false-stop rate it would have."""
    rng = np.random.default_rng(0)
    stops = 0
    for _ in range(150):
        true_TP = np.tile(difficulties(rng), (NUM_POINTS, 1))
        drawn_TP = rng.binomial(NUM_RESPONSES, true_TP) / NUM_RESPONSES
        stops += bool((_declines(drawn_TP[:, None], 2, 0.0)[0] > 1.28).any())
    assert stops / 150 > 0.5


def test_a_real_decline_is_found_and_its_onset_placed() -> None:
    rng = np.random.default_rng(1)
    onset, errors, losses, early = 8, [], [], 0
    for _ in range(60):
        true_TP = falling(difficulties(rng), onset, 0.02)
        stopped = run_stage(validations(true_TP, rng), rng)
        if stopped is None:
            continue
        newest, decision = stopped
        early += newest <= onset
        errors.append(decision.chosen - onset)
        losses.append(true_TP[onset].mean() - true_TP[decision.chosen].mean())
    assert len(errors) / 60 > 0.95
    assert early / 60 < 0.1
    assert np.mean(np.abs(errors)) < 1.5
    assert np.mean(losses) < 0.01


def test_more_responses_find_smaller_declines_sooner() -> None:
    rng = np.random.default_rng(2)
    found_at = {8: [], 32: []}
    for _ in range(15):
        true_TP = falling(difficulties(rng), 6, 0.02)
        for num_responses, found in found_at.items():
            stopped = run_stage(validations(true_TP, rng, num_responses), rng)
            found.append(stopped[0] if stopped else NUM_POINTS)
    assert np.mean(found_at[32]) < np.mean(found_at[8])


def test_collapse_by_hand() -> None:
    # 20 problems, half of them solved; from validation 3 on all fail. The last good validation is number 2.
    good, bad = np.repeat([1.0, 0.5], 10), np.zeros(20)
    points = [
        ValidationPoint(step=10 * index, accuracy_P=row, length=length)
        for index, (row, length) in enumerate(zip([good, good, good, bad, bad], [900, 800, 700, 300, 20], strict=True))
    ]
    assert not decide(points[:4]).stop  # one bad validation is not a sustained decline
    decision = decide(points)
    assert decision.stop
    assert decision.chosen == 2
    assert decision.evidence["reference_steps"] == [10, 20]
    assert decision.evidence["reference_accuracy"] == 0.75
    assert decision.evidence["reference_length"] == 750
    assert decision.evidence["accuracy"] == [0.75, 0.75, 0.75, 0.0, 0.0]
    assert "step 20" in decision.reason


def test_a_decline_without_shorter_responses_is_not_over_compression() -> None:
    true_TP = falling(np.full(64, 0.8), 4, 0.1, num_points=8)
    shorter = decide(validations(true_TP, np.random.default_rng(0), slope=-10))
    longer = decide(validations(true_TP, np.random.default_rng(0), slope=10))
    assert shorter.stop
    assert not longer.stop
    assert "length does not fall" in longer.reason
    assert longer.chosen == 7


def test_length_that_has_reached_its_floor_still_counts_as_fallen() -> None:
    good, bad = np.full(30, 0.8), np.repeat([0.0, 0.1], 15)
    points = [
        ValidationPoint(step=index, accuracy_P=row, length=length)
        for index, (row, length) in enumerate([(good, 500), (good, 400), (bad, 5), (bad, 5)])
    ]
    assert decide(points).chosen == 1
    assert decide(points).stop


def test_a_dip_that_recovers_does_not_stop() -> None:
    good, dip = np.full(64, 0.8), np.repeat([0.3, 0.5], 32)
    points = [
        ValidationPoint(step=index, accuracy_P=row, length=100 - index)
        for index, row in enumerate([good, good, dip, good, dip, good])
    ]
    assert not any(decide(points[:size]).stop for size in range(1, 7))


def test_rising_accuracy_never_stops_and_the_reference_follows_it() -> None:
    rng = np.random.default_rng(3)
    rising_TP = difficulties(rng) * np.linspace(0.6, 1.0, NUM_POINTS)[:, None]
    points = validations(rising_TP, rng, num_responses=32)
    assert not any(decide(points[:size]).stop for size in range(1, NUM_POINTS + 1))
    assert min(decide(points).evidence["reference_steps"]) >= 120


def test_a_decline_after_a_rise_is_measured_from_the_top() -> None:
    rng = np.random.default_rng(4)
    level_T = np.concatenate([np.linspace(0.6, 0.9, 8), np.linspace(0.85, 0.6, 6)])
    points = validations(np.tile(level_T[:, None], (1, 64)), rng, num_responses=32)
    # At the end accuracy is where it began; the mean of the past would see no decline.
    newest, decision = run_stage(points, rng)
    assert newest <= 11
    assert 6 <= decision.chosen <= 8


def test_tolerance_accepts_a_small_decline() -> None:
    rng = np.random.default_rng(5)
    level_T = np.array([0.8] * 5 + [0.76] * 6)
    points = validations(np.tile(level_T[:, None], (1, 200)), rng, num_responses=64)
    assert decide(points).stop
    assert not decide(points, tolerance=0.05).stop


def test_without_any_change_there_is_no_decline() -> None:
    points = [ValidationPoint(step=index, accuracy_P=np.ones(8), length=50 - index) for index in range(6)]
    decision = decide(points)
    assert not decision.stop
    assert decision.evidence["decline"] == [0.0] * 6


def test_too_few_validations() -> None:
    points = [ValidationPoint(step=index, accuracy_P=np.full(8, 0.5), length=50 - index) for index in range(2)]
    for size in (1, 2):
        decision = decide(points[:size])
        assert (decision.stop, decision.chosen, decision.evidence) == (False, size - 1, {})


def test_the_same_generator_state_gives_the_same_decision_and_evidence_is_json() -> None:
    points = validations(falling(np.full(32, 0.8), 3, 0.08, num_points=8), np.random.default_rng(6))
    first, second = decide(points, np.random.default_rng(9)), decide(points, np.random.default_rng(9))
    assert first == second
    assert json.loads(json.dumps(first.evidence, allow_nan=False)) == first.evidence


@pytest.mark.parametrize(
    ("points", "settings", "named"),
    [
        ([], {}, "empty"),
        ([([0.5, 0.5], 3)], {"patience": 0}, "patience is 0"),
        ([([0.5, 0.5], 3)], {"confidence": 1.0}, "confidence is 1"),
        ([([0.5, 0.5], 3)], {"tolerance": -0.1}, r"tolerance is -0\.1"),
        ([([0.5, 0.5], 3), ([0.5], 3)], {}, r"\[1, 2\] problems"),
        ([([0.5], 3)], {}, "1 problem"),
        ([([0.5, 1.5], 3)], {}, r"\[0, 1\]"),
        ([([0.5, float("nan")], 3)], {}, "nan"),
    ],
)
def test_bad_input_names_the_value(points, settings, named) -> None:
    records = [
        ValidationPoint(step=index, accuracy_P=np.array(accuracy), length=length)
        for index, (accuracy, length) in enumerate(points)
    ]
    with pytest.raises(MethodError, match=named):
        decide(records, **settings)
