from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from sparing.data.mastery_table import NUM_BANDS, MasteryTable, band_of
from sparing.errors import DataError, RunError


def test_bands_keep_the_ends_apart() -> None:
    rates = np.array([0, 1 / 8, 2 / 8, 4 / 8, 5 / 8, 6 / 8, 7 / 8, 15 / 16, 1])
    assert band_of(rates).tolist() == [0, 1, 2, 3, 3, 4, 5, 6, NUM_BANDS - 1]


def test_prediction_is_a_distribution_ordered_by_pass_rate() -> None:
    table = MasteryTable(10)
    table.observe(np.arange(4), np.array([0.0, 0.5, 7 / 8, 1.0]), step=1)
    chances = table.predict(np.arange(5), step=2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.all(np.diff(table.expected_mastery(np.arange(4), step=2)) > 0)


def test_old_observations_decay_to_the_base_rate() -> None:
    table = MasteryTable(100)
    # 90 of the 100 problems are unsolved, so the base rate of mastery is about 1 in 10.
    table.observe(np.arange(100), np.r_[np.ones(10), np.zeros(90)], step=1)
    base = table.base_rate()[2]
    assert base == pytest.approx(11 / 103)
    ages = [1, 100, 500, 2000, 8000]
    mastered = [table.expected_mastery(np.array([0]), step=1 + age)[0] for age in ages]
    unsolved = [table.expected_mastery(np.array([50]), step=1 + age)[0] for age in ages]
    assert np.all(np.diff(mastered) < 0) and mastered[-1] == pytest.approx(base, abs=0.05)
    assert np.all(np.diff(unsolved) > 0) and unsolved[-1] == pytest.approx(base, abs=0.05)


def test_prediction_learns_how_often_mastered_problems_stay_mastered() -> None:
    rng = np.random.default_rng(0)
    table = MasteryTable(20_000)
    for step in range(0, 400, 4):
        index = np.arange(50 * step, 50 * step + 50)
        table.observe(index, np.ones(50), step=step)
        # Here 55 % of mastered problems still are at the next look, far from the first guess of 80 %.
        table.observe(index, np.where(rng.random(50) < 0.55, 1.0, 7 / 8), step=step + 1)
    fresh = np.arange(19_900, 19_950)
    table.observe(fresh, np.ones(50), step=401)
    assert table.expected_mastery(fresh, step=402).mean() == pytest.approx(0.55, abs=0.06)
    metrics = table.metrics()
    assert metrics["predicted_mastery"] == pytest.approx(metrics["observed_mastery"], abs=0.03)


def test_calibrated_by_age() -> None:
    rng = np.random.default_rng(1)
    table = MasteryTable(4000)
    # Problems forget: 90 % of the mastered ones still are after one step, 40 % after eight.
    for start in range(0, 4000, 40):
        step = 20 * (start // 40)
        index = np.arange(start, start + 40)
        table.observe(index, np.ones(40), step=step)
        young, old = index[:20], index[20:]
        table.observe(young, np.where(rng.random(20) < 0.9, 1.0, 0.5), step=step + 1)
        table.observe(old, np.where(rng.random(20) < 0.4, 1.0, 0.5), step=step + 8)
    last = np.arange(3960, 4000)
    table.observe(last, np.ones(40), step=step + 20)
    assert table.expected_mastery(last, step + 21).mean() == pytest.approx(0.9, abs=0.1)
    assert table.expected_mastery(last, step + 28).mean() == pytest.approx(0.4, abs=0.15)


def test_restored_table_is_bit_exact_and_continues_identically() -> None:
    rng = np.random.default_rng(5)
    table, restored = MasteryTable(300), MasteryTable(300)

    def look(target: MasteryTable, step: int) -> None:
        step_rng = np.random.default_rng(step)
        target.observe(step_rng.choice(300, 40, replace=False), step_rng.integers(0, 9, 40) / 8, step)

    for step in range(20):
        look(table, step)
    buffer = io.BytesIO()
    torch.save(table.state_dict(), buffer)
    buffer.seek(0)
    restored.observe(np.arange(300), rng.random(300), step=3)  # whatever it knew before is forgotten
    restored.load_state_dict(torch.load(buffer, weights_only=False))
    for step in range(20, 40):
        look(table, step)
        look(restored, step)
    for name, value in table.state_dict().items():
        assert np.array_equal(value, restored.state_dict()[name]), name
    assert np.array_equal(table.predict(np.arange(300), 41), restored.predict(np.arange(300), 41))


def test_state_is_arrays_and_ints_and_grows_with_the_seen_only() -> None:
    table = MasteryTable(1_000_000)
    table.observe(np.arange(10), np.ones(10), step=1)
    state = table.state_dict()
    assert all(isinstance(value, np.ndarray | int) for value in state.values())
    assert sum(value.nbytes for value in state.values() if isinstance(value, np.ndarray)) < 10_000


def test_state_of_other_data_is_refused() -> None:
    with pytest.raises(RunError, match=r"knows 10 problems and the data has 11; resume with the data"):
        MasteryTable(11).load_state_dict(MasteryTable(10).state_dict())


@pytest.mark.parametrize(
    ("index", "rates", "message"),
    [
        ([0, 1], [1.0], "one pass rate an index"),
        ([5], [1.0], r"outside 0\.\.4"),
        ([-1], [1.0], r"outside 0\.\.4"),
        ([0], [1.5], r"in \[0, 1\]"),
        ([0], [float("nan")], r"in \[0, 1\]"),
    ],
)
def test_broken_observations_are_refused(index: list[int], rates: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        MasteryTable(5).observe(np.array(index), np.array(rates), step=1)


def test_step_that_goes_back_counts_as_fresh() -> None:
    table = MasteryTable(5)
    table.observe(np.array([0]), np.array([1.0]), step=50)
    assert table.expected_mastery(np.array([0]), step=10)[0] == table.expected_mastery(np.array([0]), step=51)[0]
