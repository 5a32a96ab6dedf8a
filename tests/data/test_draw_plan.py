from __future__ import annotations

import numpy as np

from sparing.data.draw_plan import Need, choose_counts, rest_weights, spread


def need(mastered: int, rest: int, candidates: int, confidence: float = 0.0, limit: int = 1000) -> Need:
    return Need(
        mastered=mastered,
        rest=rest,
        candidates=candidates,
        confidence=confidence,
        soft_limit=limit,
        hard_limit=limit,
    )


def chances(num: int, mastered: float) -> np.ndarray:
    return np.tile([mastered, 1 - mastered], (num, 1))


def test_spread_is_proportional_until_a_band_is_used_up() -> None:
    assert spread(12, np.array([1.0, 2.0, 1.0]), np.array([100, 100, 100])).tolist() == [3, 6, 3]
    # The second band gives its 2; the other two share the 10 left.
    assert spread(12, np.array([1.0, 2.0, 1.0]), np.array([100, 2, 100])).tolist() == [5, 2, 5]
    assert spread(12, np.array([1.0, 0.0, 1.0]), np.array([3, 9, 4])).tolist() == [3, 0, 4]


def test_sure_predictions_need_exactly_the_batch() -> None:
    assert choose_counts(chances(50, 1.0), chances(50, 0.0), need(6, 10, 16, confidence=2.0)) == (6, 10)


def test_expected_number_of_candidates_at_no_confidence() -> None:
    # 3 mastered at 0.75: 3 x 0.75 = 2.25 expects less than 2.5, 4 x 0.75 = 3 is enough; the failures serve the rest.
    num_m, num_r = choose_counts(chances(50, 0.75), chances(50, 0.0), need(3, 10, 13))
    assert (num_m, num_r) == (4, 9)


def test_more_confidence_draws_more() -> None:
    totals = [sum(choose_counts(chances(90, 0.7), chances(90, 0.1), need(10, 30, 40, c))) for c in (0.0, 1.0, 2.0)]
    assert totals == sorted(totals) and totals[0] < totals[2]


def test_surplus_mastered_candidates_replace_others_where_anyone_may_serve() -> None:
    # 6 wanted at 0.5 with high confidence: many more are drawn, but never more than the batch of 64 in all.
    num_m, num_r = choose_counts(chances(90, 0.5), chances(90, 0.0), need(6, 0, 64, confidence=2.5))
    assert num_m + num_r == 64
    assert 0.5 * num_m - 2.5 * np.sqrt(num_m * 0.25) >= 5.5 > 0.5 * (num_m - 1) - 2.5 * np.sqrt((num_m - 1) * 0.25)


def test_mastered_share_is_not_taken_out_of_an_unbiased_draw() -> None:
    # A uniform draw at base rate 0.9 would bring the 6 by itself.
    assert choose_counts(chances(90, 0.9), chances(90, 0.9), need(6, 0, 64, confidence=2.5)) == (6, 58)


def test_limits_hold() -> None:
    assert sum(choose_counts(chances(500, 0.3), chances(500, 0.7), need(90, 10, 20, 3.0, limit=25))) <= 25


def test_rest_draw_is_broad_when_cheap_and_narrow_when_it_costs() -> None:
    size = np.array([100, 100])
    good, poor = np.array([1.0, 0.9]), np.array([1.0, 0.5])
    nothing = np.zeros(2)
    broad = rest_weights(size, good, nothing, need(0, 100, 100), mastered_yield=0.9)
    narrow = rest_weights(size, poor, nothing, need(0, 100, 100), mastered_yield=0.9)
    assert broad[1] / broad[0] > 0.5
    assert narrow[1] / narrow[0] < 0.1
