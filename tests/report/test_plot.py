from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparing.report.plot import SIZE, Axis, line, nice_axis, step_axis

finite = st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: value if abs(value) > 1e-6 else 0.0)


@given(st.lists(finite, min_size=1, max_size=20))
def test_axis_holds_its_values_between_few_even_ticks(values: list[float]) -> None:
    assume(max(values) == min(values) or max(values) - min(values) > 1e-6 * max(map(abs, values)))
    axis = nice_axis(values)
    room = 1e-6 * (axis.high - axis.low)
    assert axis.low - room <= min(values) and max(values) <= axis.high + room
    assert 2 <= len(axis.ticks) <= 8
    steps = [b - a for a, b in pairwise(axis.ticks)]
    assert max(steps) - min(steps) <= 1e-6 * max(steps)


@pytest.mark.parametrize(
    ("values", "ticks", "texts"),
    [
        ([0.0, 200.0], (0, 50, 100, 150, 200), ["0", "50", "100", "150", "200"]),
        ([0.62, 1.0], (0.6, 0.7, 0.8, 0.9, 1.0), ["0.6", "0.7", "0.8", "0.9", "1.0"]),
        ([0.0, 0.9], (0.0, 0.25, 0.5, 0.75, 1.0), ["0.00", "0.25", "0.50", "0.75", "1.00"]),
    ],
)
def test_ticks_by_hand(values: list[float], ticks: tuple[float, ...], texts: list[str]) -> None:
    axis = nice_axis(values)
    assert axis.ticks == pytest.approx(ticks)
    assert axis.texts == texts


def test_accuracy_axis_never_passes_one() -> None:
    assert nice_axis([0.7, 1.02], most=1.0).high == 1.0


def test_axis_of_nothing_and_of_one_value() -> None:
    assert nice_axis([]).high > nice_axis([math.nan]).low
    axis = nice_axis([5.0])
    assert axis.low < 5 < axis.high


def test_step_axis_ends_at_the_last_step() -> None:
    axis = step_axis(0, 83)
    assert (axis.low, axis.high) == (0, 83)
    assert axis.ticks == (0, 20, 40, 60, 80)
    assert step_axis(0, 0).high == 1
    assert step_axis(0, 3).ticks == (0, 1, 2, 3)


def test_line_breaks_where_a_value_is_missing() -> None:
    axis = Axis(low=0, high=1, ticks=())
    drawn = line(axis, axis, [(0, 0), (0.25, 0.5), (0.5, math.nan), (0.75, 1), (1, 1)], "length")
    assert drawn == f'<path d="M0 {SIZE}L250 500M750 0L1000 0" class="line length"/>'
    assert line(axis, axis, [(0, math.nan)], "length") is None
