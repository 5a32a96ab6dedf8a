from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparing.errors import MethodError
from sparing.method import group_advantages, shaped_reward

rewards = st.lists(st.floats(0, 1), min_size=1, max_size=16)


def test_by_hand() -> None:
    # Mean 0.5; squared distances sum to 4 * 0.25 = 1, over N - 1 = 3.
    np.testing.assert_allclose(group_advantages([1, 1, 0, 0], normalise="none"), [0.5, 0.5, -0.5, -0.5])
    scaled = 0.5 / (np.sqrt(1 / 3) + 1e-4)
    np.testing.assert_allclose(
        group_advantages([1, 1, 0, 0], normalise="std"), [scaled, scaled, -scaled, -scaled], rtol=1e-14
    )


@pytest.mark.parametrize("normalise", ["std", "none"])
@pytest.mark.parametrize("group", [[1.0] * 8, [0.0] * 8, [0.1] * 3, [1.0]])
def test_no_spread_gives_exact_zeros(group, normalise) -> None:
    assert group_advantages(group, normalise=normalise).tolist() == [0.0] * len(group)


@given(rewards, st.sampled_from(["std", "none"]))
def test_sum_to_zero_and_finite(group, normalise) -> None:
    advantages = group_advantages(group, normalise=normalise)
    assert np.isfinite(advantages).all()
    assert abs(advantages.sum()) < 1e-9


@given(rewards)
def test_order_of_rewards_is_kept(group) -> None:
    for normalise in ("std", "none"):
        advantages = group_advantages(sorted(group), normalise=normalise)
        assert (np.diff(advantages) >= 0).all()


def test_coefficient_of_the_penalty_cancels_with_std_and_stays_without() -> None:
    full, small = (shaped_reward([1] * 4, [10, 12, 14, 20], coef=coef).reward_N for coef in (1.0, 0.01))
    np.testing.assert_allclose(
        group_advantages(small, normalise="std"), group_advantages(full, normalise="std"), rtol=0.03
    )
    np.testing.assert_allclose(
        group_advantages(small, normalise="none"), 0.01 * group_advantages(full, normalise="none"), rtol=1e-9
    )


def test_bad_input_names_the_value() -> None:
    with pytest.raises(MethodError, match="nan"):
        group_advantages([1.0, float("nan")], normalise="std")
    with pytest.raises(MethodError, match="'variance'"):
        group_advantages([1.0, 0.0], normalise="variance")
