from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sparing.data.index_pools import OUTSIDE, IndexPools

MOVES = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 2)), max_size=60)


@settings(max_examples=60, deadline=None)
@given(MOVES)
def test_pools_hold_what_was_moved_into_them_last(moves: list[tuple[int, int]]) -> None:
    pools = IndexPools(20, 3)
    expected: dict[int, int] = {}
    for index, pool in moves:
        pools.move(index, pool)
        expected[index] = pool
    for pool in range(3):
        members = pools.members(pool).tolist()
        assert sorted(members) == sorted(index for index, where in expected.items() if where == pool)
    assert pools.pool_of(np.arange(20)).tolist() == [expected.get(index, OUTSIDE) for index in range(20)]


@settings(max_examples=30, deadline=None)
@given(MOVES, MOVES)
def test_loaded_pools_continue_with_the_same_member_order(before: list[tuple[int, int]], after: list) -> None:
    pools, loaded = IndexPools(20, 3), IndexPools(20, 3)
    for move in before:
        pools.move(*move)
    loaded.load([pools.members(pool).copy() for pool in range(3)])
    for move in after:
        pools.move(*move)
        loaded.move(*move)
    for pool in range(3):
        assert loaded.members(pool).tolist() == pools.members(pool).tolist()


def test_pool_grows_beyond_its_first_capacity() -> None:
    pools = IndexPools(1000, 1)
    for index in range(1000):
        pools.move(index, 0)
    assert pools.members(0).tolist() == list(range(1000))


def test_pick_is_distinct_leaves_out_the_excluded_and_ends_with_the_pool() -> None:
    pools = IndexPools(30, 2)
    for index in range(30):
        pools.move(index, index % 2)
    excluded = np.array([0, 2, 3])
    picked = pools.pick(0, 100, np.random.default_rng(0), excluded)
    assert sorted(picked.tolist()) == list(range(4, 30, 2))
    assert pools.pick(0, 5, np.random.default_rng(1), excluded).shape == (5,)


def test_pick_takes_every_member_equally_often() -> None:
    pools = IndexPools(10, 1)
    for index in range(10):
        pools.move(index, 0)
    rng = np.random.default_rng(0)
    counts = np.zeros(10)
    for _ in range(3000):
        counts[pools.pick(0, 3, rng, np.array([4]))] += 1
    # 9 members share 9000 picks: 1000 each, standard deviation 26.
    assert counts[4] == 0
    assert np.all(np.abs(np.delete(counts, 4) - 1000) < 130)
