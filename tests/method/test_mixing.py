from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparing.errors import MethodError
from sparing.method import plan_mixture, quota

candidates = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.875, 1.0]), min_size=1, max_size=40)


def plan(rates, *, rho=0.25, batch_size=8, rest="unmastered", seed=0, **settings):
    rates = np.array(rates, dtype=float)
    return plan_mixture(
        rates == 1, rates, rho=rho, batch_size=batch_size, rest=rest, rng=np.random.default_rng(seed), **settings
    )


@pytest.mark.parametrize(
    ("batch_size", "rho", "expected"),
    [
        (256, 0.1, (26, 230)),  # 25.6
        (100, 0.145, (15, 85)),  # exactly 14.5, although 0.145 * 100 < 14.5 in binary
        (10, 0.25, (3, 7)),  # 2.5
        (4, 0.1, (1, 3)),  # at least one of each
        (4, 0.9, (3, 1)),
        (2, 0.5, (1, 1)),
        (1, 0.1, (0, 1)),
        (1, 0.9, (1, 0)),
    ],
)
def test_quota(batch_size, rho, expected) -> None:
    assert quota(batch_size, rho) == expected


@given(st.integers(2, 2000), st.floats(0.001, 0.999))
def test_quota_adds_up_and_never_switches_a_share_off(batch_size, rho) -> None:
    num_mastered, num_rest = quota(batch_size, rho)
    assert num_mastered + num_rest == batch_size
    assert min(num_mastered, num_rest) >= 1
    assert abs(num_mastered - rho * batch_size) <= max(0.5 + 1e-9, 1)


def test_enough_of_both() -> None:
    result = plan([1.0] * 10 + [0.5] * 10)
    assert (result.compress < 10).all()
    assert len(result.compress) == 2
    assert (result.capability >= 10).all()
    assert len(result.capability) == 6
    assert (result.missing_compress, result.missing_rest, result.shortage) == (0, 0, "")


def test_too_few_mastered_are_replaced_by_rest_groups_without_penalty() -> None:
    result = plan([1.0] + [0.5] * 10)
    assert result.compress.tolist() == [0]
    assert len(result.capability) == 7
    assert (result.missing_compress, result.missing_rest) == (1, 0)
    assert result.shortage == "missing 1 of 2 mastered problems"


def test_too_few_rest_are_replaced_by_mastered_groups_without_penalty() -> None:
    result = plan([1.0] * 10 + [0.5] * 2)
    assert len(result.compress) == 2  # the penalised share never exceeds its quota
    assert len(result.capability) == 6
    assert {10, 11} <= set(result.capability.tolist())
    assert (result.missing_compress, result.missing_rest) == (0, 4)
    assert result.shortage == "missing 4 of 6 other problems"


def test_rest_all_draws_the_capability_share_from_everyone() -> None:
    mastered_drawn = [
        (plan([1.0] * 10 + [0.0] * 10, rest="all", seed=seed).capability < 10).sum() for seed in range(200)
    ]
    # 8 of the 18 left over are mastered, so 6 * 8 / 18 = 2.67 on average.
    assert np.mean(mastered_drawn) == pytest.approx(6 * 8 / 18, abs=0.3)
    assert plan([1.0] * 20, rest="all").shortage == ""


def test_partial_takes_partly_solved_then_unsolved_then_mastered() -> None:
    result = plan([1.0] * 10 + [0.0] * 3 + [0.5] * 2, rest="partial")
    chosen = set(result.capability.tolist())
    assert {10, 11, 12, 13, 14} <= chosen
    assert len(chosen) == 6
    assert result.missing_rest == 4
    enough = plan([1.0] * 4 + [0.0] * 10 + [0.5] * 6, rest="partial")
    assert enough.capability.tolist() == list(range(14, 20))
    assert enough.missing_rest == 0


def test_compressible_restricts_the_compression_share() -> None:
    allowed = [False] * 9 + [True] + [False] * 10
    result = plan([1.0] * 10 + [0.5] * 10, compressible=allowed)
    assert result.compress.tolist() == [9]
    assert result.missing_compress == 1


def test_fewer_candidates_than_the_batch() -> None:
    result = plan([1.0, 0.5, 0.0])
    assert sorted(result.indices.tolist()) == [0, 1, 2]
    assert "5 problems of the batch" in result.shortage


@given(candidates, st.floats(0.01, 0.99), st.integers(1, 12), st.sampled_from(["all", "unmastered", "partial"]))
def test_exact_size_no_repeats_and_a_bounded_penalised_share(rates, rho, batch_size, rest) -> None:
    result = plan(rates, rho=rho, batch_size=batch_size, rest=rest)
    num_mastered, num_rest = quota(batch_size, rho)
    indices = result.indices.tolist()
    assert len(indices) == min(batch_size, len(rates))
    assert len(set(indices)) == len(indices)
    assert all(rates[index] == 1 for index in result.compress)
    assert len(result.compress) + result.missing_compress == num_mastered
    assert 0 <= result.missing_rest <= num_rest
    full = result.missing_compress == result.missing_rest == 0
    assert (result.shortage == "") == (full and len(indices) == batch_size)


def test_the_same_generator_state_gives_the_same_plan() -> None:
    rates = [1.0] * 30 + [0.5] * 30
    first, again, other = (plan(rates, seed=seed).indices.tolist() for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_bad_input_names_the_value() -> None:
    with pytest.raises(MethodError, match="rho is 0"):
        quota(8, 0.0)
    with pytest.raises(MethodError, match="batch_size is 0"):
        quota(0, 0.5)
    with pytest.raises(MethodError, match="'none'"):
        plan([1.0, 0.5], rest="none")
    with pytest.raises(MethodError, match="same rollouts"):
        plan_mixture([True], [0.5], rho=0.5, batch_size=1, rest="all", rng=np.random.default_rng(0))
