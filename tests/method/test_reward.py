from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparing.errors import MethodError
from sparing.method import shaped_reward

rollouts = st.lists(st.tuples(st.booleans(), st.integers(1, 65536), st.booleans()), min_size=1, max_size=16)


def columns(group):
    correct, lengths, unknown = (list(column) for column in zip(*group, strict=True))
    # A verdict that was not reached is not correct, as in `RolloutGroup`.
    return [c and not u for c, u in zip(correct, unknown, strict=True)], lengths, unknown


def test_open_gate_by_hand() -> None:
    shaped = shaped_reward([1, 1, 1, 1], [10, 12, 14, 20])
    assert shaped.mastered
    np.testing.assert_allclose(shaped.penalty_N, [0, 0, -1 / 7, -1])
    # The longest rollout of a mastered group scores like a wrong answer.
    np.testing.assert_allclose(shaped.reward_N, [1, 1, 6 / 7, 0])


def test_closed_gate_by_hand() -> None:
    shaped = shaped_reward([1, 1, 0, 1], [10, 12, 14, 20])
    assert not shaped.mastered
    np.testing.assert_array_equal(shaped.reward_N, [1, 1, 0, 1])


def test_mastered_group_without_penalty_keeps_its_correctness() -> None:
    shaped = shaped_reward([1, 1, 1, 1], [10, 12, 14, 20], penalise=False)
    assert shaped.mastered
    np.testing.assert_array_equal(shaped.reward_N, np.ones(4))
    np.testing.assert_array_equal(shaped.penalty_N, np.zeros(4))


def test_unknown_closes_the_gate_for_the_whole_group() -> None:
    shaped = shaped_reward([1, 1, 1, 0], [10, 12, 14, 20], unknown_N=[0, 0, 0, 1])
    assert not shaped.mastered
    np.testing.assert_array_equal(shaped.reward_N, [1, 1, 1, 0])


@given(rollouts, st.floats(0, 1), st.floats(0, 500))
def test_between_zero_and_one_and_never_above_correctness(group, coef, min_spread) -> None:
    correct, lengths, unknown = columns(group)
    shaped = shaped_reward(correct, lengths, unknown_N=unknown, coef=coef, min_spread=min_spread)
    assert ((shaped.reward_N >= 0) & (shaped.reward_N <= 1)).all()
    assert (shaped.reward_N <= np.array(correct)).all()


@given(rollouts)
def test_wrong_never_beats_right(group) -> None:
    correct, lengths, unknown = columns(group)
    reward = shaped_reward(correct, lengths, unknown_N=unknown).reward_N
    right, wrong = reward[np.array(correct)], reward[~np.array(correct)]
    if right.size and wrong.size:
        assert right.min() > wrong.max()


@given(rollouts)
def test_closed_gate_leaves_correctness_exactly(group) -> None:
    correct, lengths, unknown = columns(group)
    shaped = shaped_reward(correct, lengths, unknown_N=unknown)
    assert shaped.mastered == (all(correct) and not any(unknown))
    if not shaped.mastered:
        np.testing.assert_array_equal(shaped.reward_N, np.array(correct, dtype=float))


@given(rollouts, st.randoms(), st.integers(1, 100))
def test_permutation_and_scale(group, random, factor) -> None:
    correct, lengths, unknown = columns(group)
    reward = shaped_reward(correct, lengths, unknown_N=unknown).reward_N
    order = list(range(len(group)))
    random.shuffle(order)
    shuffled = shaped_reward(
        [correct[i] for i in order], [factor * lengths[i] for i in order], unknown_N=[unknown[i] for i in order]
    ).reward_N
    np.testing.assert_allclose(shuffled, reward[order], atol=1e-12)


def test_lengths_and_correctness_must_fit() -> None:
    with pytest.raises(MethodError, match=r"lengths_N \(3,\)"):
        shaped_reward([1, 1], [10, 12, 14])
