from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparing.errors import MethodError
from sparing.method import (
    accuracy_interval,
    avg_at_k,
    delta_accuracy_interval,
    instant_share,
    mean_length,
    pass_at_k,
    relative_length,
    relative_length_interval,
    repetition_share,
    word_counts,
    word_rates,
)


def seeded(seed=0):
    return np.random.default_rng(seed)


def test_avg_at_k_by_hand() -> None:
    assert avg_at_k([[1, 1, 0, 0], [1, 1, 1, 1]]) == 0.75


def test_pass_at_k_by_hand() -> None:
    # 1 of 4 correct: two drawn miss it with chance C(3, 2) / C(4, 2) = 3 / 6. 3 of 4: two always hit one.
    assert pass_at_k([[1, 0, 0, 0]], 2) == pytest.approx(0.5)
    assert pass_at_k([[1, 1, 1, 0], [0, 0, 0, 0]], 2) == pytest.approx(0.5)
    assert pass_at_k(np.eye(1, 2000), 1000) == pytest.approx(0.5)  # binomials of 2000 overflow floats


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5))
def test_pass_at_k_is_avg_at_one_and_any_at_all(correct) -> None:
    assert pass_at_k(correct, 1) == pytest.approx(avg_at_k(correct))
    assert pass_at_k(correct, 6) == pytest.approx(np.mean([any(row) for row in correct]))
    values = [pass_at_k(correct, k) for k in range(1, 7)]
    assert (np.diff(values) >= -1e-12).all()


def test_relative_length_is_a_ratio_of_means() -> None:
    base, final = [[100, 300], [1000, 1000]], [[100, 100], [500, 500]]
    assert mean_length(base) == 600.0
    assert relative_length(base, final) == pytest.approx(300 / 600)
    # k may differ between the two; a problem still counts once.
    assert relative_length(base, [[100], [500]]) == pytest.approx(0.5)


def test_intervals_enclose_their_estimate_and_are_reproducible() -> None:
    rng = seeded()
    base, final = rng.random((50, 8)) < 0.6, rng.random((50, 4)) < 0.7
    interval = delta_accuracy_interval(base, final, rng=seeded(1))
    assert interval.value == pytest.approx(avg_at_k(final) - avg_at_k(base))
    assert interval.low < interval.value < interval.high
    assert interval == delta_accuracy_interval(base, final, rng=seeded(1))
    single = accuracy_interval(base, rng=seeded(1))
    assert single.low < avg_at_k(base) < single.high
    wider = delta_accuracy_interval(base, final, rng=seeded(1), confidence=0.99)
    assert wider.low < interval.low
    assert wider.high > interval.high


def test_equal_constant_tables_have_intervals_of_no_width() -> None:
    ones = np.ones((5, 3))
    assert delta_accuracy_interval(ones, ones, rng=seeded()).low == 0.0
    interval = relative_length_interval(200 * ones, 50 * ones, rng=seeded())
    assert (interval.low, interval.value, interval.high) == (0.25, 0.25, 0.25)


def test_problems_are_drawn_jointly() -> None:
    # Lengths differ a thousandfold between problems, and every one is halved exactly: only a paired interval knows.
    base = np.repeat(np.logspace(1, 4, 30)[:, None], 4, axis=1)
    interval = relative_length_interval(base, base / 2, rng=seeded())
    assert interval.low == pytest.approx(0.5)
    assert interval.high == pytest.approx(0.5)


def test_nested_spread_by_formula() -> None:
    # Variance of a nested bootstrap mean: problems' means, var(means) / P, and the responses drawn inside,
    # mean over problems of var(inside) / (K * P).
    rng = seeded(3)
    table = rng.gamma(2.0, rng.lognormal(0, 1, (40, 1)) * 100, (40, 5))
    constant = np.full((40, 5), 1000.0)
    expected = np.sqrt((table.mean(axis=1).var() + table.var(axis=1).mean() / 5) / 40)
    interval = relative_length_interval(constant, table, rng=seeded(4), confidence=0.6827, resamples=20_000)
    assert (interval.high - interval.low) / 2 * 1000 == pytest.approx(expected, rel=0.03)


