from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparing.errors import MethodError
from sparing.method import max_length, safe_length, soft_length_penalty

lengths = st.lists(st.integers(0, 100_000), min_size=1, max_size=16)


def penalty(values, **settings):
    return soft_length_penalty(values, safe_length(values), max_length(values), **settings)


def test_by_hand() -> None:
    # L_start = (12 + 14) / 2 = 13 and L_max = 20: 14 is 1 of 7 tokens up the slope, 20 is all of it.
    np.testing.assert_allclose(penalty([10, 12, 14, 20]), [0, 0, -1 / 7, -1], rtol=1e-15)


def test_longer_than_any_rollout_of_the_group_gets_the_full_penalty() -> None:
    np.testing.assert_allclose(soft_length_penalty([13, 20, 21, 500], 13, 20), [0, -1, -1, -1])


def test_equal_targets_give_zero_even_beyond_them() -> None:
    np.testing.assert_array_equal(penalty([100, *[200] * 7]), np.zeros(8))
    np.testing.assert_array_equal(soft_length_penalty([5, 7, 900], 7, 7), np.zeros(3))


def test_scale_free_one_token_costs_everything_unless_min_spread_forgives_it() -> None:
    close = [100] * 4 + [101] * 4  # L_start 100.5, L_max 101
    np.testing.assert_array_equal(penalty(close), [0] * 4 + [-1] * 4)
    np.testing.assert_array_equal(penalty(close, min_spread=0.5), [0] * 4 + [-1] * 4)
    np.testing.assert_array_equal(penalty(close, min_spread=0.6), np.zeros(8))


def test_coefficient_scales_and_leaves_no_negative_zero() -> None:
    np.testing.assert_allclose(penalty([10, 12, 14, 20], coef=0.5), [0, 0, -1 / 14, -0.5])
    assert not np.signbit(penalty([10, 12, 14, 20], coef=0.0)).any()


@given(lengths)
def test_zero_at_or_below_the_median_and_at_least_half_of_the_group_is_free(values) -> None:
    result = penalty(values)
    assert ((result >= -1) & (result <= 0)).all()
    assert (result[np.array(values) <= safe_length(values)] == 0).all()
    assert (result == 0).sum() >= len(values) / 2


@given(lengths, st.randoms())
def test_permutation(values, random) -> None:
    order = list(range(len(values)))
    random.shuffle(order)
    np.testing.assert_array_equal(penalty([values[i] for i in order]), penalty(values)[order])


@given(lengths, st.integers(1, 1000))
def test_scale(values, factor) -> None:
    np.testing.assert_allclose(penalty([factor * value for value in values]), penalty(values), atol=1e-12)


@given(lengths)
def test_longer_is_never_penalised_less(values) -> None:
    assert (np.diff(penalty(sorted(values))) <= 0).all()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"safe_length": 9, "max_length": 8}, "8"),
        ({"safe_length": 9, "max_length": 10, "coef": 1.5}, "1.5"),
        ({"safe_length": 9, "max_length": 10, "min_spread": -1}, "-1"),
        ({"safe_length": float("nan"), "max_length": 10}, "nan"),
    ],
)
def test_bad_input_names_the_value(settings, named) -> None:
    with pytest.raises(MethodError, match=named):
        soft_length_penalty([1, 2], **settings)
