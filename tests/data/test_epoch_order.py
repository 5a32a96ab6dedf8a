from __future__ import annotations

import numpy as np
import pytest

from sparing.data.epoch_order import EpochOrder


@pytest.mark.parametrize("num", [1, 2, 3, 4, 5, 7, 16, 17, 64, 100, 1000, 4097])
def test_every_epoch_holds_every_problem_once(num: int) -> None:
    order = EpochOrder(num, seed=3)
    for epoch in range(3):
        assert sorted(order.at(epoch * num, num).tolist()) == list(range(num))


def test_places_do_not_depend_on_how_they_are_asked_for() -> None:
    order = EpochOrder(50, seed=1)
    whole = order.at(0, 120)
    parts = [order.at(place, 1)[0] for place in range(120)]
    assert whole.tolist() == parts
    assert np.concatenate([order.at(0, 47), order.at(47, 73)]).tolist() == parts


def test_epochs_and_seeds_differ() -> None:
    first, second = EpochOrder(100, seed=1).at(0, 200).reshape(2, 100)
    assert first.tolist() != second.tolist()
    assert EpochOrder(100, seed=2).at(0, 100).tolist() != first.tolist()


def test_each_problem_comes_first_about_equally_often() -> None:
    firsts = np.array([EpochOrder(7, seed).at(0, 1)[0] for seed in range(1400)])
    # 200 expected of each; five standard deviations are 65.
    assert np.all(np.abs(np.bincount(firsts, minlength=7) - 200) < 65)


def test_order_is_unrelated_to_the_file_order() -> None:
    values = EpochOrder(10_000, seed=0).at(0, 10_000)
    assert abs(np.corrcoef(np.arange(10_000), values)[0, 1]) < 0.05
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.05