def simulated_pair(rng, num_problems=100, num_responses=8):
    """Problems drawn from a population whose true change in accuracy and ratio of lengths are known."""
    easy_P, hard_P = rng.random(num_problems) < 0.5, rng.random(num_problems) < 0.2
    before_P, after_P = np.where(easy_P, 0.9, 0.4), np.where(easy_P, 0.9, 0.4) - np.where(hard_P, 0.2, 0.0)
    tokens_P = rng.lognormal(7, 0.7, num_problems)
    shape = (num_problems, num_responses)
    return (
        rng.random(shape) < before_P[:, None],
        rng.random(shape) < after_P[:, None],
        rng.gamma(4.0, tokens_P[:, None] / 4, shape),
        rng.gamma(4.0, 0.6 * tokens_P[:, None] / 4, shape),
    )


def test_coverage_of_the_95_percent_intervals() -> None:
    """Over 200 pairs of runs. Nested draws cover more than 95 %, draws of problems only about 95 %."""
    rng = seeded(5)
    covered = {True: np.zeros(2), False: np.zeros(2)}
    for _ in range(200):
        base, final, base_lengths, final_lengths = simulated_pair(rng)
        for responses, counts in covered.items():
            settings = {"rng": rng, "resamples": 300, "responses": responses}
            delta = delta_accuracy_interval(base, final, **settings)
            ratio = relative_length_interval(base_lengths, final_lengths, **settings)
            counts += [delta.low <= -0.04 <= delta.high, ratio.low <= 0.6 <= ratio.high]
    # Three binomial standard deviations of 200 at 95 % are 4.6 %.
    assert (np.abs(covered[False] / 200 - 0.95) < 0.046).all()
    assert (covered[True] / 200 > 0.96).all()


def test_ten_thousand_resamples_of_200_problems_by_8_are_quick() -> None:
    rng = seeded(6)
    base, final = rng.integers(1, 9000, (200, 8)), rng.integers(1, 5000, (200, 8))
    started = time.process_time()
    relative_length_interval(base, final, rng=rng, resamples=10_000)
    assert time.process_time() - started < 2.0


def test_word_counts_and_rates() -> None:
    texts = ["But x = 2, BUT not 3.", "However, butter is fine; let's wait... wait"]
    assert word_counts(texts, ["but", "However", "wait", "so"]) == {"but": 2, "However": 1, "wait": 2, "so": 0}
    # Words: But x BUT not | However butter is fine let's wait wait: 11 of them; numbers are not words.
    assert word_rates(texts, ["but"]) == {"but": pytest.approx(1000 * 2 / 11)}
    assert word_rates([""], ["but"]) == {"but": 0.0}


def test_instant_share() -> None:
    lengths, correct = [0, 3, 10, 500], [1, 0, 0, 0]
    assert instant_share(lengths, 10) == 0.75
    assert instant_share(lengths, 10, correct) == 0.5


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("So the answer is 4. " * 5, True),  # 6 pieces, 5 times: 30 pieces
        ("First we add. " + "wait " * 24 + "and then go on.", True),  # in the middle
        ("wait " * 23, False),  # too short to matter
        ("So the answer is 4. " * 4, False),  # 24 pieces, but only 4 times
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27", False),
        ("", False),
    ],
)
def test_repetition(text, repeats) -> None:
    assert repetition_share([text]) == float(repeats)
    assert repetition_share([text, "A short answer."]) == repeats / 2


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: avg_at_k([1, 0]), r"\(2,\)"),
        (lambda: avg_at_k([[1, 0], [1]]), "rectangular"),
        (lambda: pass_at_k([[1, 0]], 3), "k is 3"),
        (lambda: relative_length([[0]], [[1]]), "all 0"),
        (lambda: relative_length([[1], [2]], [[1]]), "2 problems and final 1"),
        (lambda: delta_accuracy_interval([[1]], [[2]], rng=seeded()), "final_correct_PK holds 2"),
        (lambda: accuracy_interval([[1, 0]], rng=seeded(), resamples=10), "resamples is 10"),
        (lambda: accuracy_interval([[1, 0]], rng=seeded(), confidence=95), "confidence is 95"),
        (lambda: repetition_share([]), "empty"),
    ],
)
def test_bad_input_names_the_value(call, named) -> None:
    with pytest.raises(MethodError, match=named):
        call()
